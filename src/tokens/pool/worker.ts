/** The thread's side: loads tokenizers, encodes long texts, renders what is too much for the loop. Keeps encoders for a few models. */
import { Tokenizer as LibraryTokenizer } from '@huggingface/tokenizers'
import { LRUCache } from 'lru-cache'
import { WarmrouteError } from '../../core/protocol/index.js'
import { buildPrompt } from '../chat/build-prompt.js'
import type { ParsedTemplate } from '../chat/chat-template.js'
import { ChatTemplates, renderChat } from '../chat/chat-template.js'
import { LoadOnlyError } from '../chat/request.js'
import type { Body } from '../chat/request.js'
import { Encoder } from '../encode/encoder.js'
import type { LoadedModel } from '../model/loaded-model.js'
import { loadModel, readShared } from '../model/loaded-model.js'
import type { TokensAnswer } from '../sources/read-answer.js'
import { readAnswer } from '../sources/read-answer.js'
import { parsePythonJson } from '../template/python-json.js'
import { parseTemplate } from '../template/template.js'
import type { EncoderPlan } from '../vocabulary/plan.js'
import { viewVocabulary } from '../vocabulary/vocabulary.js'
import type {
  Answer,
  AnswerTask,
  EncodeResult,
  EncodeTask,
  LoadTask,
  ModelTables,
  ParseTask,
  RenderResult,
  RenderTask,
} from './tasks.js'

const modelsKept = 4
const pieceCacheBytes = 4 << 20
const encoders = new LRUCache<string, TextEncoderOfModel>({ max: modelsKept })
const templates = new LRUCache<string, ChatTemplates>({ max: modelsKept })

interface TextEncoderOfModel {
  encode(text: Uint8Array | string, isContinued: boolean): EncodeResult
}

export function load(task: LoadTask): Answer<LoadedModel> {
  return guarded(() => loadModel(task.folder, task.key, task.options))
}

export function encode(task: EncodeTask): Answer<EncodeResult> {
  return guarded(() => encoderOf(task.model).encode(task.text, task.isContinued))
}

export function render(task: RenderTask): Answer<RenderResult> {
  return guarded(() => {
    const body = parsePythonJson(new TextDecoder().decode(task.raw)) as Body
    const chats = templatesOf(task)
    const prompt = buildPrompt(task.route, body, task.rules, (hasTools) => {
      const chosen = chats.choose(hasTools)
      if (!chosen) throw new LoadOnlyError('no-template', 'the model has no chat template')
      return chosen
    })
    if (prompt.kind !== 'chat') throw new LoadOnlyError('malformed', 'only chats are rendered')
    const { suffix, addSpecialTokens, truncation, isProven } = prompt
    const limits = { stepsMax: Infinity, outputMax: task.outputMax, deadlineMs: task.deadlineMs }
    const options = { limits, now: () => performance.now(), date: () => new Date() }
    const text = renderChat(chats.choose(prompt.render.tools !== null)!, prompt.render, options)
    return { text, suffix, addSpecialTokens, truncation, isProven }
  })
}

export function answer({ bytes }: AnswerTask): Answer<TokensAnswer> {
  return guarded(() => readAnswer(bytes))
}

export function parse(task: ParseTask): Answer<readonly ParsedTemplate[]> {
  return guarded(() => task.map(({ name, source }) => ({ name, source, parsed: parseTemplate(source) })))
}

function guarded<T>(work: () => T): Answer<T> {
  try {
    return { kind: 'done', value: work() }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    if (error instanceof WarmrouteError)
      return { kind: 'failed', code: error.code, reason, details: { ...error.details } }
    const code = error instanceof LoadOnlyError ? error.reason : 'WR_TOKENS_TEMPLATE_FAILED'
    return { kind: 'failed', code, reason, details: {} }
  }
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
      if (typeof text === 'string') encoder.load(text)
      else encoder.loadBytes(text, isContinued)
      encoder.encodeFrom(0)
      return { ids: encoder.takeIds(false), cuts: encoder.boundaries.take(), counted: encoder.takeCounts() }
    },
  }
}

function libraryEncoder(model: ModelTables): TextEncoderOfModel {
  const [file, config] = JSON.parse(readShared(model.library!)) as [object, object]
  const tokenizer = new (
    LibraryTokenizer as unknown as new (
      file: object,
      config: object,
    ) => { encode(text: string, options: object): { readonly ids: readonly number[] } }
  )(file, config)
  const none = new Uint32Array(0)
  return {
    encode(given) {
      const text = typeof given === 'string' ? given : new TextDecoder().decode(given)
      const { ids } = tokenizer.encode(text, { add_special_tokens: false })
      return { ids: Uint32Array.from(ids), cuts: none, counted: undefined }
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
