/**
 * `KvRouter` by upstream's method names. It hashes prompts and awaits what must be awaited; every choice is one
 * synchronous call into `core/router`, and `LiveCore` keeps that alive.
 * Follows lib/llm/src/kv_router.rs at v1.2.0. It only decides which worker to use; it sends nobody there.
 */
import type { TokensWithHashes } from '../core/hashing/index.js'
import type { KvIndex } from '../core/index/index.js'
import type {
  HashColumn,
  MmExtraInfo,
  RouterConfig,
  RouterConfigOverrideInput,
  RouterEvent,
  WorkerRank,
} from '../core/protocol/index.js'
import {
  completeOverride,
  completeRouterConfig,
  hashAt,
  tracksPrefillTokens,
  WarmrouteError,
} from '../core/protocol/index.js'
import type { ParkedRequest, Picked, WorkerFlags } from '../core/router/index.js'
import type { OverlapScores, SharedCacheHits } from '../core/selection/index.js'
import {
  cacheHitOf,
  costSettingsOf,
  fillCachedTokens,
  listOverlapScores,
  narrowToLora,
  sharedOverlap,
} from '../core/selection/index.js'
import type { PotentialLoad, ReplicaOutcome, SequenceEvent } from '../core/sequences/index.js'
import { listPotentialLoads, newLoadColumns } from '../core/sequences/index.js'
import type { WorkerType } from '../telemetry/index.js'
import type { BestMatchDetails, FindBestMatch, WorkerCacheHitEstimate } from './best-match.js'
import { roundedOverlapBlocks, toSchedulingRequest } from './best-match.js'
import { EncodedLookups } from './encoded-lookups.js'
import { encodingFor } from './encodings.js'
import type { KvRouterOptions } from './kv-router-options.js'
import { LiveCore } from './live-core.js'
import type { PrefillLearning } from './metrics-observer.js'
import { missingParts } from './missing-parts.js'
import type { Prompt } from './prompt.js'
import { hashPrompt, nameBlocks, PromptScratch } from './prompt.js'
import { PromptHashing } from './prompt-hashing.js'
import type { RankLoad } from './router-port.js'
import { inSpan } from './spans.js'
import { signalOf } from './wait-signal.js'

export interface PromptQuestion {
  readonly tokens: Uint32Array
  readonly blockMmInfos?: readonly (MmExtraInfo | null)[] | undefined
  readonly loraName?: string | undefined
  readonly cacheNamespace?: string | undefined
}

export interface AddRequest extends PromptQuestion {
  readonly requestId: string
  readonly cachedTokens: number
  readonly worker: WorkerRank
  readonly expectedOutputTokens?: number | undefined
  readonly routerConfigOverride?: RouterConfigOverrideInput | undefined
}

export class KvRouter<Client = undefined> {
  readonly #options: KvRouterOptions<Client>
  readonly #config: RouterConfig
  readonly #hashing: PromptHashing
  readonly #live: LiveCore
  readonly #scratch: PromptScratch
  readonly #encoded: EncodedLookups

  /**
   * In this order: complete and judge the config, build the index, wait for the minimum of workers, start to schedule with
   * those that are known, listen for events where they matter, offer the index where that is asked for.
   */
  static async create<Client = undefined>(options: KvRouterOptions<Client>): Promise<KvRouter<Client>> {
    const router = new KvRouter(options)
    try {
      await router.#live.start()
      return router
    } catch (error) {
      await router.close()
      throw error
    }
  }

  private constructor(options: KvRouterOptions<Client>) {
    const { blockSize, modelName, isEagle = false } = options
    const config = completeRouterConfig(options.config)
    if (config.serveIndexer && modelName === undefined)
      throw invalidConfig('model_name is required when serve_indexer is configured')
    if (config.useRemoteIndexer && !options.remoteIndex) throw invalidConfig('use_remote_indexer needs a remote index')
    if (!Number.isSafeInteger(blockSize) || blockSize < 1) throw invalidConfig(`a block of ${blockSize} tokens is none`)
    this.#options = options
    this.#config = config
    this.#live = new LiveCore(options, config)
    this.#scratch = new PromptScratch(this.#live.core.index)
    this.#encoded = new EncodedLookups(this.#live, blockSize)
    for (const sentence of missingParts(config, options)) this.#live.log.warn({}, sentence)
    this.#hashing = new PromptHashing({ config, blockSize, isEagle, modelName, random: this.#live.random })
  }

