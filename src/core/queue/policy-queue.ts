/**
 * Parked requests: classes that share by deficit round robin, inside a class lanes, inside a lane a heap.
 *
 *   class ── ready lanes (heap by first entry) ── lane ── entries (heap by strict priority, score, arrival)
 *         └─ blocked lanes (found busy; looked at again when one of their ranks changes)
 *
 * A lane holds the entries that may go to the same ranks, so its first entry speaks for all: if that one cannot be placed,
 * no other can. A blocked lane therefore never holds up another. The queue does not know ranks or loads: whoever pops says
 * which lanes are busy. Follows lib/kv-router/src/scheduling/policy_queue.rs of 1.5.0-dev.
 */
import type { HeapItem } from './indexed-heap.js'
import { IndexedHeap } from './indexed-heap.js'
import type { PolicyClass, QueueRejection, QueueUsage } from './policy-class.js'
import { judgeLimits } from './policy-class.js'

/** What a request brings into the queue. */
export interface Parking<Payload> {
  readonly classIndex: number
  /** Requests with one key may go to the same ranks. */
  readonly laneKey: string
  readonly strictPriority: number
  readonly score: number
  readonly islTokens: number
  /** At most `islTokens`. */
  readonly cachedTokens: number
  readonly payload: Payload
}

/** A parked request: what `park` returns and `retract` takes. */
export interface Entry<Payload> extends HeapItem, Parking<Payload> {
  /** Order of arrival; breaks ties. */
  readonly sequence: number
  /** Uncached tokens, at least 1: what the class pays to have it served. */
  readonly cost: number
}

export type Parked<Payload> =
  | { readonly kind: 'parked'; readonly entry: Entry<Payload> }
  | { readonly kind: 'rejected'; readonly rejection: QueueRejection }

/** `example` is the lane's first entry; it speaks for the lane. */
export type IsBusy<Payload> = (example: Payload, policy: PolicyClass) => boolean

interface Lane<Payload> extends HeapItem {
  readonly key: string
  readonly entries: IndexedHeap<Entry<Payload>>
  isBlocked: boolean
}

interface ClassState<Payload> {
  readonly policy: PolicyClass
  readonly lanes: Map<string, Lane<Payload>>
  readonly ready: IndexedHeap<Lane<Payload>>
  readonly blocked: Map<string, Lane<Payload>>
  deficit: number
  requests: number
  rawIslTokens: number
  cachedTokens: number
}

export class PolicyQueue<Payload> {
  readonly #classes: readonly ClassState<Payload>[]
  readonly #parkedMax: number
  #nextSequence = 0
  #cursor = 0
  #carry = -1
  #count = 0
  #rawIslTokens = 0

