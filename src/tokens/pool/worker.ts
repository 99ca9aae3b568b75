/** The thread's side: loads tokenizers, encodes long texts, renders what is too much for the loop. Keeps encoders for a few models. */
import { threadId } from 'node:worker_threads'
import { LRUCache } from 'lru-cache'
import { Tinypool } from 'tinypool'
import type { ErrorCode } from '../../core/protocol/index.js'
import { WarmrouteError } from '../../core/protocol/index.js'
import { buildPrompt } from '../chat/build-prompt.js'
import type { ParsedTemplate } from '../chat/chat-template.js'
import { readBody } from '../chat/exact-body.js'
import { ChatTemplates, renderChat } from '../chat/chat-template.js'
import { LoadOnlyError, truncate } from '../chat/request.js'
import type { IdsPrompt, LoadOnlyReason, TextPrompt } from '../chat/request.js'
import { Encoder } from '../encode/encoder.js'
import { LibraryTokenizer } from '../encode/library-tokenizer.js'
import type { LoadedModel } from '../model/loaded-model.js'
import { loadModel, readShared } from '../model/loaded-model.js'
import type { TokensAnswer } from '../sources/read-answer.js'
import { readAnswer } from '../sources/read-answer.js'
import { JsonError } from '../template/python-json.js'
import { parseTemplate } from '../template/parse.js'
import { TemplateLimitError } from '../template/run.js'
import { WatchedClock } from '../template/strftime.js'
import type { EncoderPlan } from '../vocabulary/plan.js'
import type { TokenizerConfigFile, TokenizerFile } from '../vocabulary/tokenizer-file.js'
import { viewVocabulary } from '../vocabulary/vocabulary.js'
import type {
  Answer,
  AnswerTask,
  EncodeResult,
  EncodeTask,
  IdsResult,
  LoadTask,
  ModelTables,
  ParseTask,
  RenderResult,
  RenderTask,
  TextsResult,
} from './tasks.js'

const modelsKept = 4
const pieceCacheBytes = 4 << 20
const utf8 = new TextEncoder()
const encoders = new LRUCache<string, TextEncoderOfModel>({ max: modelsKept })
const templates = new LRUCache<string, ChatTemplates>({ max: modelsKept })

interface TextEncoderOfModel {
  encode(text: Uint8Array, isContinued: boolean): EncodeResult
}

export function load(task: LoadTask): Answer<LoadedModel> {
  return guarded(() => loadModel(task.folder, task.key, task.reading), 'WR_TOKENS_BAD_TOKENIZER')
}

export function encode(task: EncodeTask): Answer<EncodeResult> {
  return given(
    guarded(() => encoderOf(task.model).encode(task.text, task.isContinued), 'WR_TOKENS_SOURCE_FAILED'),
    ({ ids, cuts }) => [ids, cuts],
  )
}

export function render(task: RenderTask): Answer<RenderResult | TextsResult | IdsResult> {
  return given(readAndRender(task), (it) => {
    if (it.kind === 'ids') return [it.ids]
    return it.kind === 'chat' ? [it.text.bytes] : [it.bytes, it.ends, it.units]
  })
}

function readAndRender(task: RenderTask): Answer<RenderResult | TextsResult | IdsResult> {
  return guarded(() => {
    const body = readBody(new TextDecoder().decode(task.raw))
    const chats = templatesOf(task)
    const prompt = buildPrompt(task.route, body, task.rules, (...use) => {
      const chosen = chats.choose(...use)
      if (!chosen) throw new LoadOnlyError('no-template', 'the model has no chat template')
      return chosen
    })
    if (prompt.kind === 'ids') return idsOf(prompt)
    if (prompt.kind === 'text') return textsOf(prompt, task.outputMax)
    const { suffix, addSpecialTokens, truncation, isProven } = prompt
    const limits = { stepsMax: Infinity, outputMax: task.outputMax, deadlineMs: task.deadlineMs }
    const clock = new WatchedClock()
    const options = { limits, now: () => performance.now(), date: clock.date }
    const text = renderChat(prompt.chosen, prompt.render, options)
    return {
      kind: 'chat',
      text: { bytes: utf8.encode(text), units: text.length },
      suffix,
      addSpecialTokens,
      truncation,
      isProven: isProven && !clock.isRead,
    }
  })
}

function idsOf({ ids, truncation, isProven }: IdsPrompt): IdsResult {
  const totalCount = ids.reduce((sum, it) => sum + truncate(it, truncation).length, 0)
  return { kind: 'ids', ids: truncate(ids[0]!, truncation).slice(), promptCount: ids.length, totalCount, isProven }
}

