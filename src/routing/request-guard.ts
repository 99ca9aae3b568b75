/**
 * Owns one request's booking from selection to its end: whatever happens, it is freed exactly once. Marks the prefill at
 * the first token, tracks output blocks as they fill, feeds the metrics, and closes the session afterwards.
 * Follows the request guard of lib/llm/src/kv_router/push_router.rs at v1.2.0; where that leaks (a session that fails to
 * open, a stream nobody iterates) the guard is made first and ended by its maker.
 *
 * Synchronous, and given its clock: the same events give the same calls.
 */
import type { RouterPort } from './router-port.js'

/** What the guard may do with the booking. */
export type BookingPort = Pick<RouterPort, 'prefillDone' | 'outputBlock' | 'free'>

export interface GuardedRequest {
  readonly requestId: string
  /** False: nothing was booked (query-only, or a pin whose rank is unknown); metrics are still kept. */
  readonly isTracked: boolean
  readonly promptTokens: number
  readonly blockSize: number
  readonly tracksOutput: boolean
  readonly expectedOutputTokens?: number | undefined
  /** Its tokens come in one piece: when the first of them was there is not known. */
  readonly isWhole?: boolean | undefined
  /** When the request arrived, on the guard's clock. */
  readonly startedAtMs: number
}

/** Every hook is optional and called at most once, except `onOutputBlock`. */
export interface GuardHooks {
  /** The engine answered with something. */
  readonly onFirstItem?: (sinceStartMs: number) => void
  readonly onFirstToken?: (sinceStartMs: number) => void
  /** A block of output filled: mean time between tokens so far. */
  readonly onOutputBlock?: (meanGapMs: number) => void
  /** Only for requests that were dispatched; `meanGapMs` needs two tokens. */
  readonly onFinish?: (summary: GuardSummary) => void
  /** After the booking is freed, for a request that closes its session. */
  readonly closeSession?: () => void
}

export interface GuardSummary {
  readonly end: GuardEnd
  readonly outputTokens: number
  readonly durationMs: number
  readonly firstTokenMs: number | undefined
  readonly meanGapMs: number | undefined
}

export type GuardEnd = 'completed' | 'stopped' | 'failed' | 'dropped'

export class RequestGuard {
  readonly #port: BookingPort
  readonly #request: GuardedRequest
  readonly #hooks: GuardHooks
  readonly #now: () => number
  #isDispatched = false
  #hasItem = false
  #hasEnded = false
  #outputTokens = 0
  #totalBlocks: number
  #firstTokenAtMs: number | undefined
  #lastTokenAtMs = 0
  #hasGap = false

  constructor(port: BookingPort, request: GuardedRequest, hooks: GuardHooks, now: () => number) {
    this.#port = port
    this.#request = request
    this.#hooks = hooks
    this.#now = now
    this.#totalBlocks = Math.ceil(request.promptTokens / request.blockSize)
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  get outputTokens(): number {
    return this.#outputTokens
  }

  /** The engine took the request. Without this, an end counts no request. */
  dispatched(): void {
    this.#isDispatched = true
  }

  /** Something arrived from the engine, with this many new tokens (0 for a role or a comment). `now`: on the guard's clock. */
  item(tokens: number, now: number = this.#now()): void {
    if (this.#hasEnded) return
    if (!this.#hasItem) {
      this.#hasItem = true
      this.#hooks.onFirstItem?.(now - this.#request.startedAtMs)
    }
    if (tokens <= 0) return
    if (this.#firstTokenAtMs === undefined) {
      this.#firstTokenAtMs = now
      if (this.#request.isTracked) this.#port.prefillDone(this.#request.requestId)
      if (!this.#request.isWhole) this.#hooks.onFirstToken?.(now - this.#request.startedAtMs)
    } else this.#hasGap = true
    this.#outputTokens += tokens
    this.#lastTokenAtMs = now
    if (this.#request.tracksOutput) this.#trackOutput()
  }

  /** The first end counts, whichever it is; later ones change nothing. */
  end(end: GuardEnd): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    try {
      if (this.#isDispatched) this.#hooks.onFinish?.(this.#summary(end))
    } finally {
      if (this.#request.isTracked) this.#port.free(this.#request.requestId)
      this.#hooks.closeSession?.()
    }
  }

  /**
   * The engine's stream with the guard around it. Leaving the loop, an error, an abort and a plain end all end the guard.
   * A stream that is never iterated is ended by whoever made the guard, with `end('dropped')`.
   */
  async *around<Item>(
    stream: AsyncIterable<Item>,
    tokensOf: (item: Item) => number,
    signal?: AbortSignal,
  ): AsyncGenerator<Item> {
    let end: GuardEnd = 'dropped'
    try {
      for await (const item of stream) {
        if (signal?.aborted) {
          end = 'stopped'
          return
        }
        this.item(tokensOf(item))
        yield item
      }
      end = signal?.aborted ? 'stopped' : 'completed'
    } catch (error) {
      this.end(signal?.aborted ? 'stopped' : 'failed') // before the caller sees the error, so that a retry may book the id again
      throw error
    } finally {
      this.end(end)
    }
  }

  /** One call even when several blocks filled at once: what counts is that the request grew. */
  #trackOutput(): void {
    const { promptTokens, blockSize, expectedOutputTokens, requestId, isTracked } = this.#request
    const totalBlocks = Math.ceil((promptTokens + this.#outputTokens) / blockSize)
    if (totalBlocks <= this.#totalBlocks) return
    this.#totalBlocks = totalBlocks
    if (isTracked) {
      const left =
        expectedOutputTokens === undefined
          ? undefined
          : Math.max(0, 1 - this.#outputTokens / Math.max(1, expectedOutputTokens))
      this.#port.outputBlock(requestId, left)
    }
    const meanGapMs = this.#meanGapMs()
    if (meanGapMs !== undefined) this.#hooks.onOutputBlock?.(meanGapMs)
  }

  /** Tokens that all came in one item, as a whole answer's do, say nothing of the time between them. */
  #meanGapMs(): number | undefined {
    if (this.#firstTokenAtMs === undefined || !this.#hasGap) return undefined
    return (this.#lastTokenAtMs - this.#firstTokenAtMs) / (this.#outputTokens - 1)
  }

  #summary(end: GuardEnd): GuardSummary {
    const { startedAtMs, isWhole } = this.#request
    const firstTokenAtMs = isWhole ? undefined : this.#firstTokenAtMs
    return {
      end,
      outputTokens: this.#outputTokens,
      durationMs: this.#now() - startedAtMs,
      firstTokenMs: firstTokenAtMs === undefined ? undefined : firstTokenAtMs - startedAtMs,
      meanGapMs: this.#meanGapMs(),
    }
  }
}
