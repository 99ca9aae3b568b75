/** What is asked of an engine over HTTP, how its answers are read, and whether it still gives tokens. Remembers nothing but that. */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { Body, Dialect } from '../chat/request.js'
import { LoadOnlyError } from '../chat/request.js'
import type { TokenizeOptions } from '../model/model-tokens.js'
import type { Value } from '../template/values.js'
import { EngineTrouble, refusals } from './engine-trouble.js'
import type { Fetched } from './fetch-bytes.js'
import { fetchBytes } from './fetch-bytes.js'
import type { TokensAnswer } from './read-answer.js'
import { readAnswer, readCount } from './read-answer.js'

/** `readAnswer` in a thread. */
export type ReadLong = (bytes: Uint8Array, options: TokenizeOptions) => Promise<TokensAnswer>

export interface AskedEndpoint {
  readonly url: string
  readonly dialect: Dialect
  readonly headers?: Readonly<Record<string, string>>
  /** Of each question, where its asker has no shorter one. */
  readonly deadlineMs: number
}

type Post = string | Uint8Array<ArrayBuffer>

/** About 1.1 million ids: putting more bytes together and receiving more ids would hold the loop. */
const answerBytesMax = 8 << 20
/** About 36,000 ids: 3 ms. */
const loopAnswerMax = 256 << 10
const infoBytesMax = 1 << 20
const noOptions: TokenizeOptions = {}

export class EngineAsks {
  readonly #endpoint: AskedEndpoint
  readonly #readLong: ReadLong | undefined
  readonly #trouble = new EngineTrouble()

  constructor(endpoint: AskedEndpoint, readLong: ReadLong | undefined) {
    this.#endpoint = endpoint
    this.#readLong = readLong
  }

  /** Why it gives no tokens, after several answers without any. */
  get trouble(): string | undefined {
    return this.#trouble.reason
  }

  async info(signal: AbortSignal | undefined): Promise<{ status: number; value: unknown }> {
    const { status, bytes } = await this.#ask('/tokenizer_info', undefined, { signal }, infoBytesMax)
    return { status, value: status === 200 ? (JSON.parse(Buffer.from(bytes).toString('utf8')) as unknown) : undefined }
  }

  /** Refusing is an answer here and below, and says nothing against the engine. */
  async count(messages: Body): Promise<number | undefined> {
    const { status, bytes } = await this.#ask('/v1/messages/count_tokens', JSON.stringify(messages), noOptions)
    if (status >= 500) throw new WarmrouteError('WR_TOKENS_SOURCE_FAILED', { reason: `the engine answered ${status}` })
    return status === 200 ? readCount(bytes) : undefined
  }

  /** How many tokens a chat has. */
  async length(post: string): Promise<number | undefined> {
    const { status, bytes } = await this.#ask(this.#tokenizePath, post, noOptions)
    if (status >= 500) throw new WarmrouteError('WR_TOKENS_SOURCE_FAILED', { reason: `the engine answered ${status}` })
    return status === 200 ? readAnswer(bytes).ids?.length : undefined
  }

  /** The ids of a chat or a text, by its tokenize endpoint. */
  async tokenized(post: string, options: TokenizeOptions): Promise<Uint32Array> {
    const path = this.#tokenizePath
    const { status, bytes } = await this.tokens(path, post, options)
    return (await this.read(path, status, bytes, options)).ids
  }

  /** The ids of a text alone. */
  async encode(prompt: string, addSpecialTokens: boolean, options: TokenizeOptions): Promise<Uint32Array> {
    const ask = JSON.stringify({ prompt, add_special_tokens: addSpecialTokens })
    const { status, bytes } = await this.tokens('/tokenize', ask, options)
    return (await this.read('/tokenize', status, bytes, options)).ids
  }

  /** Whatever it answers to a question for tokens; `read` finds them. */
  async tokens(path: string, post: Post, options: TokenizeOptions): Promise<Fetched> {
    try {
      return await this.#ask(path, post, options)
    } catch (error) {
      const isOver = options.signal?.aborted === true // who asked has gone, which says nothing of the engine
      if (!isOver) this.#trouble.failed(error instanceof Error ? error.message : String(error))
      throw error
    }
  }

  async read(
    path: string,
    status: number,
    bytes: Uint8Array,
    options: TokenizeOptions,
  ): Promise<{ readonly ids: Uint32Array; readonly features: Value }> {
    if (status >= 400 && status < 500) {
      this.#trouble.refused(path, status)
      const reason = `the engine answered ${status}`
      if (refusals.has(status)) throw new LoadOnlyError('malformed', reason)
      throw new WarmrouteError('WR_TOKENS_SOURCE_FAILED', { reason })
    }
    const answer =
      status === 200
        ? await (bytes.length > loopAnswerMax && this.#readLong ? this.#readLong(bytes, options) : readAnswer(bytes))
        : undefined
    if (answer?.ids) {
      this.#trouble.answered()
      return { ids: answer.ids, features: answer.features }
    }
    this.#trouble.failed(`the engine answered ${status} to ${path} without tokens`)
    throw new WarmrouteError('WR_TOKENS_SOURCE_FAILED', { reason: `the engine answered ${status} without tokens` })
  }

  get #tokenizePath(): string {
    return this.#endpoint.dialect === 'sglang' ? '/v1/tokenize' : '/tokenize'
  }

  async #ask(
    path: string,
    post: Post | undefined,
    options: TokenizeOptions,
    bytesMax: number = answerBytesMax,
  ): Promise<Fetched> {
    const { url, deadlineMs, headers } = this.#endpoint
    return fetchBytes(url.replace(/\/+$/, '') + path, {
      bytesMax,
      deadlineMs: Math.min(options.deadlineMs ?? Infinity, deadlineMs),
      signal: options.signal,
      headers,
      post,
    })
  }
}
