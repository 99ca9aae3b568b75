/**
 * Requests that the router holds back until a worker is about to be free, instead of queueing them in an engine where they
 * can no longer be placed better. By strict priority; then shortest prefill first, with ageing; a prefill that is long
 * beside all that waits goes before the short ones, since behind them it would be the last of all.
 *
 * Ageing is linear and equal for all, so the order never changes with time and a sorted list keeps it:
 * estimate - rate * (now - arrival) sorts as estimate + rate * arrival.
 */

export interface Held<Payload> {
  readonly payload: Payload
  readonly estimateMs: number
  readonly arrivedAtMs: number
  readonly strictPriority: number
}

/** A held request gains this much of an estimated millisecond for each millisecond that it waits. */
const ageing = 0.25
/** Never called long below this. */
const longMsMin = 500

interface Slot<Payload> extends Held<Payload> {
  readonly key: number
  isGone: boolean
}

export class HeldQueue<Payload> {
  /** Ascending by (strict priority descending, key). Removed entries stay as gone until the list is compacted. */
  readonly #inOrder: Slot<Payload>[] = []
  readonly #slots = new Map<Payload, Slot<Payload>>()
  #workMs = 0

  get size(): number {
    return this.#slots.size
  }

  /** Estimated prefill of everybody who waits. */
  get workMs(): number {
    return this.#workMs
  }

  push(held: Held<Payload>): void {
    const slot: Slot<Payload> = { ...held, key: held.estimateMs + ageing * held.arrivedAtMs, isGone: false }
    this.#slots.set(held.payload, slot)
    this.#workMs += held.estimateMs
    let low = 0
    let high = this.#inOrder.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (comes(this.#inOrder[middle]!, slot)) low = middle + 1
      else high = middle
    }
    this.#inOrder.splice(low, 0, slot)
  }

  /** False: it is not here. */
  remove(payload: Payload): boolean {
    const slot = this.#slots.get(payload)
    if (!slot) return false
    this.#slots.delete(payload)
    this.#workMs = this.#slots.size === 0 ? 0 : this.#workMs - slot.estimateMs
    slot.isGone = true
    return true
  }

  /** The next `count` in order, of each priority the long ones first; nobody leaves. */
  first(count: number, workers: number): Payload[] {
    this.#compact()
    const longMs = Math.max(longMsMin, (2 * this.#workMs) / Math.max(1, workers))
    const chosen: Payload[] = []
    let long: Payload[] = []
    let others: Payload[] = []
    let priority = Number.POSITIVE_INFINITY
    for (const slot of this.#inOrder) {
      if (slot.isGone) continue
      if (slot.strictPriority !== priority) {
        chosen.push(...long, ...others)
        if (chosen.length >= count) return chosen.slice(0, count)
        priority = slot.strictPriority
        long = []
        others = []
      }
      if (slot.estimateMs > longMs) long.push(slot.payload)
      else if (others.length < count) others.push(slot.payload)
    }
    return [...chosen, ...long, ...others].slice(0, count)
  }

  [Symbol.iterator](): IterableIterator<Payload> {
    return this.#slots.keys()
  }

  #compact(): void {
    if (this.#inOrder.length < 2 * this.#slots.size + 16) return
    const live = this.#inOrder.filter((slot) => !slot.isGone)
    this.#inOrder.length = 0
    this.#inOrder.push(...live)
  }
}

function comes<Payload>(a: Slot<Payload>, b: Slot<Payload>): boolean {
  if (a.strictPriority !== b.strictPriority) return a.strictPriority > b.strictPriority
  return a.key <= b.key
}
