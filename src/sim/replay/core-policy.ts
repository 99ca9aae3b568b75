/**
 * The product's own router as a policy of the replay: the real index, sequences, queue and selection, told what a router
 * would be told. Not a second implementation of anything.
 *
 * A prompt's blocks are named by the replay's keys, which are equal only behind equal content, so a key serves as content
 * hash, chain hash and the engine's own name of the block.
 */
import { createPrefixIndex, KvIndex, TieredBatch } from '../../core/index/index.js'
import type { FleetModel } from '../../core/load/index.js'
import type { HashColumn, RouterConfigInput, RouterConfigOverride } from '../../core/protocol/index.js'
import { completeRouterConfig, defaultWorkerConfig, newHashColumn } from '../../core/protocol/index.js'
import { profileFor } from '../../core/queue/index.js'
import type { Moment, PrefillEstimator, SchedulingRequest } from '../../core/router/index.js'
import { RouterCore } from '../../core/router/index.js'
import type { SelectorLabel, WorkerSelector } from '../../core/selection/index.js'
import { drawsOf } from './draws.js'
import type { Fleet, ReplayPolicy, ReplayRequest } from './replay.js'

/**
 * How Warmroute's own router is set in a replay.
 *
 * @example
 * import { CorePolicy, type CorePolicyOptions } from 'warmroute/sim'
 *
 * const options: CorePolicyOptions = { config: { overlapScoreCredit: 0 }, seed: 7 }
 * const policy = new CorePolicy(options)
 */
export interface CorePolicyOptions {
  /** Settings of the router, as a config file has them. */
  readonly config?: RouterConfigInput
  /** Breaks ties and samples; equal seeds give equal replays. */
  readonly seed?: number
  /** What its workers do; `decode` is everything but prefill for others. */
  readonly label?: SelectorLabel
  readonly selector?: WorkerSelector
  readonly estimatePrefill?: PrefillEstimator
  /** Where `policy: warm` starts from; nothing unless told. */
  readonly model?: FleetModel
}

/**
 * Warmroute's own router in a replay: the same core, fed with the simulated engines' events.
 *
 * @example
 * import { CorePolicy, parseMooncake, replay } from 'warmroute/sim'
 *
 * const trace = parseMooncake('{"timestamp":0,"input_length":1024,"output_length":8,"hash_ids":[1,2]}')
 * console.log(replay(trace, { workers: 2, policy: new CorePolicy() }).completed) // => 1
 */
export class CorePolicy implements ReplayPolicy {
  readonly #options: CorePolicyOptions
  readonly #draw: () => number
  readonly #batch = new TieredBatch()
  readonly #waiting = new Map<string, ReplayRequest>()
  #moment: Moment & { nowMs: number }
  #core: RouterCore | undefined
  #fleet: Fleet | undefined
  #wakeAtMs = Number.POSITIVE_INFINITY
  /** Of the event at hand: a batch copies them, and a replay has a million evictions. */
  #names = newHashColumn(64)
  readonly #parent = newHashColumn(1)

  constructor(options: CorePolicyOptions = {}) {
    this.#options = options
    this.#draw = drawsOf(options.seed ?? 1)
    this.#moment = { nowMs: 0, draw: this.#draw }
  }