  constructor(classes: readonly PolicyClass[], parkedMax: number) {
    this.#parkedMax = parkedMax
    this.#classes = classes.map((policy) => ({
      policy,
      lanes: new Map<string, Lane<Payload>>(),
      ready: new IndexedHeap<Lane<Payload>>((a, b) => isBefore(a.entries.first()!, b.entries.first()!)),
      blocked: new Map<string, Lane<Payload>>(),
      deficit: 0,
      requests: 0,
      rawIslTokens: 0,
      cachedTokens: 0,
    }))
  }

  get pendingCount(): number {
    return this.#count
  }

  get pendingIslTokens(): number {
    return this.#rawIslTokens
  }

  usageOf(classIndex: number): QueueUsage {
    const { requests, rawIslTokens, cachedTokens } = this.#classes[classIndex]!
    return { requests, rawIslTokens, cachedTokens }
  }

  /** False: nothing can leave until a lane is unblocked. */
  get hasReadyLane(): boolean {
    return this.#classes.some(({ ready }) => ready.size > 0)
  }

  isLaneBlocked(classIndex: number, laneKey: string): boolean {
    return this.#classes[classIndex]!.blocked.has(laneKey)
  }

  /** `isLaneBusy`: the caller has just found the ranks of this lane busy. */
  park(parking: Parking<Payload>, workerCount: number, isLaneBusy: boolean): Parked<Payload> {
    const state = this.#classes[parking.classIndex]!
    const rejection = this.#judge(state, workerCount)
    if (rejection) return { kind: 'rejected', rejection }
    const entry: Entry<Payload> = {
      classIndex: parking.classIndex,
      laneKey: parking.laneKey,
      strictPriority: parking.strictPriority,
      score: parking.score,
      islTokens: parking.islTokens,
      cachedTokens: parking.cachedTokens,
      payload: parking.payload,
      heapIndex: -1,
      sequence: this.#nextSequence++,
      cost: Math.max(1, parking.islTokens - parking.cachedTokens),
    }
    this.#account(state, entry, 1)
    const lane = state.lanes.get(entry.laneKey)
    if (lane) {
      lane.entries.add(entry)
      if (entry.heapIndex === 0 && !lane.isBlocked) state.ready.moved(lane)
      if (isLaneBusy && !lane.isBlocked) this.#block(state, lane)
    } else this.#openLane(state, entry, isLaneBusy)
    return { kind: 'parked', entry }
  }

  /** The caller is gone. False when the entry already left. */
  retract(entry: Entry<Payload>): boolean {
    if (entry.heapIndex < 0) return false
    const state = this.#classes[entry.classIndex]!
    this.#take(state, state.lanes.get(entry.laneKey)!, entry)
    if (state.requests === 0) state.deficit = 0
    return true
  }

  /** One of the ranks behind a lane changed: it is looked at again. */
  unblockLane(laneKey: string): void {
    for (const state of this.#classes) {
      const lane = state.blocked.get(laneKey)
      if (lane) this.#unblock(state, lane)
    }
  }

  /** Looks again at every lane that `isConcerned`. */
  unblock(isConcerned: (laneKey: string) => boolean = () => true): void {
    for (const state of this.#classes)
      for (const lane of state.blocked.values()) if (isConcerned(lane.key)) this.#unblock(state, lane)
  }

  /** Takes the next entry that can be placed, or nothing. Deficit round robin over the classes (spec: M. Shreedhar, G. Varghese). */
  popNext(isBusy: IsBusy<Payload>): Entry<Payload> | undefined {
    const classCount = this.#classes.length
    const carried = this.#carry
    this.#carry = -1
    if (this.#count === 0) return undefined
    if (carried >= 0) {
      const state = this.#classes[carried]!
      const entry = this.#dispatchable(state, isBusy)
      if (entry && entry.cost <= state.deficit) return this.#serve(carried, entry)
    }
    let rounds = Number.POSITIVE_INFINITY
    for (let offset = 0; offset < classCount; offset++) {
      const index = (this.#cursor + offset) % classCount
      const state = this.#classes[index]!
      const entry = this.#dispatchable(state, isBusy)
      if (!entry) continue // an empty class has lost its deficit already, a blocked one keeps it and gets no more
      if (entry.cost <= state.deficit) return this.#serve(index, entry)
      state.deficit += state.policy.quantum
      if (entry.cost <= state.deficit) return this.#serve(index, entry)
      rounds = Math.min(rounds, Math.ceil((entry.cost - state.deficit) / state.policy.quantum))
    }
    if (rounds === Number.POSITIVE_INFINITY) return undefined
    return this.#serveAfter(rounds, isBusy)
  }

  /** Every entry, in no order: shutdown, or a change of topology. */
  *[Symbol.iterator](): IterableIterator<Entry<Payload>> {
    for (const { lanes } of this.#classes) for (const lane of lanes.values()) yield* lane.entries
  }

  /** No class can pay yet: rounds that serve nobody are given in one step. */
  #serveAfter(rounds: number, isBusy: IsBusy<Payload>): Entry<Payload> | undefined {
    const classCount = this.#classes.length
    for (const state of this.#classes)
      if (this.#dispatchable(state, isBusy)) state.deficit += state.policy.quantum * rounds
    for (let offset = 0; offset < classCount; offset++) {
      const index = (this.#cursor + offset) % classCount
      const entry = this.#dispatchable(this.#classes[index]!, isBusy)
      if (entry && entry.cost <= this.#classes[index]!.deficit) return this.#serve(index, entry)
    }
    return undefined
  }

  #serve(index: number, entry: Entry<Payload>): Entry<Payload> {
    const state = this.#classes[index]!
    this.#cursor = (index + 1) % this.#classes.length
    this.#take(state, state.lanes.get(entry.laneKey)!, entry)
    state.deficit = state.requests === 0 ? 0 : state.deficit - entry.cost
    if (state.deficit > 0) this.#carry = index
    return entry
  }

  /** The best entry of a class that can be placed. Lanes found busy step aside until they are unblocked. */
  #dispatchable(state: ClassState<Payload>, isBusy: IsBusy<Payload>): Entry<Payload> | undefined {
    for (let lane = state.ready.first(); lane; lane = state.ready.first()) {
      const entry = lane.entries.first()!
      if (!isBusy(entry.payload, state.policy)) return entry
      this.#block(state, lane)
    }
    return undefined
  }

  #judge(state: ClassState<Payload>, workerCount: number): QueueRejection | undefined {
    if (this.#count < this.#parkedMax) return judgeLimits(state.policy, state, workerCount)
    return {
      policyClass: state.policy.name,
      limitKind: 'parked_requests',
      current: this.#count,
      limit: this.#parkedMax,
    }
  }

  #openLane(state: ClassState<Payload>, entry: Entry<Payload>, isLaneBusy: boolean): void {
    const lane: Lane<Payload> = {
      key: entry.laneKey,
      entries: new IndexedHeap<Entry<Payload>>(isBefore),
      isBlocked: isLaneBusy,
      heapIndex: -1,
    }
    lane.entries.add(entry)
    state.lanes.set(lane.key, lane)
    if (isLaneBusy) state.blocked.set(lane.key, lane)
    else state.ready.add(lane)
  }

  #take(state: ClassState<Payload>, lane: Lane<Payload>, entry: Entry<Payload>): void {
    const wasFirst = entry.heapIndex === 0
    if (lane.entries.size === 1) {
      // The ready heap orders lanes by their first entry, so a lane leaves it before it is empty.
      state.lanes.delete(lane.key)
      if (lane.isBlocked) state.blocked.delete(lane.key)
      else state.ready.remove(lane)
      lane.entries.remove(entry)
    } else {
      lane.entries.remove(entry)
      if (wasFirst && !lane.isBlocked) state.ready.moved(lane)
    }
    this.#account(state, entry, -1)
  }

  #block(state: ClassState<Payload>, lane: Lane<Payload>): void {
    state.ready.remove(lane)
    state.blocked.set(lane.key, lane)
    lane.isBlocked = true
  }

  #unblock(state: ClassState<Payload>, lane: Lane<Payload>): void {
    state.blocked.delete(lane.key)
    lane.isBlocked = false
    state.ready.add(lane)
  }

  #account(state: ClassState<Payload>, entry: Entry<Payload>, sign: 1 | -1): void {
    state.requests += sign
    state.rawIslTokens += sign * entry.islTokens
    state.cachedTokens += sign * entry.cachedTokens
    this.#count += sign
    this.#rawIslTokens += sign * entry.islTokens
  }
}

function isBefore<Payload>(a: Entry<Payload>, b: Entry<Payload>): boolean {
  if (a.strictPriority !== b.strictPriority) return a.strictPriority > b.strictPriority
  if (a.score !== b.score) return a.score > b.score
  return a.sequence < b.sequence
}
