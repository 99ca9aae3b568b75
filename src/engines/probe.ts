/**
 * Asking an engine over HTTP, with a deadline and a limit on every answer. An engine that cannot be reached gives
 * `undefined`: detection goes on with what else it can learn.
 */
import { request } from 'undici'
import { Deadline } from './deadline.js'

export interface ProbeReply {
  readonly status: number
  readonly text: string
}

export interface Probe {
  /** Host by which the engine was reached, for endpoints that it announces with a wildcard. */
  readonly host: string
  get(path: string): Promise<ProbeReply | undefined>
}

export interface HttpProbeOptions {
  readonly baseUrl: string
  /** Sent only after a 401, or a 403 as some proxies say it: engines that need no key should not see it. */
  readonly apiKey?: string | undefined
  readonly signal?: AbortSignal | undefined
  readonly timeoutMs?: number
  readonly replyBytesMax?: number
}

const timeoutMsDefault = 5000
const replyBytesDefault = 4 << 20

export class HttpProbe implements Probe {
  readonly host: string
  readonly #options: HttpProbeOptions
  #needsKey = false
  #unanswered = 0
  #trouble: string | undefined

  constructor(options: HttpProbeOptions) {
    this.#options = options
    this.host = new URL(options.baseUrl).hostname
  }

  /** Questions that got no answer at all, in time: what they would have said is unknown, not absent. */
  get unanswered(): number {
    return this.#unanswered
  }

  /** Why the last question got no answer, for people. */
  get trouble(): string | undefined {
    return this.#trouble
  }

  async get(path: string): Promise<ProbeReply | undefined> {
    const hadKey = this.#needsKey // another question may ask for it meanwhile
    const first = await this.#ask(path, hadKey)
    const isRefused = first?.status === 401 || first?.status === 403
    if (!isRefused || hadKey || this.#options.apiKey === undefined) return first
    this.#needsKey = true
    return this.#ask(path, true)
  }

  async #ask(path: string, withKey: boolean): Promise<ProbeReply | undefined> {
    const { baseUrl, apiKey, signal } = this.#options
    const deadline = new Deadline(this.#options.timeoutMs ?? timeoutMsDefault, signal)
    try {
      const reply = await request(baseUrl.replace(/\/$/, '') + path, {
        method: 'GET',
        headers: withKey ? { authorization: `Bearer ${apiKey}` } : {},
        signal: deadline.signal,
      })
      const text = await readText(reply.body, this.#options.replyBytesMax ?? replyBytesDefault)
      if (text === undefined) this.#unanswered++
      return text === undefined ? undefined : { status: reply.statusCode, text }
    } catch (cause) {
      this.#unanswered++
      this.#trouble = deadline.isLate ? 'it does not answer in time' : troubleOf(cause)
      return undefined // refused, reset, too slow: all mean that this question has no answer now
    } finally {
      deadline.clear()
    }
  }
}

/** By the code that the system or OpenSSL gave. */
function troubleOf(cause: unknown): string {
  const { code: given, message = String(cause) } = cause as { code?: unknown; message?: string }
  const code = typeof given === 'string' ? given : '' // an abort has a number there
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return `no address is known for its name (${code})`
  if (code === 'ECONNREFUSED') return 'nothing listens there (ECONNREFUSED)'
  if (/CERT|SELF_SIGNED|ALTNAME|VERIFY/.test(code)) return `its certificate is not trusted (${code})`
  if (code.startsWith('ERR_SSL')) return `it speaks no TLS (${code})`
  return code === '' ? message : `no connection to it lasts (${code})`
}

async function readText(body: AsyncIterable<Uint8Array>, bytesMax: number): Promise<string | undefined> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.byteLength
    if (size > bytesMax) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