function textsOf({ texts, addSpecialTokens, truncation, isProven }: TextPrompt, lengthMax: number): TextsResult {
  const length = texts.reduce((sum, it) => sum + it.length, 0)
  if (length > lengthMax) throw new WarmrouteError('WR_TOKENS_TEXT_TOO_LONG', { length, lengthMax })
  let end = 0
  const ends = Uint32Array.from(texts, (it) => (end += Buffer.byteLength(it)))
  const bytes = new Uint8Array(end)
  texts.forEach((it, index) => utf8.encodeInto(it, bytes.subarray(index === 0 ? 0 : ends[index - 1])))
  const units = Uint32Array.from(texts, (it) => it.length)
  return { kind: 'text', bytes, ends, units, addSpecialTokens, truncation, isProven }
}

export function answer({ bytes }: AnswerTask): Answer<TokensAnswer> {
  return given(
    guarded(() => readAnswer(bytes), 'WR_TOKENS_SOURCE_FAILED'),
    ({ ids }) => (ids ? [ids] : []),
  )
}

export function parse(task: ParseTask): Answer<readonly ParsedTemplate[]> {
  return guarded(() => task.map(({ name, source }) => ({ name, source, parsed: parseTemplate(source) })))
}

/** Its arrays are given to the loop: a copy would be made there, all at once. */
function given<T>(answer: Answer<T>, arraysOf: (value: T) => readonly ArrayBufferView[]): Answer<T> {
  if (answer.kind === 'failed') return answer
  const away = arraysOf(answer.value).map(({ buffer }) => buffer)
  const moved: object = { [Tinypool.transferableSymbol]: away, [Tinypool.valueSymbol]: answer }
  return Tinypool.move(moved as ArrayBuffer) as unknown as Answer<T> // its types know of single buffers only
}

/** `code` is for errors that have none of their own. */
function guarded<T>(work: () => T, code: ErrorCode = 'WR_TOKENS_TEMPLATE_FAILED'): Answer<T> {
  try {
    return { kind: 'done', value: work() }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    if (error instanceof WarmrouteError)
      return { kind: 'failed', code: error.code, reason, details: { ...error.details } }
    if (error instanceof TemplateLimitError && error.limit === 'time')
      return { kind: 'failed', code: 'WR_TOKENS_DEADLINE', reason, details: {} }
    return { kind: 'failed', code: reasonOf(error) ?? code, reason, details: {} }
  }
}

function reasonOf(error: unknown): LoadOnlyReason | undefined {
  return error instanceof LoadOnlyError || error instanceof JsonError ? error.reason : undefined
}

function encoderOf(model: ModelTables): TextEncoderOfModel {
  const known = encoders.get(model.key)
  if (known) return known
  const fresh = model.vocabulary ? ownEncoder(model, model.vocabulary) : libraryEncoder(model)
  encoders.set(model.key, fresh)
  return fresh
}

function ownEncoder(model: ModelTables, buffer: SharedArrayBuffer): TextEncoderOfModel {
  const plan = JSON.parse(readShared(model.plan)) as EncoderPlan
  const encoder = new Encoder(plan, viewVocabulary(buffer), { pieceCacheBytes, segmentCacheBytes: pieceCacheBytes })
  return {
    encode(text, isContinued) {
      encoder.loadBytes(text, isContinued)
      encoder.encodeFrom(0)
      const held = { thread: threadId, bytes: encoder.cacheBytes }
      return { ids: encoder.takeIds(false), cuts: encoder.boundaries.take(), counted: encoder.takeCounts(), held }
    },
  }
}

const utf16 = new TextDecoder('utf-8', { ignoreBOM: true }) // a mark is a character here

function libraryEncoder(model: ModelTables): TextEncoderOfModel {
  const [file, config] = JSON.parse(readShared(model.library!)) as [TokenizerFile, TokenizerConfigFile]
  const tokenizer = new LibraryTokenizer(file, config)
  return {
    encode(text) {
      const ids = tokenizer.encode(utf16.decode(text))
      return { ids, cuts: new Uint32Array(0), counted: undefined, held: { thread: threadId, bytes: 0 } }
    },
  }
}

function templatesOf(task: RenderTask): ChatTemplates {
  const known = templates.get(task.key)
  if (known) return known
  const parsed = task.templates.map(({ name, source }) => ({ name, source, parsed: parseTemplate(source) }))
  const fresh = new ChatTemplates(parsed, task.specials)
  templates.set(task.key, fresh)
  return fresh
}
