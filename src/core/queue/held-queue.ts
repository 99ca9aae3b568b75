/**
 * Requests that the router holds back until a worker is about to be free, instead of queueing them in an engine where they
 * can no longer be placed better. By strict priority; then shortest prefill first, with ageing; a prefill that is long
 * beside all that waits goes before the short ones, since behind them it would be the last of all.
 *
 * Ageing is linear and equal for all, so the order never changes with time and a sorted list keeps it:
 * estimate - rate * (now - arrival) sorts as estimate + rate * arrival.
 *
 * Reading the front costs as much as the front and half of the workers: an estimate is long when it exceeds twice the mean
 * share of a worker, so fewer than half as many can be long as there are workers.
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
  /** Orders equals by their coming. */
  readonly number: number
}

type Before<Payload> = (a: Slot<Payload>, b: Slot<Payload>) => boolean

export class HeldQueue<Payload> {
  /** In the order of `comesFirst`. */
  readonly #inOrder: Slot<Payload>[] = []
  /** The longest first; only those that may ever be called long. */
  readonly #byLength: Slot<Payload>[] = []
  readonly #slots = new Map<Payload, Slot<Payload>>()
  #workMs = 0
  #pushed = 0

  get size(): number {
    return this.#slots.size
  }

  /** Estimated prefill of everybody who waits. */
  get workMs(): number {
    return this.#workMs
  }

  push(held: Held<Payload>): void {
    const key = held.estimateMs + ageing * held.arrivedAtMs
    const slot: Slot<Payload> = { ...held, key, number: this.#pushed++ }
    this.#slots.set(held.payload, slot)
    this.#workMs += held.estimateMs
    this.#inOrder.splice(placeOf(this.#inOrder, slot, comesFirst), 0, slot)
    if (slot.estimateMs > longMsMin) this.#byLength.splice(placeOf(this.#byLength, slot, isLonger), 0, slot)
  }

  /** False: it is not here. */
  remove(payload: Payload): boolean {
    const slot = this.#slots.get(payload)
    if (!slot) return false
    this.#slots.delete(payload)
    this.#workMs = this.#slots.size === 0 ? 0 : this.#workMs - slot.estimateMs
    this.#inOrder.splice(placeOf(this.#inOrder, slot, comesFirst), 1)
    if (slot.estimateMs > longMsMin) this.#byLength.splice(placeOf(this.#byLength, slot, isLonger), 1)
    return true
  }

  /** The next `count` in order, of each priority the long ones first; nobody leaves. */
  first(count: number, workers: number): Payload[] {
    const longMs = Math.max(longMsMin, (2 * this.#workMs) / Math.max(1, workers))
    const front: Slot<Payload>[] = []
    for (const slot of this.#byLength) {
      if (slot.estimateMs <= longMs) break
      front.push(slot)
    }
    front.sort((a, b) => (comesFirst(a, b) ? -1 : 1))
    const wanted = front.length + count
    for (const slot of this.#inOrder) {
      if (front.length >= wanted) break
      if (slot.estimateMs <= longMs) front.push(slot)
    }
    front.sort((a, b) => b.strictPriority - a.strictPriority) // stable: long before short stays
    return front.slice(0, count).map((slot) => slot.payload)
  }

  [Symbol.iterator](): IterableIterator<Payload> {
    return this.#slots.keys()
  }
}

/** Where a slot is in a sorted list, or belongs. */
function placeOf<Payload>(list: readonly Slot<Payload>[], slot: Slot<Payload>, isBefore: Before<Payload>): number {
  let low = 0
  let high = list.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (isBefore(list[middle]!, slot)) low = middle + 1
    else high = middle
  }
  return low
}

function comesFirst<Payload>(a: Slot<Payload>, b: Slot<Payload>): boolean {
  if (a.strictPriority !== b.strictPriority) return a.strictPriority > b.strictPriority
  return a.key === b.key ? a.number < b.number : a.key < b.key
}

function isLonger<Payload>(a: Slot<Payload>, b: Slot<Payload>): boolean {
  return a.estimateMs === b.estimateMs ? a.number < b.number : a.estimateMs > b.estimateMs
}
