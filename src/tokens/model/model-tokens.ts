/**
 * One model's tokenizer at work: renders and encodes on the loop while that is short, and hands the rest to the threads.
 * Nothing here holds the loop for more than a few milliseconds, whatever the request.
 */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { PromptRules } from '../chat/build-prompt.js'
import { buildPrompt, plainRules } from '../chat/build-prompt.js'
import type { ChosenTemplate } from '../chat/chat-template.js'
import { ChatTemplates, continueChat } from '../chat/chat-template.js'
import { exactBody } from '../chat/exact-body.js'
import type { Around, Body, ChatPrompt, Dialect, Route, Truncation } from '../chat/request.js'
import { LoadOnlyError, truncate } from '../chat/request.js'
import type { EncoderCounts } from '../encode/encoder.js'
import { spellInSlices } from '../long-body.js'
import type { CacheCounts } from '../encode/ids-cache.js'
import type { TokenPool } from '../pool/pool.js'
import type { IdsResult, RenderResult, TaskTypes, TextBytes, TextsResult } from '../pool/tasks.js'
import { copyInSlices, joinInSlices, nextTurn } from '../next-turn.js'
import type { RememberedText } from '../remember/remembered-texts.js'
import { sizeOfText } from '../remember/remembered-texts.js'
import type { PrefixCounts, Rendering } from '../template/rendered-prefixes.js'
import { RenderedPrefixes } from '../template/rendered-prefixes.js'
import { TemplateLimitError } from '../template/run.js'
import { WatchedClock } from '../template/strftime.js'
import type { PieceCounts } from '../sources/engine-pieces.js'
import { Tokens } from '../tokens.js'
import type { EncoderPlan, LibraryPlan } from '../vocabulary/plan.js'
import type { OwnRenderers } from '../sources/own-renderers.js'
import type { LoadedModel } from './loaded-model.js'
import type { Reading } from './readings.js'
import { readShared } from './loaded-model.js'
import type { Encoded } from './model-texts.js'
import { deadlineMsDefault, ModelTexts } from './model-texts.js'

export interface ModelTokensOptions {
  /** Bytes of all caches of this model on this thread. */
  readonly cacheBytes?: number
  /** Longest text, in UTF-16 units. */
  readonly textMax?: number
  /** Cold bytes that are encoded on the loop; more go to a thread. */
  readonly loopBytesMax?: number
  /** Rendering, or encoding, that has held the loop for so long is left to a thread. */
  readonly loopMsMax?: number
  /** Texts of so many UTF-16 units are read and searched for in one turn of the loop; longer ones take several. */
  readonly turnUnitsMax?: number
  readonly rules?: Partial<PromptRules>
  /** The time that a template's `strftime_now` shows, in the zone of this process. */
  readonly date?: () => Date
  /** False: every conversation is rendered in full. */
  readonly keepsRenderings?: boolean
}

export interface TokenizeOptions {
  /** As this engine builds prompts, where that is another than the model's usual one. */
  readonly rules?: Partial<PromptRules> | undefined
  /** The request's own bytes, when there are any: they keep `1.0` apart from `1`. */
  readonly raw?: Uint8Array | undefined
  readonly signal?: AbortSignal | undefined
  readonly deadlineMs?: number | undefined
}

export interface ModelCounts {
  readonly encoder: EncoderCounts | undefined
  /** The caches of the threads that encoded for this model, as far as they answered. */
  readonly inThread?: EncoderCounts | undefined
  readonly texts: CacheCounts
  /** The ids of an engine's earlier answers. */
  readonly ids?: CacheCounts | undefined
  /** What an engine beside the model's files said of media. */
  readonly answers?: CacheCounts | undefined
  /** Rendered conversations; nothing where the engine renders. */
  readonly prefixes: PrefixCounts | undefined
  /** Prompts of which an engine was asked only the new end. */
  readonly ends?: PieceCounts | undefined
  readonly cacheBytes: number
  /** What the caches of the threads held when each last answered. */
  readonly threadCacheBytes?: number | undefined
  readonly onLoop: number
  readonly inThreads: number
}