  // ---- what it is

  get client(): Client | undefined {
    return this.#options.client
  }

  /** Absent with a remote index. */
  get indexer(): KvIndex | undefined {
    return this.#live.core.index
  }

  /** What is learned of prefill times; absent where nobody learns. */
  get prefillLearning(): PrefillLearning | undefined {
    return this.#live.core.learner
  }

  get kvRouterConfig(): RouterConfig {
    return this.#config
  }

  get isEagle(): boolean {
    return this.#options.isEagle ?? false
  }

  get blockSize(): number {
    return this.#options.blockSize
  }

  get workerType(): WorkerType {
    return this.#options.workerType ?? 'decode'
  }

  get pendingCount(): number {
    return this.#live.core.pendingCount
  }

  get pendingIslTokens(): number {
    return this.#live.core.pendingIslTokens
  }

  /** Bookings that run. */
  get activeRequestCount(): number {
    return this.#live.core.sequences.requestCount
  }

  /** Running requests per LoRA name. */
  get activeLoraCounts(): ReadonlyMap<string, number> {
    return this.#live.core.sequences.activeLoraCounts()
  }

  /** The worker's global rank when it owns exactly one. */
  uniqueDpRankForWorker(workerId: bigint): number | undefined {
    const config = this.#options.workers.current().get(workerId)
    return config?.dataParallelSize === 1 ? config.dataParallelStartRank : undefined
  }

  // ---- decisions

  async findBestMatch(
    input: Omit<FindBestMatch, 'pinnedWorker'>,
  ): Promise<[worker: WorkerRank, overlapBlocks: number]> {
    const details = await this.findBestMatchDetails(input)
    return [details.worker, roundedOverlapBlocks(details)]
  }

