/**
 * Held requests by class. Inside a class the order is `HeldQueue`'s; among classes whoever was served the least for its
 * quantum is looked at first, so that classes whose requests can leave share as under deficit round robin. A request that
 * cannot leave lets the next class be looked at: it is passed over, and costs its class nothing.
 */
import type { Held } from './held-queue.js'
import { HeldQueue } from './held-queue.js'
import type { PolicyClass, QueueRejection, QueueUsage } from './policy-class.js'
import { judgeLimits } from './policy-class.js'

export interface HeldRequest<Payload> extends Held<Payload> {
  readonly classIndex: number
  readonly islTokens: number
  /** At most `islTokens`. */
  readonly cachedTokens: number
}

interface HeldClass<Payload> {
  readonly policy: PolicyClass
  readonly queue: HeldQueue<Payload>
  readonly usage: { requests: number; rawIslTokens: number; cachedTokens: number }
  /** Uncached tokens that left, per token of its quantum: the lower, the more is its turn. */
  served: number
}

/** One look after another at the front of every class. */
export interface Looks<Payload> {
  /** The next to look at; undefined when everybody was looked at, or as many as were asked for. */
  next(): Payload | undefined
  /** Whoever came last leaves: its class pays for it. Otherwise it stays. */
  leaves(): void
}

export class HeldClasses<Payload> {
  readonly #classes: readonly HeldClass<Payload>[]
  readonly #requests = new Map<Payload, HeldRequest<Payload>>()
  #islTokens = 0

  constructor(classes: readonly PolicyClass[]) {
    this.#classes = classes.map((policy) => ({
      policy,
      queue: new HeldQueue<Payload>(),
      usage: { requests: 0, rawIslTokens: 0, cachedTokens: 0 },
      served: 0,
    }))
  }

  get size(): number {
    return this.#requests.size
  }

  get islTokens(): number {
    return this.#islTokens
  }

  usageOf(classIndex: number): QueueUsage {
    return this.#classes[classIndex]!.usage
  }

  /** Why the class may hold no more. */
  judge(classIndex: number, workerCount: number): QueueRejection | undefined {
    const { policy, usage } = this.#classes[classIndex]!
    return judgeLimits(policy, usage, workerCount)
  }

  push(request: HeldRequest<Payload>): void {
    const of = this.#classes[request.classIndex]!
    if (this.size === 0) for (const each of this.#classes) each.served = 0
    else if (of.queue.size === 0) of.served = Math.max(of.served, this.#leastServed())
    of.queue.push(request)
    this.#requests.set(request.payload, request)
    this.#account(of, request, 1)
  }

  /** False: it is not here. */
  remove(payload: Payload): boolean {
    const request = this.#requests.get(payload)
    if (!request) return false
    const of = this.#classes[request.classIndex]!
    this.#requests.delete(payload)
    of.queue.remove(payload)
    this.#account(of, request, -1)
    return true
  }

  /** At most `count` looks, spread over the classes that hold somebody. Whoever leaves is removed by the caller. */
  look(count: number, workerCount: number): Looks<Payload> {
    const turns = this.#classes
      .filter(({ queue }) => queue.size > 0)
      .map((of) => ({ of, front: of.queue.first(count, workerCount), at: 0, stayed: 0 }))
    let left = count
    let last: (typeof turns)[number] | undefined
    return {
      next: () => {
        if (last) last.stayed++
        last = undefined
        if (left-- <= 0) return undefined
        for (const turn of turns) if (turn.at < turn.front.length && (!last || isBefore(turn, last))) last = turn
        return last?.front[last.at++]
      },
      leaves: () => {
        const { of, front, at } = last!
        of.served += costOf(this.#requests.get(front[at - 1]!)!) / of.policy.quantum
        last = undefined
      },
    }
  }

  [Symbol.iterator](): IterableIterator<Payload> {
    return this.#requests.keys()
  }

  /** Where a class starts that was away: being away earns nothing. */
  #leastServed(): number {
    let least = Number.POSITIVE_INFINITY
    for (const { queue, served } of this.#classes) if (queue.size > 0 && served < least) least = served
    return least
  }

  #account(of: HeldClass<Payload>, { islTokens, cachedTokens }: HeldRequest<Payload>, sign: 1 | -1): void {
    of.usage.requests += sign
    of.usage.rawIslTokens += sign * islTokens
    of.usage.cachedTokens += sign * cachedTokens
    this.#islTokens += sign * islTokens
  }
}

interface Turn {
  readonly of: { readonly served: number }
  readonly stayed: number
}

function isBefore(a: Turn, b: Turn): boolean {
  return a.stayed === b.stayed ? a.of.served < b.of.served : a.stayed < b.stayed
}

function costOf({ islTokens, cachedTokens }: HeldRequest<unknown>): number {
  return Math.max(1, islTokens - cachedTokens)
}