/** Cold bytes that are encoded on the loop: about 4 ms of it (bench `tokens.loop_stall_max_ms`). */
const loopBytesMaxDefault = 48 << 10
const loopStepsMax = 20_000
/** Bytes and steps tell what work usually takes; code that has just been loaded, and texts that are meant to hurt, take longer. */
const [renderMsMax, encodeMsMax] = [4, 6]
/** Whoever has rendered for so long lets others have a turn before it encodes. */
const turnMsMax = 1
/** Of a request that a thread reads: copying and giving it away takes the loop a millisecond for each four megabytes. */
const rawBytesMax = 16 << 20
/** Of a batch, texts that are encoded in one turn of the loop; each counts for a few more units than it has. */
const batchUnitsMax = 32 << 10
const unitsPerText = 256
const cacheBytesDefault = 96 << 20
/** Of more, the ids alone take the loop too long to receive and hash. */
const textMaxDefault = 4 << 20

export class ModelTokens {
  readonly plan: EncoderPlan | LibraryPlan
  readonly templateProblem: string | undefined
  /** The highest token id that the model has, where its files tell. */
  readonly idMax: number | undefined
  readonly #loaded: LoadedModel
  readonly #pool: TokenPool
  readonly #texts: ModelTexts
  readonly #prefixes: RenderedPrefixes<RememberedText>
  readonly #templates: ChatTemplates
  readonly #rules: PromptRules
  readonly #textMax: number
  readonly #renderMsMax: number
  readonly #encodeMsMax: number
  readonly #date: (() => Date) | undefined

