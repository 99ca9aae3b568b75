/**
 * Drives a whole router with random operations from one seed and keeps its own books beside it: who was placed, who waits,
 * who was lost with a worker. Small ranges on purpose: collisions are where bugs are.
 */
import assert from 'node:assert/strict'
import type { RouterConfigInput, RouterEvent, WorkerConfig } from '../../src/core/protocol/index.js'
import { completeRouterConfig, toHashColumn } from '../../src/core/protocol/index.js'
import { KvIndex, TieredBatch, WasmIndex } from '../../src/core/index/index.js'
import { parsePolicyConfig, profileFor } from '../../src/core/queue/index.js'
import type {
  Decision,
  Moment,
  ParkedRequest,
  RouterCore,
  RouterCoreOptions,
  RouterInputs,
  SchedulingRequest,
} from '../../src/core/router/index.js'
import { SharedCacheHits } from '../../src/core/selection/index.js'

export const blockSize = 4

const policies = parsePolicyConfig({
  default_policy_family: 'std',
  uncached_isl_buckets: [
    { min_tokens: 0, bucket: 'short' },
    { min_tokens: 24, bucket: 'long' },
  ],
  policy_classes: [
    { name: 'std-short', policy_family: 'std', cache_bucket: 'short', quantum: 3, prefill_busy_threshold: 40 },
    {
      name: 'std-long',
      policy_family: 'std',
      cache_bucket: 'long',
      quantum: 1,
      prefill_busy_threshold: 20,
      queue_policy: 'wspt',
    },
    { name: 'open' },
    { name: 'tight', prefill_busy_threshold: 0, request_queue_limit_per_worker: 3 },
  ],
})

export function routerOptions(input: RouterConfigInput, withClasses: boolean): RouterCoreOptions {
  const config = completeRouterConfig({ routerQueueThreshold: 0.5, routerActiveRequestExpirySecs: 40, ...input })
  return {
    config,
    blockSize,
    profile: profileFor(withClasses ? policies : undefined, undefined, config),
    label: 'decode',
    estimatePrefill: (tokens) => tokens * 7,
    startMs: 3,
    index: (ranks, startMs) =>
      new KvIndex({
        ranks,
        device: WasmIndex.create({ seedLo: 1, seedHi: 2 })!,
        approximateTtlMs: config.useKvEvents ? undefined : 5000,
        startMs,
        seed: 1,
      }),
  }
}

/** Numbers from one seed; the same seed gives the same run. */
export class Lots {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let bits = this.#state
    bits = Math.imul(bits ^ (bits >>> 15), bits | 1)
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61)
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32
  }

  below(limit: number): number {
    return Math.floor(this.next() * limit)
  }

  chance(share: number): boolean {
    return this.next() < share
  }

  of<T>(values: readonly T[]): T | undefined {
    return values[this.below(values.length)]
  }
}

export interface DriverStats {
  admitted: number
  freed: number
  lost: number
  parked: number
  cancelled: number
  refused: number
}

export class RouterDriver {
  readonly stats: DriverStats = { admitted: 0, freed: 0, lost: 0, parked: 0, cancelled: 0, refused: 0 }
  /** Every decision in order, as text: what two runs are compared by. */
  transcript = 0
  readonly #inputs: RouterInputs
  readonly #core: RouterCore
  readonly #lots: Lots
  readonly #live = new Bag<string>()
  readonly #waiting = new Bag<ParkedRequest>()
  #nowMs = 0
  #next = 0

  constructor(inputs: RouterInputs, core: RouterCore, seed: number) {
    this.#inputs = inputs
    this.#core = core
    this.#lots = new Lots(seed)
    for (let id = 0; id < 4; id++) this.#setWorker(BigInt(id))
  }

  step(): void {
    this.#nowMs += this.#lots.below(30)
    const choice = this.#lots.below(100)
    if (choice < 34) this.#ask()
    else if (choice < 48) this.#mark()
    else if (choice < 66) this.#free()
    else if (choice < 74) this.#grow()
    else if (choice < 80) this.#event()
    else if (choice < 85) this.#batch()
    else if (choice < 86) this.#withhold()
    else if (choice < 89) this.#cancel()
    else if (choice < 91) this.#changeFlags()
    else if (choice < 93) this.#setWorker(BigInt(this.#lots.below(6)))
    else if (choice < 94) this.#removeWorker()
    else if (choice < 96) this.#inputs.recheck(this.#moment())
    else if (choice < 97) this.#inputs.expire(this.#moment())
    else if (choice < 98) this.#peer()
    else this.#decided()
    this.#settle()
  }