  start(fleet: Fleet): void {
    const config = completeRouterConfig(this.#options.config)
    const { blockTokens, blocks, batchedTokensMax } = fleet.engine
    const core = new RouterCore({
      config,
      blockSize: blockTokens,
      profile: profileFor(undefined, undefined, config),
      label: this.#options.label ?? 'decode',
      index: (ranks) =>
        new KvIndex({ ranks, device: createPrefixIndex({ seedLo: 1, seedHi: 2 }), startMs: 0, seed: 1 }),
      selector: this.#options.selector,
      estimatePrefill: this.#options.estimatePrefill,
      model: this.#options.model,
    })
    const worker = { ...defaultWorkerConfig, totalKvBlocks: blocks, maxNumBatchedTokens: batchedTokensMax }
    const workers = Array.from({ length: fleet.workers }, (_, id) => [BigInt(id), worker] as const)
    core.reconcileWorkers(new Map(workers), this.#moment)
    this.#core = core
    this.#fleet = fleet
  }

  route(request: ReplayRequest, nowMs: number, override?: RouterConfigOverride): number {
    this.#moment.nowMs = nowMs
    const decision = this.#core!.decide({ ...questionOf(request), isQueryOnly: false, override }, this.#moment)
    if (decision.kind === 'picked') return Number(decision.worker.workerId)
    if (decision.kind === 'refused') throw decision.error
    this.#waiting.set(String(request.index), request)
    this.#wakeLater(nowMs)
    return -1
  }

  /** How much of the prompt the worker that would be chosen holds; books nothing. Undefined: it would have to wait. */
  cachedTokens(request: ReplayRequest, nowMs: number): number | undefined {
    this.#moment.nowMs = nowMs
    const decision = this.#core!.decide({ ...questionOf(request), isQueryOnly: true }, this.#moment)
    if (decision.kind === 'parked') this.#core!.cancel(decision.parked)
    return decision.kind === 'picked' ? decision.cachedTokens : undefined
  }

  stored(worker: number, keys: Float64Array, parent: number): void {
    if (2 * keys.length > this.#names.length) this.#names = newHashColumn(2 * keys.length)
    for (let index = 0; index < keys.length; index++) nameBlock(this.#names, index, keys[index]!)
    if (parent >= 0) nameBlock(this.#parent, 0, parent)
    const before = parent < 0 ? undefined : this.#parent
    this.#batch.device.stored(this.#rankOf(worker), before, this.#names, this.#names, keys.length)
    this.#apply()
  }

  removed(worker: number, key: number): void {
    nameBlock(this.#names, 0, key)
    this.#batch.device.removed(this.#rankOf(worker), this.#names, 1)
    this.#apply()
  }

  firstToken(request: ReplayRequest, _worker: number, nowMs: number): void {
    this.#moment.nowMs = nowMs
    this.#core!.markPrefillCompleted(String(request.index), this.#moment)
    this.#dispatch()
  }

  outputBlock(request: ReplayRequest, _worker: number, _blocks: number, nowMs: number): void {
    if (!this.#core!.model) return // only a cost in milliseconds asks how long answers are
    this.#moment.nowMs = nowMs
    this.#core!.addOutputBlock(String(request.index), this.#moment)
  }

  finished(request: ReplayRequest, _worker: number, nowMs: number): void {
    this.#moment.nowMs = nowMs
    this.#core!.free(String(request.index), this.#moment)
    this.#dispatch()
  }

  /** Held requests may go without anything happening: the core says when to look. */
  #wakeLater(nowMs: number): void {
    const at = this.#core!.nextWakeMs(nowMs)
    if (at === undefined || at >= this.#wakeAtMs) return
    this.#wakeAtMs = at
    this.#fleet!.clock.at(at, () => {
      if (this.#wakeAtMs !== at) return
      this.#wakeAtMs = Number.POSITIVE_INFINITY
      this.#moment.nowMs = at
      this.#core!.recheck(this.#moment)
      this.#dispatch()
    })
  }

  #dispatch(): void {
    this.#wakeLater(this.#moment.nowMs)
    for (const { parked, decision } of this.#core!.takeDispatched()) {
      const request = this.#waiting.get(parked.request.requestId!)!
      this.#waiting.delete(parked.request.requestId!)
      const placed = decision.kind === 'refresh' ? this.#core!.place(parked, undefined, this.#moment) : decision
      if (placed.kind === 'refused') throw placed.error
      this.#fleet!.dispatch(request, Number(placed.worker.workerId))
    }
  }

  #apply(): void {
    this.#core!.applyBatch(this.#batch)
    this.#batch.clear()
  }

  #rankOf(worker: number): number {
    return this.#core!.ranks.find(BigInt(worker), 0)!
  }
}

function questionOf(request: ReplayRequest): Omit<SchedulingRequest, 'isQueryOnly'> {
  const hashes = columnOf(request.blockKeys)
  return {
    requestId: String(request.index),
    promptTokens: request.promptTokens,
    localHashes: hashes,
    sequenceHashes: hashes,
    blockCount: request.blockKeys.length,
    isWhole: request.isWhole,
  }
}

function columnOf(keys: ArrayLike<number>): HashColumn {
  const column = newHashColumn(keys.length)
  for (let index = 0; index < keys.length; index++) nameBlock(column, index, keys[index]!)
  return column
}

function nameBlock(column: HashColumn, index: number, key: number): void {
  const name = key + 1 // 0 is a legal hash; kept free so that a forgotten block is never a hit
  column[2 * index] = name >>> 0
  column[2 * index + 1] = Math.floor(name / 2 ** 32)
}