  constructor(loaded: LoadedModel, pool: TokenPool, options: ModelTokensOptions = {}) {
    const cacheBytes = options.cacheBytes ?? cacheBytesDefault
    this.#loaded = loaded
    this.idMax = loaded.idMax
    this.#pool = pool
    this.plan = JSON.parse(readShared(loaded.plan)) as EncoderPlan | LibraryPlan
    this.#prefixes = new RenderedPrefixes(options.keepsRenderings === false ? 0 : cacheBytes / 8, { sizeOfText })
    this.#textMax = options.textMax ?? textMaxDefault
    this.#renderMsMax = options.loopMsMax ?? renderMsMax
    this.#encodeMsMax = options.loopMsMax ?? encodeMsMax
    this.#texts = new ModelTexts(this.plan, loaded, pool, {
      cacheBytes: (cacheBytes * 7) / 8,
      textMax: this.#textMax,
      loopBytesMax: options.loopBytesMax ?? loopBytesMaxDefault,
      loopMsMax: this.#encodeMsMax,
      turnUnitsMax: options.turnUnitsMax,
      onGrown: (text) => this.#prefixes.measure(text),
    })
    this.#date = options.date
    const { isEncodedAgain: isUsual } = loaded
    const encodesAgain = isUsual === undefined ? undefined : { isUsual, addsSpecials: this.fillsEmptyTexts }
    this.#rules = { ...plainRules, encodesAgain, specialsBut: this.plan.specialsBut, ...options.rules }
    const { templates, problem } = readyTemplates(loaded)
    this.#templates = templates
    this.templateProblem = loaded.templateProblem ?? problem
  }

  /** Whether special tokens stand around every text, an empty one too. */
  get fillsEmptyTexts(): boolean {
    return this.plan.specialsBefore.length + this.plan.specialsAfter.length > 0
  }

  /** Why an engine may have another tokenizer; undefined once one has said that it has not. */
  get unsure(): string | undefined {
    return this.#texts.unsure
  }

  /** Chats that engines render by code of their own. */
  get ownRenderers(): OwnRenderers {
    return this.#loaded.ownRenderers
  }

  get otherReadings(): readonly Reading[] {
    return this.#loaded.otherReadings
  }

  /** An engine has the same tokens, so that nothing about its tokenizer is guessed any more. */
  confirm(): void {
    this.#texts.confirm()
  }

  get counts(): ModelCounts {
    const { counts } = this.#texts
    return { ...counts, prefixes: this.#prefixes.counts, cacheBytes: counts.cacheBytes + this.#prefixes.byteLength }
  }

  /** The tokens of a request. Throws `LoadOnlyError` for what cannot be known, `WarmrouteError` for what failed. */
  async tokenize(route: Route, body: Body | undefined, options: TokenizeOptions = {}): Promise<Tokens> {
    const exact = body && exactBody(route, body, options.raw)
    if (exact === undefined) return this.#readInThread(route, await rawOf(body, options), options)
    const prompt = buildPrompt(route, exact, this.#rulesOf(options), (...use) => this.#choose(...use))
    if (prompt.kind === 'ids') {
      const ids = truncate(prompt.ids[0]!, prompt.truncation)
      const totalCount = prompt.ids.reduce((sum, it) => sum + truncate(it, prompt.truncation).length, 0)
      return tokensOfRequest({ ids, promptCount: prompt.ids.length, totalCount, isProven: prompt.isProven })
    }
    if (prompt.kind === 'text') {
      const { texts, addSpecialTokens } = prompt
      return this.#encodeTexts(
        {
          ...prompt,
          count: texts.length,
          unitsOf: (index) => texts[index]!.length,
          encode: (index) => this.#texts.encode(texts[index]!, addSpecialTokens, options),
        },
        options,
      )
    }
    const started = performance.now()
    const rendered = this.#renderOnLoop(prompt)
    if (rendered !== undefined) return this.#encodeRendered(rendered, options, started)
    return this.#readInThread(route, await rawOf(body, options), options)
  }

  /** Reads and renders a request where that holds nobody; what comes back is encoded as any other text. */
  async #readInThread(route: Route, raw: Uint8Array, options: TokenizeOptions): Promise<Tokens> {
    const started = performance.now()
    const read = await this.#askThreadToRead(route, raw, options)
    if (read.kind === 'chat') return this.#encodeRendered({ ...read, rendering: undefined }, options, started)
    if (read.kind === 'text') return this.#encodeTexts(this.#promptsOf(read, options), options)
    return tokensOfRequest(read)
  }

  #promptsOf({ bytes, ends, units, ...how }: TextsResult, options: TokenizeOptions): Prompts {
    const encode = (index: number): Encoded | Promise<Encoded> => {
      const from = index === 0 ? 0 : ends[index - 1]!
      // One that has all of the memory may have taken it to a thread; those behind it are empty then, and need none.
      const own = from === ends[index] ? noBytes : bytes.subarray(from, ends[index])
      return this.#texts.encodeBytes({ bytes: own, units: units[index]! }, how.addSpecialTokens, options)
    }
    return { ...how, count: ends.length, unitsOf: (index) => units[index]!, encode }
  }

  /** Ids of a text alone, through every cache. */
  async encode(text: string, addSpecialTokens: boolean, options: TokenizeOptions = {}): Promise<Uint32Array> {
    return (await this.#texts.encode(text, addSpecialTokens, options)).ids
  }

  #rulesOf({ rules }: TokenizeOptions): PromptRules {
    return rules ? { ...this.#rules, ...rules } : this.#rules
  }

  #choose(hasTools: boolean, dialect: Dialect): ChosenTemplate {
    const chosen = this.#templates.choose(hasTools, dialect)
    if (chosen) return chosen
    throw new LoadOnlyError('no-template', this.templateProblem ?? 'the model has no chat template')
  }

  #renderOnLoop(prompt: ChatPrompt): RenderedPrompt | undefined {
    const limits = { stepsMax: loopStepsMax, outputMax: this.#textMax, deadlineMs: this.#renderMsMax }
    const clock = new WatchedClock(this.#date)
    try {
      const options = { limits, now, date: clock.date }
      const rendering = continueChat(prompt.chosen, prompt.render, options, this.#prefixes)
      return { ...prompt, rendering, isProven: prompt.isProven && !clock.isRead }
    } catch (cause) {
      if (cause instanceof TemplateLimitError && cause.limit !== 'output') return undefined
      if (cause instanceof LoadOnlyError) throw cause
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw new WarmrouteError('WR_TOKENS_TEMPLATE_FAILED', { reason }, { cause })
    }
  }

  async #askThreadToRead(
    route: Route,
    given: Uint8Array,
    options: TokenizeOptions,
  ): Promise<TaskTypes['render']['result']> {
    if (given.length > rawBytesMax) {
      throw new WarmrouteError('WR_TOKENS_TEXT_TOO_LONG', { length: given.length, lengthMax: rawBytesMax })
    }
    const raw = await copyInSlices(given)
    const deadlineMs = options.deadlineMs ?? deadlineMsDefault
    const { key, specials } = this.#loaded
    const templates = this.#loaded.templates.map(({ name, source }) => ({ name, source }))
    const rules = this.#rulesOf(options)
    const task = { key, templates, specials, route, raw, rules, outputMax: this.#textMax, deadlineMs }
    const transfer = [raw.buffer]
    return this.#pool.run('render', task, { deadlineMs: deadlineMs + 100, signal: options.signal, transfer })
  }

  async #encodeRendered(rendered: RenderedPrompt, options: TokenizeOptions, started: number): Promise<Tokens> {
    const renderedAt = performance.now()
    const { rendering, suffix, addSpecialTokens, truncation, isProven } = rendered
    if (renderedAt - started > turnMsMax) await nextTurn()
    const encoded = rendering
      ? await this.#texts.encodeRendering(rendering, addSpecialTokens, options)
      : await this.#texts.encodeBytes(rendered.text, addSpecialTokens, options)
    if (encoded.kinship?.own) rendering?.keep?.(encoded.kinship.own)
    const tail = suffix === undefined ? undefined : await this.#texts.encode(suffix, false, options)
    const whole = tail ? await joinInSlices(encoded.ids, tail.ids) : encoded.ids
    const ids = truncate(whole, truncation, this.#around(addSpecialTokens))
    const kinship = ids === encoded.ids ? encoded.kinship : undefined
    const took = { templateMs: renderedAt - started, encodeMs: performance.now() - renderedAt }
    const exactness = isProven && this.#texts.isProven ? 'proven' : 'expected'
    return new Tokens({ ids, source: 'tokenizer', exactness, kinship, took })
  }

  #around(addSpecialTokens: boolean): Around | undefined {
    const { specialsBefore, specialsAfter } = this.plan
    return addSpecialTokens ? { before: specialsBefore.length, after: specialsAfter.length } : undefined
  }

  /** A batch has any number of texts, and the loop is for others, too: between stretches of them they have their turn. */
  async #encodeTexts(prompts: Prompts, options: TokenizeOptions): Promise<Tokens> {
    const { count, unitsOf, encode, truncation } = prompts
    const around = this.#around(prompts.addSpecialTokens)
    const started = now()
    const endsAt = started + (options.deadlineMs ?? deadlineMsDefault)
    const first = await encode(0)
    const ids = truncate(first.ids, truncation, around)
    let totalCount = ids.length
    let units = unitsOf(0)
    let turnMs = started
    for (let index = 1; index < count; index++) {
      units += unitsOf(index) + unitsPerText
      if (units > batchUnitsMax || now() - turnMs > this.#encodeMsMax) {
        await nextTurn()
        units = 0
        turnMs = now()
        options.signal?.throwIfAborted()
        if (turnMs > endsAt) throw new WarmrouteError('WR_TOKENS_DEADLINE', { texts: index })
      }
      const other = await encode(index)
      totalCount += truncate(other.ids, truncation, around).length
    }
    return new Tokens({
      ids,
      source: 'tokenizer',
      exactness: prompts.isProven && this.#texts.isProven ? 'proven' : 'expected',
      promptCount: count,
      totalCount,
      kinship: ids === first.ids ? first.kinship : undefined,
      took: { templateMs: undefined, encodeMs: performance.now() - started },
    })
  }
}

