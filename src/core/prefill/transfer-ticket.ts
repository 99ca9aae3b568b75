/**
 * The right to read one prefill's KV, once and in time. A decode that reads after the prefill side's lease is not refused by
 * the engine: it answers with wrong text and keeps the wrong KV. So the right is given out here or not at all.
 */
export interface TicketTerms {
  /** Not later than the lease began. */
  readonly heldFromMs: number
  /** Undefined: nothing is held, and the decode finds the KV whenever it comes. */
  readonly leaseMs: number | undefined
  /** Kept free at the end of the lease for the decode's own way. */
  readonly marginMs: number
}

export type TicketAnswer = 'taken' | 'late' | 'used'

export class TransferTicket {
  /** After this nothing may be sent. */
  readonly sendBeforeMs: number
  #isUsed = false

  constructor({ heldFromMs, leaseMs, marginMs }: TicketTerms) {
    this.sendBeforeMs = leaseMs === undefined ? Number.POSITIVE_INFINITY : heldFromMs + leaseMs - marginMs
  }

  /** The right was given out. */
  get isUsed(): boolean {
    return this.#isUsed
  }

  /** Somebody waits for a reader: KV is held, the lease runs, and nobody was given the right yet. */
  isOpen(nowMs: number): boolean {
    return !this.#isUsed && nowMs < this.sendBeforeMs
  }

  /** The decode was not sent after all, not a byte of it. */
  putBack(): void {
    this.#isUsed = false
  }

  /** In the turn of the loop in which the decode is sent. */
  take(nowMs: number): TicketAnswer {
    if (this.#isUsed) return 'used'
    if (nowMs >= this.sendBeforeMs) return 'late'
    this.#isUsed = true
    return 'taken'
  }
}
