/**
 * The product's own routing of a fleet of pairs as a policy of the replay: one router among prefill workers, one among
 * decode workers, and the rule that skips a remote prefill. Workers `0 .. prefillWorkers - 1` prefill, the others decode.
 */
import type { ConditionalSettings } from '../../core/prefill/index.js'
import { bypassRemotePrefill } from '../../core/prefill/index.js'
import type { RouterConfigInput } from '../../core/protocol/index.js'
import { completeRouterConfig } from '../../core/protocol/index.js'
import { decodeOverride, prefillRouterConfig } from '../../routing/index.js'
import { CorePolicy } from './core-policy.js'
import type { Fleet, ReplayPolicy, ReplayRequest } from './replay.js'

export interface PairPolicyOptions {
  readonly prefillWorkers: number
  readonly config?: RouterConfigInput
  /** None: every prompt is prefilled remotely. */
  readonly conditional?: ConditionalSettings | undefined
  readonly seed?: number
}

export class PairPolicy implements ReplayPolicy {
  readonly #options: PairPolicyOptions
  readonly #prefill: CorePolicy
  readonly #decode: CorePolicy

  constructor(options: PairPolicyOptions) {
    const { config, seed = 1 } = options
    this.#options = options
    const prefillConfig = prefillRouterConfig(completeRouterConfig(config))
    this.#prefill = new CorePolicy({ config: prefillConfig, label: 'prefill', seed })
    // The KV is on its way when a decode worker is chosen: nobody waits there.
    this.#decode = new CorePolicy({ config: { ...config, routerQueueThreshold: undefined }, seed: seed + 1 })
  }

  start(fleet: Fleet): void {
    const { prefillWorkers: count } = this.#options
    this.#prefill.start({ ...fleet, workers: count })
    const dispatch: Fleet['dispatch'] = (request, worker) => fleet.dispatch(request, count + worker)
    this.#decode.start({ ...fleet, workers: fleet.workers - count, dispatch })
  }

  route(request: ReplayRequest, nowMs: number): number {
    if (!this.#staysWhole(request, nowMs)) return this.#prefill.route({ ...request, isWhole: false }, nowMs) // the end of its leg is seen
    const worker = this.#decode.route(request, nowMs)
    return worker < 0 ? worker : this.#options.prefillWorkers + worker // held until it can be prefilled where it decodes
  }

  routeDecode(request: ReplayRequest, nowMs: number): number {
    const override = decodeOverride(undefined, this.#options.conditional !== undefined)
    return this.#options.prefillWorkers + this.#decode.route(request, nowMs, override)
  }

  prefillDone(request: ReplayRequest, worker: number, _decodeWorker: number, nowMs: number): void {
    this.#prefill.firstToken(request, worker, nowMs)
    this.#prefill.finished(request, worker, nowMs)
  }

  stored(worker: number, keys: Float64Array, parent: number): void {
    const { prefillWorkers: count } = this.#options
    if (worker < count) this.#prefill.stored(worker, keys, parent)
    else this.#decode.stored(worker - count, keys, parent)
  }

  removed(worker: number, key: number): void {
    const { prefillWorkers: count } = this.#options
    if (worker < count) this.#prefill.removed(worker, key)
    else this.#decode.removed(worker - count, key)
  }

  firstToken(request: ReplayRequest, worker: number, nowMs: number): void {
    if (worker >= this.#options.prefillWorkers) this.#decode.firstToken(request, worker, nowMs)
  }

  outputBlock(request: ReplayRequest, worker: number, blocks: number, nowMs: number): void {
    if (worker >= this.#options.prefillWorkers) this.#decode.outputBlock(request, worker, blocks, nowMs)
  }

  finished(request: ReplayRequest, worker: number, nowMs: number): void {
    if (worker >= this.#options.prefillWorkers) this.#decode.finished(request, worker, nowMs)
  }

  #staysWhole(request: ReplayRequest, nowMs: number): boolean {
    const { conditional } = this.#options
    if (!conditional) return false
    const decodeCachedTokens = this.#decode.cachedTokens(request, nowMs)
    return bypassRemotePrefill(conditional, { promptTokens: request.promptTokens, decodeCachedTokens }) !== undefined
  }
}
