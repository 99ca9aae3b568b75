/**
 * Asks the engine for a request's tokens: its render endpoint, which runs the code of inference, else its tokenize endpoint. Used
 * where no tokenizer is at hand, and for media, which only an engine can place.
 *
 * Answers are remembered by the fields that change tokens, so a repeated request is not asked again. Of one that continues an earlier
 * one only the new end is asked for, where the engine tells what its texts are made of (`engine-pieces.ts`, docs/decisions/0131);
 * where it does not, the whole. What its ids share with an earlier answer is found by prefix, and those blocks are not hashed again.
 */
import { setMaxListeners } from 'node:events'
import { LRUCache } from 'lru-cache'
import type { MmExtraInfo } from '../../core/protocol/index.js'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { PromptRules } from '../chat/build-prompt.js'
import { plainRules, refuseOtherTexts } from '../chat/build-prompt.js'
import { refuseStored } from '../chat/convert-responses.js'
import type { TemplateHabits } from '../chat/converted.js'
import { UntoldHabitError } from '../chat/converted.js'
import { refuseMediaBesideIds } from '../chat/media.js'
import type { Body, Dialect, Route } from '../chat/request.js'
import {
  addsSpecialTokens,
  carriedIds,
  isCutAtLimit,
  LoadOnlyError,
  readTruncation,
  toIds,
  truncate,
} from '../chat/request.js'
import type { ModelCounts, TokenizeOptions } from '../model/model-tokens.js'
import { copyInSlices, nextTurn, sliceIds, Turn } from '../next-turn.js'
import type { Lookup, Match, RememberedText } from '../remember/remembered-texts.js'
import { RememberedTexts } from '../remember/remembered-texts.js'
import type { Exactness } from '../tokens.js'
import { Tokens } from '../tokens.js'
import type { Value } from '../template/values.js'
import type { ChatRoute } from './ask-of.js'
import { askOf, pick, refuseUnasked, UnaskableError } from './ask-of.js'
import { askedChats, inTurns, unlessMalformed } from './asked-chats.js'
import type { Habit, HabitAsks } from './asked-habits.js'
import { AskedHabits } from './asked-habits.js'
import type { AskedRequest } from './asked-request.js'
import { keyOf, readRequest, readShort } from './asked-request.js'
import type { ReadLong } from './engine-asks.js'
import { EngineAsks } from './engine-asks.js'
import { EnginePieces } from './engine-pieces.js'
import type { PieceText } from './engine-pieces.js'
import { learnPieces } from './learn-pieces.js'
import type { ParseTemplates } from './learn-pieces.js'
import { readFeatures } from './media-features.js'
import { harmonyMarks } from './own-renderers.js'
import type { TokenSource } from './source.js'

export interface EngineEndpoint {
  readonly url: string
  readonly dialect: Dialect
  readonly headers?: Readonly<Record<string, string>>
  readonly deadlineMs?: number
  readonly cacheBytes?: number
  /** Milliseconds since 1970: an answer may show the date. */
  readonly wallMs?: () => number
  /** What takes longer to render on the loop is left to the engine. */
  readonly renderMsMax?: number
}

/** What the engine said of a prompt. */
interface Said {
  readonly ids: Uint32Array
  readonly media: MmExtraInfo | undefined
  readonly exactness: Exactness
}

interface Answer extends Omit<Said, 'ids'> {
  readonly prompt: RememberedText
}

const idBytes = Uint32Array.BYTES_PER_ELEMENT
const noCuts: Uint32Array = new Uint32Array(0)
const noBytes: Uint8Array = new Uint8Array(0)
const noBody: Body = {}
const cacheBytesDefault = 32 << 20
/** Of a request: reading, hashing and sending more would hold the loop for too long. */
const bodyBytesMax = 1 << 20
/** Of a request that is passed on as it is. */
const longBytesMax = 16 << 20
/** Of a request that was parsed for us: a millisecond or two. */
const parsedLongBytes = 64 << 10
const bytesHeld = 2000 // by an answer and its hashes, as measured: of a short one nothing else counts them
const deadlineMsDefault = 2000
const quarterMs = 15 * 60_000
const renderPaths: Readonly<Record<Route, string>> = {
  chat: '/v1/chat/completions/render',
  completions: '/v1/completions/render',
  responses: '/v1/responses/render',
  messages: '/v1/messages/render',
}
export class EngineTokens implements TokenSource {
  readonly #endpoint: EngineEndpoint
  readonly #answers: LRUCache<string, Answer>
  /** The ids of earlier answers, as bytes: which of them begins like this one? */
  readonly #prompts: RememberedTexts
  readonly #counts = { hits: 0, misses: 0, evictions: 0 }
  readonly #rules: PromptRules
  readonly #asks: EngineAsks
  /** Of the answers, of their ids and of their texts. */
  readonly #shareBytes: number
  /** Learnt at the first answer: render endpoints are off unless the engine was started with them. */
  #renders: boolean | undefined
  #pieces: EnginePieces | undefined
  /** Asked before the first chat that is not rendered. */
  #isHarmony: boolean | undefined
  /** Of a template that is not told. */
  readonly #habits = new AskedHabits()
  /** How often everything was forgotten. */
  #era = 0
  /** Why the whole of every new prompt is asked for; undefined where the new end is enough. */
  #wholeReason: string | undefined = 'only vLLM tells its chat template and added tokens'