  /** Rejects with a `WarmrouteError`. Waits while every rank is busy. */
  async findBestMatchDetails(given: FindBestMatch): Promise<BestMatchDetails> {
    const input = this.#complete(given)
    const { clock, tracer, lookups, observer } = this.#live
    const startedMs = clock.nowMs()
    const sinceStart = (): number => clock.nowMs() - startedMs
    this.#live.refuseIfOver(input.signal)
    if (input.updateStates && input.contextId === undefined)
      throw invalidArgument('context_id must be provided when update_states is true')
    // Without an await before the decision the columns can be lent; otherwise the next request would fill them.
    const mustAwait = lookups.mustAwait(input)
    const scratch = mustAwait || input.encodings ? new PromptScratch() : this.#scratch
    const ending = mustAwait ? undefined : this.#live.expireDue()
    if (ending) await this.#waitFor(ending, signalOf(input.signal))
    const prompt = inSpan(tracer, 'kv_router.compute_block_hashes', () => this.#hash(input, scratch))
    this.#logInput(input.contextId, prompt)
    const hashMs = sinceStart()
    const named = inSpan(tracer, 'kv_router.compute_seq_hashes', () =>
      nameBlocks(this.#hashing, input, prompt, scratch),
    )
    const seqHashMs = sinceStart()
    const found = mustAwait ? await lookups.ask(input, prompt, this.#live.stop) : undefined
    const asksElsewhere = input.encodings !== undefined && !this.indexer
    const foundElsewhere = asksElsewhere ? await this.#encoded.ask(input, input.encodings) : undefined
    this.#live.refuseIfOver(mustAwait || asksElsewhere ? signalOf(input.signal) : input.signal)
    const endingNow = mustAwait ? this.#live.expireDue() : undefined
    if (endingNow) await this.#waitFor(endingNow, signalOf(input.signal))
    const findFromMs = sinceStart()
    const usual = found?.matches?.() ?? inSpan(tracer, 'kv_router.find_matches', () => this.#live.find(prompt))
    const matches = input.encodings ? this.#encoded.merge(input.encodings, usual, foundElsewhere) : usual
    const foundMs = sinceStart()
    const asked = toSchedulingRequest(input, prompt, named, found?.sharedHits)
    // What was found is laid together of several lookups, which one column of hashes could not repeat after a wait.
    const { encodings } = input
    const request = encodings ? { ...asked, localHashes: undefined, isLookedUpOutside: true } : asked
    const again = encodings && (() => this.#encoded.lookUpAgain(input, prompt, encodings))
    const onPlaced = (it: Picked, parked: ParkedRequest | undefined): void => this.#remember(input, prompt, it, parked)
    const placed = inSpan(tracer, 'kv_router.schedule', () =>
      this.#live.place(request, matches, input.signal, onPlaced, again),
    )
    const picked = placed instanceof Promise ? await placed : placed
    const findMatchesMs = found?.findMatchesMs ?? foundMs - findFromMs
    const sharedCacheMs = found?.sharedCacheMs
    observer.routed?.({ hashMs, seqHashMs, findMatchesMs, sharedCacheMs, foundMs, totalMs: sinceStart() })
    if (found?.sharedHits) this.#observeShared(found.sharedHits, prompt, picked)
    const { worker, effectiveOverlapBlocks, cachedTokens, waitedMs, receipt } = picked
    return { worker, effectiveOverlapBlocks, cachedTokens, waitedMs, receipt }
  }

  /** Books a request that somebody else placed. Never throws: a duplicate or another failure is logged. */
  addRequest(request: AddRequest): void {
    const { requestId, worker, cachedTokens } = request
    try {
      const input = this.#complete({ ...request, updateStates: true, contextId: requestId })
      const prompt = this.#hash(input, this.#scratch)
      const named = nameBlocks(this.#hashing, input, prompt, this.#scratch)
      const scheduled = toSchedulingRequest(input, prompt, named, undefined)
      this.#live.tell((inputs, moment) => inputs.book(scheduled, worker, cachedTokens, moment))
    } catch (error) {
      this.#live.log.warn({ requestId, error }, 'failed to add a request')
    }
  }

  /** Throws `WR_REQUEST_NOT_FOUND`; repeating it for a known id is fine. */
  markPrefillCompleted(requestId: string): void {
    this.#live.tell((inputs, moment) => inputs.markPrefillCompleted(requestId, moment))
  }

  /** Ends the booking, or the wait for one. An unknown id is fine, except under `compat: dynamo-1.5`. */
  free(requestId: string): void {
    if (!this.#live.giveUp(requestId)) this.#live.tell((inputs, moment) => inputs.free(requestId, moment))
  }

  /** Ends the booking only while it is on this worker. */
  freeIfWorker(requestId: string, worker: WorkerRank): boolean {
    return this.#live.tell((inputs, moment) => inputs.freeIfOn(requestId, worker, moment))
  }

  /** Throws `WR_REQUEST_NOT_FOUND`. */
  addOutputBlock(requestId: string, decayFraction?: number): void {
    this.#live.tell((inputs, moment) => inputs.addOutputBlock(requestId, moment, decayFraction))
  }

  // ---- questions

  async getCacheHitEstimate(question: PromptQuestion, worker: WorkerRank): Promise<WorkerCacheHitEstimate> {
    const input: FindBestMatch = { ...question, updateStates: false }
    const prompt = this.#hash(input, new PromptScratch())
    const ending = this.#live.expireDue()
    if (ending) await ending
    const match = this.indexer ? this.#live.find(prompt) : await this.#encoded.remoteMatches(input, prompt)
    const rank = this.#live.core.ranks.find(worker.workerId, worker.dpRank)
    if (rank === undefined) return { effectiveOverlapBlocks: 0, cachedTokens: 0 }
    return cacheHitOf({ match }, rank, this.#config, this.blockSize)
  }

  async getOverlapBlocks(question: PromptQuestion, worker: WorkerRank): Promise<number> {
    return roundedOverlapBlocks(await this.getCacheHitEstimate(question, worker))
  }

  /** What a request would find on every rank; changes nothing. */
  async getPotentialLoads(
    question: PromptQuestion & { readonly routerConfigOverride?: RouterConfigOverrideInput | undefined },
  ): Promise<PotentialLoad[]> {
    const { core, clock } = this.#live
    const scratch = new PromptScratch()
    const input = this.#complete({ ...question, updateStates: false })
    const prompt = this.#hash(input, scratch)
    const named = nameBlocks(this.#hashing, input, prompt, scratch)
    const ending = this.#live.expireDue()
    if (ending) await ending
    const match = this.indexer ? this.#live.find(prompt) : await this.#encoded.remoteMatches(input, prompt)
    const cachedTokens = new Float64Array(core.ranks.size)
    fillCachedTokens(cachedTokens, { match }, costSettingsOf(this.#config), this.blockSize)
    const loads = newLoadColumns()
    core.sequences.fillLoads(loads, clock.nowMs(), named.names, named.count)
    const trackPrefillTokens = tracksPrefillTokens(this.#config, input.routerConfigOverride)
    const delta = { promptTokens: prompt.tokenCount, trackPrefillTokens, cachedTokens }
    return listPotentialLoads(core.ranks, loads, delta)
  }

  /** What every rank holds of a prompt, tier by tier, and what that is worth; changes nothing. */
  async getOverlapScores(
    question: PromptQuestion & {
      readonly routerConfigOverride?: RouterConfigOverrideInput | undefined
      /** False: the shared cache is not asked. */
      readonly includeShared?: boolean | undefined
      readonly signal?: AbortSignal | undefined
    },
  ): Promise<OverlapScores> {
    const { core, lookups, stop } = this.#live
    const input = this.#complete({ ...question, updateStates: false })
    const prompt = this.#hash(input, new PromptScratch())
    const isEnabled = (question.includeShared ?? true) && this.#options.sharedCache !== undefined
    const asked = isEnabled ? input : { ...input, tokens: undefined }
    const found = lookups.mustAwait(asked) ? await lookups.ask(asked, prompt, stop) : undefined
    const ending = this.#live.expireDue()
    if (ending) await ending
    const match = found?.matches?.() ?? this.#live.find(prompt)
    const settings = costSettingsOf(this.#config, input.routerConfigOverride)
    const workers = listOverlapScores(core.workers, match, settings, found?.sharedHits)
    const sharedCache = sharedOverlap(isEnabled, found?.sharedHits, found?.sharedError)
    return { blockSize: this.blockSize, numBlocks: prompt.blockCount, workers, sharedCache }
  }

  async dumpEvents(): Promise<readonly RouterEvent[]> {
    const { core, stop, lookups } = this.#live
    if (core.index) return [...core.index.dump()]
    const none = Promise.resolve<readonly RouterEvent[]>([])
    return (await lookups.askRemote(stop, (remote, signal) => remote.dumpEvents?.(signal) ?? none)) ?? []
  }

  /** Load of every tracked rank. */
  activeLoads(): RankLoad[] {
    return this.#live.loads.all()
  }

  onLoads(listener: (changed: readonly RankLoad[]) => void): () => void {
    return this.#live.loads.subscribe(listener)
  }

  // ---- what it is told

  /** Lets bookings be placed on these workers before they are known; adds to what is there. */
  registerWorkers(workerIds: Iterable<bigint>): void {
    this.#live.tell((inputs, moment) => inputs.registerWorkers(workerIds, moment))
  }

  /** Who can be reached, and who is over its limits. */
  setWorkerFlags(flags: WorkerFlags): void {
    this.#live.tell((inputs, moment) => inputs.setFlags(flags, moment))
  }

  applyEvents(events: readonly RouterEvent[]): void {
    this.#live.tell((inputs) => inputs.applyEvents(events))
  }

  /** What peers booked, marked and freed. */
  applyReplicaEvents(events: readonly SequenceEvent[]): ReplicaOutcome {
    return this.#live.tell((inputs, moment) => inputs.applyReplica(events, moment))
  }

  /** The worker is taken to hold this prompt from now on, where decisions are remembered. */
  async recordRoutingDecision(prompt: TokensWithHashes, worker: WorkerRank): Promise<void> {
    const hashes = prompt.hashes()
    if (this.indexer) return this.recordHashes(hashes.localColumn(), hashes.sequenceColumn(), worker)
    const [local, sequence] = [hashes.localColumn().slice(), hashes.sequenceColumn().slice()]
    const { lookups, stop } = this.#live
    await lookups.askRemote(stop, (remote) => remote.recordDecision?.(local, sequence, worker) ?? Promise.resolve())
  }

  /**
   * As `recordRoutingDecision`, for hashes that are known. Of a very long prompt the beginning is remembered now and the rest in later turns
   * of the loop: each time a longer beginning, of which only what is new has to be stored.
   */
  recordHashes(local: HashColumn, sequence: HashColumn, worker: WorkerRank): void {
    if (local.length <= 2 * rememberedBlocksMax) return this.#record(local, sequence, worker)
    const [ownLocal, ownSequence] = [local.slice(), sequence.slice()] // lent columns are gone as soon as the index changes
    this.#recordUpTo(rememberedBlocksMax, ownLocal, ownSequence, worker)
  }

  #recordUpTo(blockCount: number, local: HashColumn, sequence: HashColumn, worker: WorkerRank): void {
    this.#record(local.subarray(0, 2 * blockCount), sequence.subarray(0, 2 * blockCount), worker)
    if (2 * blockCount >= local.length) return
    this.#live.clock.soon(() => {
      if (this.#live.stop.aborted) return
      try {
        this.#recordUpTo(blockCount + rememberedBlocksMax, local, sequence, worker)
      } catch (error) {
        this.#live.log.warn({ error }, 'failed to record the rest of a routing decision') // its worker may be gone
      }
    })
  }

  #record(local: HashColumn, sequence: HashColumn, worker: WorkerRank): void {
    this.#live.tell((inputs, moment) => inputs.recordDecision(worker, local, sequence, local.length >>> 1, moment))
  }

  /** Refuses everybody who waits; settles when nothing of it runs any more. Safe to repeat. */
  close(): Promise<void> {
    return this.#live.close()
  }

  /** Not awaited where nothing has ended: an answer that is there need not wait for a turn. */
  async #waitFor(ending: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
    await ending
    this.#live.refuseIfOver(signal)
  }

  /** The deprecated name of an override is mapped, its ranges are judged, and an adapter's requests go to who has it. */
  #complete(input: FindBestMatch): FindBestMatch {
    const { routerConfigOverride: override, loraName } = input
    const loraWorkerIds = loraName === undefined ? undefined : this.#options.loraWorkers?.(loraName)
    if (!override && !loraWorkerIds) return input
    const { workers } = this.#live.core
    const known = loraWorkerIds && new Set([...loraWorkerIds].filter((id) => workers.configOf(id) !== undefined))
    return {
      ...input,
      routerConfigOverride: override && completeOverride(override, this.#config.compat),
      allowedWorkerIds: narrowToLora({
        allowedWorkerIds: input.allowedWorkerIds,
        loraWorkerIds: known,
        isPinned: input.pinnedWorker !== undefined,
      }),
    }
  }

  #hash(input: FindBestMatch, scratch: PromptScratch): Prompt {
    return hashPrompt(this.#hashing, input, this.blockSize, scratch.hashes)
  }

  #remember(input: FindBestMatch, prompt: Prompt, picked: Picked, parked: ParkedRequest | undefined): void {
    const { recordsDecision } = input
    if (!recordsDecision || !input.updateStates || !this.indexer) return
    if (recordsDecision !== true && !recordsDecision(picked.worker)) return
    try {
      const own = encodingFor(input.encodings, picked.worker.workerId)
      if (own) {
        if (own.hashes) this.recordHashes(own.hashes.local, own.hashes.sequence, picked.worker)
        return
      }
      // Whoever waited has copies of its own; the lent columns are somebody else's by now.
      const local =
        parked && !input.encodings ? parked.request.localHashes : prompt.local?.subarray(0, 2 * prompt.blockCount)
      if (!local) return
      const sequence =
        parked && !input.encodings ? this.#hashing.chain(local, input) : prompt.sequence!.subarray(0, local.length)
      this.recordHashes(local, sequence, picked.worker)
    } catch (error) {
      this.#live.log.warn({ requestId: input.contextId, error }, 'failed to record a routing decision')
    }
  }

  #observeShared(hits: SharedCacheHits, prompt: Prompt, picked: Picked): void {
    const blocks = Math.floor(prompt.tokenCount / this.blockSize)
    const hitRate = blocks > 0 ? hits.totalHits / blocks : undefined
    this.#live.observer.sharedCacheHit?.(hitRate, hits.hitsBeyond(roundedOverlapBlocks(picked)))
  }

  #logInput(contextId: string | undefined, { local, blockCount, tokenCount }: Prompt): void {
    const { log } = this.#live
    if (!log.isDebug) return
    const localHashes = local ? Array.from({ length: blockCount }, (_, at) => hashAt(local, at)) : []
    const sizes = { isl_tokens: tokenCount, block_size: this.blockSize, num_blocks: blockCount }
    log.debug(
      { request_id: contextId ?? '', ...sizes, local_hashes: localHashes },
      '[ROUTING_INPUT] request local hashes',
    )
  }
}

/** Blocks of a decision that are remembered in one turn of the loop: about a millisecond. */
const rememberedBlocksMax = 2048

function invalidConfig(reason: string): WarmrouteError {
  return new WarmrouteError('WR_INVALID_CONFIG', { reason })
}

function invalidArgument(reason: string): WarmrouteError {
  return new WarmrouteError('WR_INVALID_ARGUMENT', { reason })
}