/** The texts of one request. */
interface Prompts {
  readonly count: number
  /** UTF-16 units. */
  readonly unitsOf: (index: number) => number
  readonly encode: (index: number) => Encoded | Promise<Encoded>
  readonly addSpecialTokens: boolean
  readonly truncation: Truncation | undefined
  readonly isProven: boolean
}

/** By the loop, or by a thread. */
type RenderedPrompt = Omit<RenderResult, 'text'> &
  (
    | { readonly rendering: Rendering<RememberedText>; readonly text?: undefined }
    | { readonly rendering: undefined; readonly text: TextBytes }
  )

function tokensOfRequest({ isProven, ...it }: Omit<IdsResult, 'kind'>): Tokens {
  return new Tokens({ ...it, source: 'request', exactness: isProven ? 'proven' : 'expected' })
}

const now = (): number => performance.now()

const noBytes: Uint8Array<ArrayBuffer> = new Uint8Array(0)

/** For a thread. A parsed body may hold what `JSON.stringify` does not know: `1.0`, long ints, mappings with an order. */
async function rawOf(body: Body | undefined, options: TokenizeOptions): Promise<Uint8Array> {
  return options.raw ?? (body ? await spellInSlices(body, options) : noBytes)
}

function readyTemplates(loaded: LoadedModel): {
  readonly templates: ChatTemplates
  readonly problem: string | undefined
} {
  try {
    return { templates: new ChatTemplates(loaded.templates, loaded.specials), problem: undefined }
  } catch (cause) {
    const problem = cause instanceof Error ? cause.message : String(cause)
    return { templates: new ChatTemplates([], loaded.specials), problem }
  }
}