  /** `readLong` is `readAnswer` in a thread. */
  constructor(endpoint: EngineEndpoint, rules: Partial<PromptRules> = {}, readLong?: ReadLong) {
    this.#asks = new EngineAsks({ deadlineMs: deadlineMsDefault, ...endpoint }, readLong)
    this.#shareBytes = Math.max(1, Math.floor((endpoint.cacheBytes ?? cacheBytesDefault) / 3))
    this.#endpoint = endpoint
    this.#rules = { ...plainRules, dialect: endpoint.dialect, ...rules }
    if (endpoint.dialect !== 'vllm') this.#renders = false
    this.#prompts = new RememberedTexts(this.#shareBytes)
    this.#answers = new LRUCache({
      maxSize: this.#shareBytes,
      sizeCalculation: (it) => bytesHeld + 2 * it.prompt.ids.byteLength + 256 * (it.media?.mmObjects.length ?? 0),
      dispose: (_, __, reason) => {
        if (reason === 'evict') this.#counts.evictions++
      },
    })
  }

  /** A template may show the date, and midnight is at some quarter of an hour wherever the engine is: no answer outlives one. */
  #day(route: Route): string {
    const { wallMs = Date.now } = this.#endpoint
    return route === 'completions' ? '' : String(Math.floor(wallMs() / quarterMs))
  }

  get counts(): ModelCounts {
    return {
      encoder: undefined,
      texts: this.#counts,
      ids: this.#prompts.counts,
      prefixes: undefined,
      ends: this.#pieces?.counts,
      cacheBytes: this.#answers.calculatedSize + this.#prompts.byteLength + (this.#pieces?.byteLength ?? 0),
      onLoop: 0,
      inThreads: 0,
    }
  }

  /** Reading a request, knowing it again and making a question of it are each short; between them others may have their turn. */
  async tokenize(route: Route, given: Body | undefined, options: TokenizeOptions): Promise<Tokens> {
    const turn = new Turn()
    if (given && options.raw && options.raw.length > parsedLongBytes) await turn.next() // parsing it had its part of this one
    const body = given ?? readShort(options.raw)
    if (!body) return this.#renderLong(route, options.raw ?? noBytes, options)
    if (route === 'responses') refuseStored(body)
    const own = carriedIds(route, body, this.#endpoint.dialect)
    if (!own && route === 'completions') refuseOtherTexts(body, this.#rules)
    const carried = own ?? (route === 'completions' && isIds(body['prompt']) ? toIds(body['prompt']) : undefined)
    if (carried) {
      refuseMediaBesideIds(body)
      const ids = truncate(carried, readTruncation(body, this.#endpoint.dialect))
      const exactness = isCutAtLimit(body, this.#endpoint.dialect) ? 'expected' : 'proven'
      return new Tokens({ ids, source: 'request', exactness })
    }
    if (options.raw && options.raw.length > bodyBytesMax) return this.#renderLong(route, options.raw, options)
    if (turn.isOver) await turn.next()
    const request = readRequest(body, options.raw, given !== undefined)
    if (turn.isOver) await turn.next()
    const key = keyOf(route, request, this.#day(route))
    const known = this.#answers.get(key)
    if (known) {
      this.#counts.hits++
      return this.#tokensOf(known, undefined)
    }
    this.#counts.misses++
    if (turn.isOver) await turn.next()
    const said = await this.#answer(route, request, options)
    const era = this.#era
    const lookup = await this.#find(said)
    if (era === this.#era) return this.#remember(key, said, lookup)
    // Meanwhile pieces were refuted, and this may be one: from now on wholes are asked for.
    const whole = await this.#answer(route, request, options)
    return this.#remember(key, whole, await this.#find(whole))
  }

  async #answer(route: Route, request: AskedRequest, options: TokenizeOptions): Promise<Said> {
    const pieces = this.#pieces
    const turn = new Turn()
    const prompt = request.spell && pieces?.textOf(route, request.body)
    if (turn.isOver) await turn.next()
    const askWhole = async (): Promise<Said> =>
      (await this.#render(route, request, options)) ?? (await this.#tokenize(route, request, options, prompt))
    if (!pieces || !prompt) return askWhole()
    const said = await pieces.idsOf(prompt, askWhole, (text) => this.#asks.encode(text, false, options))
    if (said && !pieces.isRefuted) return { media: undefined, ...said }
    // What was remembered since may be wrong, too; and so may the answers that are on their way, which all come by here.
    this.#wholeReason = 'an answer that was pieced together differed from a whole one'
    this.#era++
    this.#answers.clear()
    this.#prompts.clear()
    return askWhole()
  }

  get wholeReason(): string | undefined {
    return this.#wholeReason
  }

  /** Why it gives no tokens, after several answers without any. */
  get trouble(): string | undefined {
    return this.#asks.trouble
  }

  /**
   * Asks what the engine's texts are made of. Never fails: then prompts are asked for as a whole, and the answer is whether asking
   * again may help.
   */
  async learn(parse: ParseTemplates, signal?: AbortSignal): Promise<boolean> {
    if (this.#endpoint.dialect !== 'vllm') return false
    const learnt = await learnPieces({
      parse,
      askInfo: () => this.#asks.info(signal),
      encode: (text, addSpecialTokens) => this.#asks.encode(text, addSpecialTokens, { signal }),
      rules: this.#rules,
      bytesMax: this.#shareBytes,
      renderMsMax: this.#endpoint.renderMsMax,
    })
    if (learnt instanceof EnginePieces) this.#pieces = learnt
    this.#wholeReason = learnt instanceof EnginePieces ? undefined : learnt.reason
    return !(learnt instanceof EnginePieces) && learnt.mayPass
  }

  /** A long body, usually for its pictures: it is passed on as it is, and neither read nor remembered. */
  async #renderLong(route: Route, raw: Uint8Array, options: TokenizeOptions): Promise<Tokens> {
    if (this.#renders !== false && raw.length <= longBytesMax) {
      const text = route === 'completions' ? await copyInSlices(raw) : await withoutTensorsInSlices(raw)
      const said = await this.#render(route, { body: noBody, text, spell: undefined }, options)
      if (said) return new Tokens({ ...said, source: 'engine' })
    }
    throw new WarmrouteError('WR_TOKENS_TEXT_TOO_LONG', { length: raw.length, lengthMax: bodyBytesMax })
  }

  /** Whether it can say where media lie. */
  get placesMedia(): boolean {
    return this.#renders !== false
  }

  /** What it cannot be asked for, so that load alone decides about it; a model's files know it. */
  get unaskable(): string | undefined {
    if (this.#endpoint.dialect === 'sglang') return bareTools
    if (this.#renders || this.#pieces) return undefined
    return this.#renders === false ? calls : `${calls} (unless it was started with --enable-scale-out)`
  }

  /** What its ids share with an earlier answer. Of a short one in this very turn. */
  #find({ ids, media }: Said): Lookup | Promise<Lookup> {
    const isWrapped = media !== undefined
    if (ids.length <= sliceIds) return this.#prompts.find(bytesOf(ids), isWrapped)
    return nextTurn().then(() => this.#prompts.findInSlices(bytesOf(ids), isWrapped))
  }

  #remember(key: string, { ids, media, exactness }: Said, lookup: Lookup): Tokens {
    const bytes = bytesOf(ids)
    const parts = { bytes, ids, specialsBefore: 0, specialsAfter: media ? 1 : 0, cuts: noCuts }
    const answer = { prompt: this.#prompts.add(parts, lookup), media, exactness }
    this.#answers.set(key, answer)
    return this.#tokensOf(answer, lookup.match)
  }

  #tokensOf({ prompt, media, exactness }: Answer, match: Match | undefined): Tokens {
    const kinship = {
      memory: this.#prompts,
      own: prompt,
      near: match?.text,
      sharedTokens: Math.floor((match?.common ?? 0) / idBytes),
    }
    return new Tokens({ ids: prompt.ids, source: 'engine', exactness, media, kinship })
  }

  async #render(route: Route, { body, text }: AskedRequest, options: TokenizeOptions): Promise<Said | undefined> {
    if (this.#renders === false) return undefined
    const post = text ?? JSON.stringify(body)
    const asked = route === 'completions' || typeof post !== 'string' ? post : withoutTensors(post)
    const { status, bytes } = await this.#asks.tokens(renderPaths[route], asked, options)
    if (status === 403 || status === 404 || status === 405) {
      this.#renders = false
      return undefined
    }
    const { ids, features } = await this.#asks.read(renderPaths[route], status, bytes, options)
    this.#renders = true
    return { ids, media: readFeatures(features, ids.length), exactness: 'proven' }
  }

  /** Here nobody says where media lie, although placeholders stand in the ids: such a prompt is refused. */
  async #tokenize(
    route: Route,
    request: AskedRequest,
    options: TokenizeOptions,
    prompt: PieceText | undefined,
  ): Promise<Said> {
    const { body, spell } = request
    if (!spell) throw new LoadOnlyError('too-long', 'the numbers of so long a body are not read again')
    const { dialect } = this.#endpoint
    refuseUnasked(body, dialect)
    if (route === 'completions') {
      const fields = { ...pick(body, ['model', 'prompt']), add_special_tokens: addsSpecialTokens(body, dialect) }
      return { ids: await this.#asks.tokenized(spell(fields), options), media: undefined, exactness: 'expected' }
    }
    try {
      return { ids: await this.#tokenizedChat(route, body, spell, options), media: undefined, exactness: 'expected' }
    } catch (error) {
      // What cannot be asked for as a chat can be as a text, where it is known.
      if (!(error instanceof UnaskableError) || !prompt) throw error
      const ids = await this.#asks.encode(prompt.text, prompt.isWrapped, options)
      return { ids, media: undefined, exactness: prompt.isProven ? 'proven' : 'expected' }
    }
  }

  /** Of gpt-oss it tokenizes by the template what it renders otherwise: vLLM all chats, and SGLang responses. */
  async #refuseHarmony(route: ChatRoute): Promise<void> {
    const { dialect } = this.#endpoint
    if (dialect === 'sglang' && route !== 'responses') return
    const ask = JSON.stringify({ prompt: harmonyMarks.join(''), add_special_tokens: false })
    this.#isHarmony ??= (await this.#asks.length(ask)) === harmonyMarks.length
    if (this.#isHarmony) throw new LoadOnlyError('own-renderer', `${dialect} renders it by code of its own`)
  }

  /** What depends on a template that is not told is found out first; where that fails, every chat that it may be is asked for. */
  async #tokenizedChat(
    route: ChatRoute,
    body: Body,
    spell: (value: Value) => string,
    options: TokenizeOptions,
  ): Promise<Uint32Array> {
    const makeAsk = (habits: TemplateHabits): string => spell(askOf(route, body, this.#rules, habits))
    const told = this.#pieces?.habits
    if (told) return this.#asks.tokenized(makeAsk(told), options)
    const asks: HabitAsks = {
      count: (messages) => this.#asks.count(messages),
      length: (messages, habits) => {
        const post = unlessMalformed(() => JSON.stringify(askOf('messages', messages, this.#rules, habits)))
        return typeof post === 'string' ? this.#asks.length(post) : Promise.resolve(undefined)
      },
    }
    const learn = (habit: Habit): Promise<void> => this.#habits.learn(habit, body['model'], asks, options.signal)
    const { posts, open } = await askedChats(makeAsk, this.#habits, learn)
    await this.#refuseHarmony(route)
    if (options.signal) setMaxListeners(0, options.signal) // each ask listens to it until it is answered
    // The engine's is among them; where all have the same tokens, they are known.
    const [first, ...others] = await inTurns(posts, (post) => this.#asks.tokenized(post, options))
    if (others.some((ids) => !Buffer.from(bytesOf(ids)).equals(bytesOf(first!)))) throw new UntoldHabitError(open[0]!)
    return first!
  }
}

/** Asks for the places and hashes of media alone: their processed tensors are megabytes, and reading them would hold the loop. */
const noTensors = ',"mm_payload":"none"}'

/** Of two fields of one name engines take the last. */
function withoutTensors(body: string): string {
  const end = body.lastIndexOf('}')
  return end < 2 ? body : body.slice(0, end) + noTensors // what is shorter no engine would render
}

async function withoutTensorsInSlices(body: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  const end = Math.max(0, body.lastIndexOf(0x7d))
  const longer = await copyInSlices(body.subarray(0, end), noTensors.length)
  longer.set(new TextEncoder().encode(noTensors), end)
  return longer
}

const calls = 'responses with function calls'
const bareTools = 'responses with tools that lack a description or parameters'

function bytesOf(ids: Uint32Array): Uint8Array {
  return new Uint8Array(ids.buffer, ids.byteOffset, ids.byteLength)
}

function isIds(value: Value): boolean {
  return Array.isArray(value) && value.length > 0 && typeof value[0] === 'number'
}
