/**
 * Prompts whose first token nobody will see, because their answers come in one piece, and when each should be computed. Without it
 * such a prompt would count as work ahead of everybody else until its answer ends.
 */
export class UnseenPrefills {
  readonly #endsAtMs = new Map<string, number>()
  /** Not above the earliest end; Infinity where there is none. */
  #earliestMs = Number.POSITIVE_INFINITY

  /** When the next of them ends, or earlier. */
  get nextMs(): number {
    return this.#earliestMs
  }

  add(requestId: string, endsAtMs: number): void {
    this.#endsAtMs.set(requestId, endsAtMs)
    if (endsAtMs < this.#earliestMs) this.#earliestMs = endsAtMs
  }

  /** It ended, or is booked no more. */
  remove(requestId: string): void {
    if (this.#endsAtMs.delete(requestId) && this.#endsAtMs.size === 0) this.#earliestMs = Number.POSITIVE_INFINITY
  }

  /** Takes out whose time has come. */
  takeDue(nowMs: number): readonly string[] {
    if (!(this.#earliestMs <= nowMs)) return nobody
    const due: string[] = []
    let earliestMs = Number.POSITIVE_INFINITY
    for (const [requestId, endsAtMs] of this.#endsAtMs) {
      if (endsAtMs <= nowMs) due.push(requestId)
      else if (endsAtMs < earliestMs) earliestMs = endsAtMs
    }
    for (const requestId of due) this.#endsAtMs.delete(requestId)
    this.#earliestMs = earliestMs
    return due
  }
}

const nobody: readonly string[] = []
