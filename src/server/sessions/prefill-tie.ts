/** The prefill half of a request and its session: asked before each choice of a prefill worker, told of each failure. */
import type { AffinityTarget } from '../../core/sessions/index.js'
import type { PrefillSide } from '../pairs/prefill-side.js'
import type { Prepared } from '../request/prepare.js'
import type { SessionTie } from './session-affinity.js'
import { prefillTieOf, stayLive } from './tie-of.js'

export interface PrefillTieOptions {
  readonly prepared: Prepared
  readonly side: PrefillSide
  readonly signal: AbortSignal
}

export class PrefillTie {
  readonly #options: PrefillTieOptions
  readonly #failed: ReadonlySet<bigint>
  #tie: SessionTie | undefined
  #hasAsked = false
  #isLost = false

  /** `failed` are the workers that failed this request; it grows. */
  constructor(options: PrefillTieOptions, failed: ReadonlySet<bigint>) {
    this.#options = options
    this.#failed = failed
  }

  /** Where the session prefills. Waits while another request of it chooses; undefined: this one does, or has no session. */
  async target(): Promise<AffinityTarget | undefined> {
    const { prepared, side, signal } = this.#options
    if (!this.#hasAsked) {
      this.#hasAsked = true
      this.#tie = await prefillTieOf(prepared, side, signal)
    } else if (this.#tie && this.#isLost) {
      await this.#tie.again()
      const mayServe = (id: bigint): boolean => side.fleet.get(id)?.mayServe === true && !this.#failed.has(id)
      if (!(await stayLive(this.#tie, mayServe))) this.#tie = undefined
    }
    this.#isLost = false
    return this.#tie?.target
  }

  /** For a dry run, which neither begins nor prolongs a session. */
  peek(): AffinityTarget | undefined {
    const { prepared, side } = this.#options
    const { session } = prepared.hints
    const target = session && prepared.model.prefillAffinity?.peek(session.sessionId)
    return target && side.fleet.get(target.workerId)?.mayServe ? target : undefined
  }

  /** A worker has the prefill. */
  sent(target: AffinityTarget): void {
    this.#tie?.sent(target)
  }

  /** The worker failed it, or is gone. */
  lost(): void {
    if (this.#isLost) return
    this.#isLost = true
    this.#tie?.lost()
  }

  /** The request is over, or goes on without a prefill worker. Safe to repeat. */
  end(): void {
    this.#tie?.end()
    this.#tie = undefined
  }
}