  /** The books of the router are those kept here. */
  check(): void {
    for (const id of this.#live.all()) this.#sweep(id)
    assert.equal(this.#core.pendingCount, this.#waiting.size)
    assert.equal(this.#core.sequences.requestCount, this.#live.size)
    assert.equal(this.stats.admitted, this.stats.freed + this.stats.lost + this.#live.size)
    let requests = 0
    for (const rank of this.#core.sequences.trackedRanks()) requests += this.#core.sequences.activeRequests(rank)
    assert.equal(requests, this.#live.size)
  }

  /** Ends everything that runs or waits, and expects nothing to be left. */
  drain(): void {
    for (let turn = 0; this.#live.size + this.#waiting.size > 0 && turn < 1000; turn++) {
      this.#nowMs += 1000
      this.#inputs.setFlags({}, this.#moment())
      if (this.#core.workers.servedCount === 0) this.#setWorker(0n)
      for (const id of this.#live.all()) this.#end(id)
      this.#inputs.recheck(this.#moment())
      this.#settle()
    }
    this.check()
    assert.deepEqual([this.#live.size, this.#waiting.size, this.#core.pendingIslTokens], [0, 0, 0])
    const { sequences } = this.#core
    assert.deepEqual([sequences.requestCount, sequences.runCount, sequences.activeLoraCounts().size], [0, 0, 0])
    for (const rank of sequences.trackedRanks())
      assert.deepEqual(
        [sequences.activeBlocks(rank), sequences.activeTokens(rank, this.#nowMs), sequences.activeRequests(rank)],
        [0, 0, 0],
      )
  }

  #moment(): Moment {
    return { nowMs: this.#nowMs, draw: () => this.#lots.next() }
  }

  #ask(): void {
    const lots = this.#lots
    const id = lots.chance(0.03) ? (this.#live.any(lots) ?? 'x') : `r${this.#next++}`
    this.#sweep(id)
    const request = this.#request(id)
    this.#note(id, this.#inputs.decide(request, this.#moment()), request.isQueryOnly)
  }

  #request(requestId: string): SchedulingRequest {
    const lots = this.#lots
    const prompt = this.#prompt()
    const ids = (): Set<bigint> => new Set(Array.from({ length: 1 + lots.below(3) }, () => BigInt(lots.below(6))))
    return {
      requestId,
      promptTokens: prompt.length * blockSize + lots.below(blockSize) + (prompt.length === 0 ? 1 : 0),
      localHashes: toHashColumn(prompt),
      sequenceHashes: lots.chance(0.05) ? undefined : toHashColumn(chain(prompt)),
      blockCount: prompt.length,
      isQueryOnly: lots.chance(0.05),
      loraName: lots.chance(0.1) ? 'adapter' : undefined,
      expectedOutputTokens: lots.chance(0.5) ? lots.below(100) : undefined,
      pin: lots.chance(0.12) ? { workerId: BigInt(lots.below(6)), dpRank: lots.below(2) } : undefined,
      allowedWorkerIds: lots.chance(0.12) ? ids() : undefined,
      excludedWorkerIds: lots.chance(0.05) ? ids() : undefined,
      constraints: lots.chance(0.1) ? { requiredTaints: ['t'], preferredTaints: { u: lots.next() - 0.5 } } : undefined,
      priorityJump: lots.chance(0.2) ? lots.below(5) : undefined,
      strictPriority: lots.chance(0.1) ? lots.below(2) : undefined,
      policyClass: lots.of(['std', 'open', 'tight', 'unknown', undefined]),
      override: lots.chance(0.1) ? { routerTemperature: lots.next(), trackPrefillTokens: lots.chance(0.5) } : undefined,
      sharedHits: lots.chance(0.1) ? new SharedCacheHits([[0, lots.below(4)]]) : undefined,
      wantReceipt: lots.chance(0.05),
      session: lots.chance(0.1) ? { turn: lots.below(9), score: lots.next(), tags: ['x', null, 7n] } : undefined,
    }
  }

  #prompt(): bigint[] {
    const family = BigInt(this.#lots.below(4)) * 100n
    return Array.from(
      { length: this.#lots.below(10) },
      (_, at) => family + BigInt(at) + (at > 5 ? BigInt(this.#lots.below(2)) * 50n : 0n),
    )
  }

  #note(id: string, decision: Decision, isUntracked: boolean): void {
    this.#remember(`${id}:${decision.kind}`)
    if (decision.kind === 'picked') {
      this.#remember(`${decision.worker.workerId}/${decision.worker.dpRank}/${decision.cachedTokens}`)
      if (isUntracked) return
      this.stats.admitted++
      this.#live.add(id)
    } else if (decision.kind === 'parked') {
      this.stats.parked++
      this.#waiting.add(decision.parked)
    } else this.stats.refused++
  }

  #settle(): void {
    for (const { parked, decision } of this.#inputs.takeDispatched()) {
      assert.ok(this.#waiting.delete(parked))
      assert.notEqual(decision.kind, 'refresh')
      if (decision.kind !== 'refresh') this.#note(parked.request.requestId!, decision, parked.request.isQueryOnly)
    }
  }

  #mark(): void {
    const id = this.#known()
    quietly(() => this.#inputs.markPrefillCompleted(id, this.#moment()))
  }

  #grow(): void {
    const id = this.#known()
    const fraction = this.#lots.chance(0.5) ? this.#lots.next() : undefined
    quietly(() => this.#inputs.addOutputBlock(id, this.#moment(), fraction))
  }

  #free(): void {
    this.#end(this.#known())
  }

  #end(id: string): void {
    const wasBooked = this.#core.sequences.has(id)
    this.#sweep(id)
    if (this.#lots.chance(0.9)) quietly(() => this.#inputs.free(id, this.#moment()))
    else {
      const rank = this.#core.sequences.rankOf(id)
      if (rank !== undefined) this.#inputs.freeIfOn(id, this.#core.ranks.pairOf(rank), this.#moment())
    }
    if (wasBooked && this.#live.delete(id)) this.stats.freed++
  }

  #cancel(): void {
    const parked = this.#waiting.any(this.#lots)
    if (parked === undefined) return
    assert.ok(this.#inputs.cancel(parked))
    this.#waiting.delete(parked)
    this.stats.cancelled++
  }

  #event(): void {
    const lots = this.#lots
    const workerId = BigInt(lots.below(6))
    const prompt = this.#prompt()
    const external = chain(prompt)
    const kind = lots.below(10)
    const data =
      kind < 6
        ? ({
            kind: 'stored',
            parentHash: null,
            startPosition: null,
            blocks: prompt.map((tokensHash, at) => ({ tokensHash, blockHash: external[at]!, mmExtraInfo: null })),
          } as const)
        : kind < 9
          ? ({ kind: 'removed', blockHashes: external.slice(-2) } as const)
          : ({ kind: 'cleared' } as const)
    const storageTier = lots.of(['device', 'device', 'host_pinned', 'disk'] as const)!
    const event: RouterEvent = {
      workerId,
      storageTier,
      residencyDomain: 'missing',
      event: { eventId: 1n, dpRank: lots.below(2), data },
    }
    this.#inputs.applyEvents([event])
  }

  /** What a feed of packed events tells, by rank numbers; ranks must be known. */
  #batch(): void {
    const lots = this.#lots
    const batch = new TieredBatch()
    for (let left = 1 + lots.below(3); left > 0; left--) {
      const rank = this.#core.ranks.find(BigInt(lots.below(6)), lots.below(2))
      if (rank === undefined) continue
      const prompt = this.#prompt()
      const [local, external] = [toHashColumn(prompt), toHashColumn(chain(prompt))]
      const tier = batch.of(lots.of(['device', 'device', 'host_pinned', 'disk'] as const)!)
      if (lots.chance(0.1)) batch.cleared(rank)
      else if (lots.chance(0.3)) tier.removed(rank, external)
      else tier.stored(rank, undefined, external, local)
    }
    this.#inputs.applyBatch(batch)
    batch.clear() // its owner fills it again
  }

  #withhold(): void {
    const rank = this.#lots.below(this.#core.ranks.size + 1)
    this.#inputs.setWithheld(rank, this.#lots.chance(0.4))
  }

  #peer(): void {
    const worker = { workerId: BigInt(this.#lots.below(4)), dpRank: 0 }
    const requestId = this.#known()
    const rank = this.#core.sequences.rankOf(requestId)
    if (rank === undefined) return
    const booked = this.#core.ranks.pairOf(rank)
    const isNamed = booked.workerId === worker.workerId && booked.dpRank === 0
    this.#inputs.applyReplica([{ requestId, worker, routerId: 77n, data: { kind: 'free' } }], this.#moment())
    if (!this.#core.sequences.has(requestId) && this.#live.delete(requestId)) {
      this.stats.freed++
      assert.ok(isNamed || this.#core.sequences.rules.replicaTarget === 'booked')
    }
  }

  #decided(): void {
    const prompt = this.#prompt()
    const worker = { workerId: BigInt(this.#lots.below(6)), dpRank: 0 }
    quietly(() =>
      this.#inputs.recordDecision(
        worker,
        toHashColumn(prompt),
        toHashColumn(chain(prompt)),
        prompt.length,
        this.#moment(),
      ),
    )
  }

  #changeFlags(): void {
    const some = (): Set<bigint> => new Set([0n, 1n, 2n, 3n, 4n, 5n].filter(() => this.#lots.chance(0.6)))
    const available = this.#lots.chance(0.5) ? some() : undefined
    const overloaded = this.#lots.chance(0.5) ? new Set([...some()].slice(0, 2)) : undefined
    this.#inputs.setFlags(this.#lots.chance(0.6) ? {} : { available, overloaded }, this.#moment())
  }

  #setWorker(workerId: bigint): void {
    const lots = this.#lots
    const config: WorkerConfig = {
      dataParallelStartRank: lots.below(2),
      dataParallelSize: lots.below(3),
      maxNumBatchedTokens: lots.chance(0.9) ? 20 + lots.below(60) : undefined,
      taints: new Set(['t', 'u'].filter(() => lots.chance(0.5))),
    }
    this.#inputs.setWorker(workerId, config, this.#moment())
  }

  #removeWorker(): void {
    this.#inputs.removeWorker(BigInt(this.#lots.below(6)), this.#moment())
  }

  /** Bookings end without a call when they expire or their worker leaves. */
  #sweep(id: string): void {
    if (!this.#core.sequences.has(id) && this.#live.delete(id)) this.stats.lost++
  }

  /** A live id as a rule, sometimes one that waits, and sometimes nobody's. */
  #known(): string {
    if (this.#lots.chance(0.05)) return `r${this.#lots.below(this.#next + 1)}`
    return this.#live.any(this.#lots) ?? 'nobody'
  }

  #remember(text: string): void {
    for (let at = 0; at < text.length; at++)
      this.transcript = (Math.imul(this.transcript, 31) + text.charCodeAt(at)) | 0
  }
}

/** A set that one can draw from without walking it. */
class Bag<T> {
  readonly #items: T[] = []
  readonly #places = new Map<T, number>()

  get size(): number {
    return this.#items.length
  }

  add(item: T): void {
    if (!this.#places.has(item)) this.#places.set(item, this.#items.push(item) - 1)
  }

  delete(item: T): boolean {
    const place = this.#places.get(item)
    if (place === undefined) return false
    const last = this.#items.pop()!
    this.#places.delete(item)
    if (place < this.#items.length) {
      this.#items[place] = last
      this.#places.set(last, place)
    }
    return true
  }

  any(lots: Lots): T | undefined {
    return lots.of(this.#items)
  }

  /** A copy: walking it, one may take items out. */
  all(): T[] {
    return [...this.#items]
  }
}

/** Names of a prompt's blocks: each depends on all before it. */
function chain(prompt: readonly bigint[]): bigint[] {
  let hash = 7n
  return prompt.map((local) => (hash = BigInt.asUintN(64, (hash ^ local) * 0x9e3779b97f4a7c15n + 1n)))
}

/** Unknown ids and workers are part of the run. */
function quietly(call: () => unknown): void {
  try {
    call()
  } catch (error) {
    assert.match((error as { code: string }).code, /^WR_(REQUEST|WORKER)_NOT_FOUND$/)
  }
}
