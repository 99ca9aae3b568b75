/**
 * Asks the engine for a request's tokens: its render endpoint, which runs the code of inference, else its tokenize endpoint. Used
 * where no tokenizer is at hand. Answers are remembered by the fields that change tokens, so a repeated request is not asked again.
 * Without a vocabulary no cut inside a text can be proved, so a text that merely continues a known one is asked for anew.
 */
import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { WarmrouteError } from '../../core/protocol/index.js'
import { convertMessages } from '../chat/convert-routes.js'
import type { Body, Dialect, Route } from '../chat/request.js'
import { carriedIds, LoadOnlyError, toIds } from '../chat/request.js'
import type { ModelCounts, TokenizeOptions } from '../model/model-tokens.js'
import { Tokens } from '../tokens.js'
import type { Value } from '../template/values.js'
import { fetchBytes } from './fetch-bytes.js'
import type { TokenSource } from './source.js'

export interface EngineEndpoint {
  readonly url: string
  readonly dialect: Dialect
  readonly headers?: Readonly<Record<string, string>>
  readonly deadlineMs?: number
  readonly cacheBytes?: number
}

const answerBytesMax = 64 << 20
const deadlineMsDefault = 2000
const renderPaths: Readonly<Record<Route, string>> = {
  chat: '/v1/chat/completions/render',
  completions: '/v1/completions/render',
  responses: '/v1/responses/render',
  messages: '/v1/messages/render',
}
/** Fields that never change tokens, left out of the key. */
const quietFields = new Set([
  'stream',
  'stream_options',
  'temperature',
  'top_p',
  'max_tokens',
  'seed',
  'user',
  'n',
  'cache_salt',
])

export class EngineTokens implements TokenSource {
  readonly #endpoint: EngineEndpoint
  readonly #answers: LRUCache<string, Tokens>
  readonly #counts = { hits: 0, misses: 0, evictions: 0 }
  /** Learnt at the first refusal: render endpoints are off unless the engine was started with them. */
  #canRender: boolean

  constructor(endpoint: EngineEndpoint) {
    this.#endpoint = endpoint
    this.#canRender = endpoint.dialect === 'vllm'
    this.#answers = new LRUCache({
      maxSize: endpoint.cacheBytes ?? 16 << 20,
      sizeCalculation: (tokens) => tokens.ids.byteLength + 256,
      dispose: (_, __, reason) => {
        if (reason === 'evict') this.#counts.evictions++
      },
    })
  }

  get counts(): ModelCounts {
    return {
      encoder: undefined,
      texts: this.#counts,
      prefixes: undefined,
      cacheBytes: this.#answers.calculatedSize,
      onLoop: 0,
      inThreads: 0,
    }
  }

  async tokenize(route: Route, body: Body, options: TokenizeOptions): Promise<Tokens> {
    const carried =
      carriedIds(body) ?? (route === 'completions' && isIds(body['prompt']) ? toIds(body['prompt']) : undefined)
    if (carried) return new Tokens({ ids: carried, source: 'request', exactness: 'proven' })
    const key = keyOf(route, body)
    const known = this.#answers.get(key)
    if (known) {
      this.#counts.hits++
      return known
    }
    this.#counts.misses++
    const tokens = (await this.#render(route, body, options)) ?? (await this.#tokenize(route, body, options))
    this.#answers.set(key, tokens)
    return tokens
  }

  async #render(route: Route, body: Body, options: TokenizeOptions): Promise<Tokens | undefined> {
    if (!this.#canRender) return undefined
    const post = options.raw ? Buffer.from(options.raw).toString('utf8') : JSON.stringify(body)
    const { status, value } = await this.#ask(renderPaths[route], post, options)
    if (status === 403 || status === 404 || status === 405) {
      this.#canRender = false
      return undefined
    }
    const first = Array.isArray(value) ? (value[0] as Body | undefined) : (value as Body | undefined)
    return this.#read(status, first?.['token_ids'], 'proven')
  }

  async #tokenize(route: Route, body: Body, options: TokenizeOptions): Promise<Tokens> {
    if (route === 'responses') throw new LoadOnlyError('no-tokenizer', 'the engine renders no responses for us')
    const chat = route === 'messages' ? convertMessages(body).body : body
    const ask =
      route === 'completions'
        ? { model: body['model'], prompt: body['prompt'], add_special_tokens: body['add_special_tokens'] ?? true }
        : pick({ ...chat, model: body['model'] }, chatFields)
    const path = this.#endpoint.dialect === 'sglang' ? '/v1/tokenize' : '/tokenize'
    const { status, value } = await this.#ask(path, JSON.stringify(ask), options)
    const ids = (value as Body | undefined)?.['tokens']
    return this.#read(
      status,
      Array.isArray(ids?.valueOf()) && Array.isArray((ids as Value[])[0]) ? (ids as Value[])[0] : ids,
      'expected',
    )
  }

  #read(status: number, ids: Value, exactness: 'proven' | 'expected'): Tokens {
    if (status >= 400 && status < 500) throw new LoadOnlyError('malformed', `the engine answered ${status}`)
    if (status !== 200 || !isIds(ids)) {
      throw new WarmrouteError('WR_TOKENS_SOURCE_FAILED', { reason: `the engine answered ${status} without tokens` })
    }
    return new Tokens({ ids: toIds(ids), source: 'engine', exactness })
  }

  async #ask(path: string, post: string, options: TokenizeOptions): Promise<{ status: number; value: unknown }> {
    const { status, bytes } = await fetchBytes(this.#endpoint.url.replace(/\/+$/, '') + path, {
      bytesMax: answerBytesMax,
      deadlineMs: Math.min(options.deadlineMs ?? Infinity, this.#endpoint.deadlineMs ?? deadlineMsDefault),
      signal: options.signal,
      headers: this.#endpoint.headers,
      post,
    })
    try {
      return { status, value: JSON.parse(Buffer.from(bytes).toString('utf8')) as unknown }
    } catch {
      return { status, value: undefined }
    }
  }
}

const chatFields = [
  'model',
  'messages',
  'tools',
  'tool_choice',
  'add_generation_prompt',
  'continue_final_message',
  'add_special_tokens',
  'chat_template_kwargs',
  'reasoning_effort',
] // prettier-ignore

function pick(body: Body, names: readonly string[]): Body {
  return Object.fromEntries(names.filter((name) => body[name] !== undefined).map((name) => [name, body[name]]))
}

function keyOf(route: Route, body: Body): string {
  const telling = Object.entries(body).filter(([name]) => !quietFields.has(name))
  return createHash('sha256').update(route).update(JSON.stringify(telling)).digest('base64')
}

function isIds(value: Value): boolean {
  return Array.isArray(value) && value.length > 0 && typeof value[0] === 'number'
}
