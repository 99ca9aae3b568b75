/**
 * One data-parallel rank as vLLM or SGLang has it: an engine, and what it says of its cache, when it says it.
 * Knows tokens and digests; knows no socket. Runs on either clock.
 */
import type { Clock } from '../clock.js'
import { Engine } from '../engine/engine.js'
import type { EngineListener, EngineOptions } from '../engine/engine.js'
import { EngineRequest } from '../engine/request.js'
import type { FinishReason } from '../engine/request.js'
import { createBlockChain } from './block-chain.js'
import type { CacheScope } from './block-chain.js'
import type { EngineName } from './engine-name.js'
import type { SamplingOptions } from './sampler.js'
import type { BlocksStored, KvEvent, Medium } from './kv-event.js'
import { TokenContent } from './token-content.js'

export interface RankOptions {
  readonly engine: EngineName
  readonly model: EngineOptions
  readonly hashSeed: string
  /** SGLang publishes while decoding only every so many passes. */
  readonly decodeLogInterval: number
  readonly loraIds: ReadonlyMap<string, number>
  /** The next token of an answer. */
  readonly sample: (content: TokenContent, sampling: SamplingOptions) => number
}

export interface RankJob extends CacheScope {
  readonly prompt: readonly number[]
  readonly outputTokensMax: number
  readonly sessionId?: string | undefined
  readonly skipsCacheRead?: boolean
  readonly keepsBlocks?: boolean
  /** Leading tokens whose KV was read from another engine, and whether that was really theirs. */
  readonly externalTokens?: number
  readonly isExternalWrong?: boolean
  /** Announces the blocks it hit as well (vLLM's `kv_cache_report_mode: full`). */
  readonly isFullReport?: boolean
  readonly sampling?: SamplingOptions | undefined
  /** One more token of the answer; true ends it. */
  onToken(token: number, request: RankRequest): boolean
  onEnd(reason: FinishReason, request: RankRequest): void
}

const plainSampling: SamplingOptions = { draw: 0 }

interface RankTag {
  readonly job: RankJob
  readonly content: TokenContent
  /** It attends to KV that is not its own: it answers, in other words. */
  isWrong: boolean
}

export type RankRequest = EngineRequest<RankTag>

/** Totals since the rank started; what `/metrics` shows. */
export interface RankTotals {
  promptTokens: number
  cachedTokens: number
  hostTokens: number
  generatedTokens: number
  stored: number
  removed: number
  readonly ended: Record<FinishReason, number>
}

export class KvRank {
  readonly options: RankOptions
  readonly engine: Engine<RankTag>
  readonly totals: RankTotals = {
    promptTokens: 0,
    cachedTokens: 0,
    hostTokens: 0,
    generatedTokens: 0,
    stored: 0,
    removed: 0,
    ended: { length: 0, stop: 0, abort: 0, rejected: 0 },
  }
  readonly #publish: (events: readonly KvEvent[]) => void
  readonly #digestOfSlot: Uint8Array[] = []
  readonly #namespaceOfSlot: (string | undefined)[] = []
  /** Blocks of the host tier, by key: what is needed to announce them. */
  readonly #host = new Map<number, Uint8Array>()
  readonly #stories = new Map<number, Pick<BlocksStored, 'parent' | 'tokens' | 'loraName' | 'salt' | 'firstBlock'>>()
  /** Blocks whose KV is not what their hash says: read from another engine too late. Who hits them answers wrongly. */
  readonly #wrongKeys = new Set<number>()
  #events: KvEvent[] = []
  #passesUnpublished = 0
  #lastRemoved: string | undefined

  constructor(options: RankOptions, clock: Clock, publish: (events: readonly KvEvent[]) => void) {
    this.options = options
    this.#publish = publish
    this.engine = new Engine(options.model, clock, this.#listener())
    if (options.engine === 'sglang') {
      this.#events.push({ kind: 'cleared' }) // building its tree counts as a reset
      this.#flush()
    }
  }

  /** True while any request runs or waits. */
  get isBusy(): boolean {
    const { runningCount, waitingCount } = this.engine.scheduler
    return runningCount + waitingCount > 0
  }

  submit(job: RankJob): RankRequest {
    const { engine, model, hashSeed } = this.options
    const content = new TokenContent(job.prompt, model.blockTokens, createBlockChain(engine, job, hashSeed))
    const request: RankRequest = new EngineRequest(
      { job, content, isWrong: job.isExternalWrong ?? false },
      {
        promptTokens: job.prompt.length,
        outputTokensMax: job.outputTokensMax,
        content,
        skipsCacheRead: job.skipsCacheRead ?? false,
        keepsBlocks: job.keepsBlocks ?? false,
        externalTokens: job.externalTokens ?? 0,
      },
      model.blockTokens,
    )
    this.engine.submit(request)
    return request
  }

  /** Whether a plain request with this prompt would compute its last block only. */
  hasPrefix(prompt: readonly number[]): boolean {
    const { engine, model, hashSeed } = this.options
    const content = new TokenContent(prompt, model.blockTokens, createBlockChain(engine, {}, hashSeed))
    const blocks = Math.floor((prompt.length - 1) / model.blockTokens)
    for (let index = 0; index < blocks; index++)
      if (this.engine.scheduler.pool.find(content.keyAt(index)) < 0) return false
    return blocks > 0
  }

  /** Empties the cache; false while blocks are held. vLLM tells with its next pass, SGLang at once. */
  reset(): boolean {
    if (!this.engine.scheduler.pool.clear()) return false
    this.engine.scheduler.host.clear()
    this.#host.clear()
    this.#stories.clear()
    this.#events.push({ kind: 'cleared' })
    if (this.options.engine === 'sglang') this.#flush()
    return true
  }

  /** Digests of the cached blocks as hex, with the number of their copies. */
  cachedDigests(): Map<string, number> {
    const counts = new Map<string, number>()
    this.engine.scheduler.pool.eachCached((slot) => {
      const digest = Buffer.from(this.#digestOfSlot[slot]!).toString('hex')
      counts.set(digest, (counts.get(digest) ?? 0) + 1)
    })
    return counts
  }

  #listener(): EngineListener<RankTag> {
    const isVllm = this.options.engine === 'vllm'
    return {
      stored: (request, from, to) => this.#stored(request, from, to),
      removed: (key, slot) => {
        this.#wrongKeys.delete(key)
        this.#removed(this.#digestOfSlot[slot]!, 'GPU', this.#namespaceOfSlot[slot])
      },
      hostStored: (key, slot) => this.#hostStored(key, slot),
      hostRemoved: (key) => {
        this.#removed(this.#host.get(key)!, this.#hostMedium)
        this.#host.delete(key)
        this.#stories.delete(key)
      },
      admitted: (request) => this.#admitted(request),
      computed: () => {
        if (isVllm) this.#flush() // before the pass's tokens leave
      },
      token: (request) => {
        const { job, content } = request.tag
        const sampling = job.sampling ?? plainSampling
        const token = this.options.sample(
          content,
          request.tag.isWrong ? { ...sampling, draw: sampling.draw + 1000 } : sampling,
        )
        content.push(token)
        this.totals.generatedTokens++
        return job.onToken(token, request)
      },
      finished: (request, reason) => {
        this.totals.ended[reason]++
        request.tag.job.onEnd(reason, request)
      },
      delivered: () => {
        if (isVllm) return
        this.#passesUnpublished++
        if (this.engine.scheduler.isPassPrefill || this.#passesUnpublished >= this.options.decodeLogInterval)
          this.#flush()
      },
      idle: () => {
        if (!isVllm) this.#flush()
      },
    }
  }

  get #hostMedium(): Medium {
    return this.options.engine === 'vllm' ? 'CPU' : 'CPU_PINNED'
  }

  #admitted(request: RankRequest): void {
    this.totals.promptTokens += request.promptTokens
    this.totals.cachedTokens += request.cachedTokens
    this.totals.hostTokens += request.hostTokens
    const hits = Math.floor(request.cachedTokens / this.options.model.blockTokens)
    for (let index = 0; index < hits && this.#wrongKeys.size > 0; index++)
      if (this.#wrongKeys.has(request.content.keyAt(index))) request.tag.isWrong = true
    if (request.tag.job.isFullReport && hits > 0) this.#events.push(this.#storedEvent(request, 0, hits))
  }

  #stored(request: RankRequest, from: number, to: number): void {
    const { content, job } = request.tag
    this.totals.stored += to - from
    const hasHost = this.options.model.hostBlocks > 0
    for (let index = from; index < to; index++) {
      this.#digestOfSlot[request.slots[index]!] = content.digestAt(index)
      this.#namespaceOfSlot[request.slots[index]!] = job.extraKey
      if (job.isExternalWrong) this.#wrongKeys.add(content.keyAt(index))
      if (hasHost)
        this.#stories.set(content.keyAt(index), {
          parent: index === 0 ? undefined : content.digestAt(index - 1),
          tokens: content.tokensOf(index, index + 1),
          loraName: job.loraName,
          salt: job.salt,
          firstBlock: index,
        })
    }
    this.#events.push(this.#storedEvent(request, from, to))
  }

  #storedEvent(request: RankRequest, from: number, to: number): BlocksStored {
    const { content, job } = request.tag
    const hashes: Uint8Array[] = []
    for (let index = from; index < to; index++) hashes.push(content.digestAt(index))
    return {
      kind: 'stored',
      hashes,
      parent: from === 0 ? undefined : content.digestAt(from - 1),
      tokens: content.tokensOf(from, to),
      blockTokens: this.options.model.blockTokens,
      medium: 'GPU',
      loraName: job.loraName,
      loraId: job.loraName === undefined ? undefined : this.options.loraIds.get(job.loraName),
      salt: job.salt,
      firstBlock: from,
      sessionId: job.sessionId,
    }
  }

  #hostStored(key: number, slot: number): void {
    const story = this.#stories.get(key)
    const digest = this.#digestOfSlot[slot]!
    this.#host.set(key, digest)
    if (!story) return
    this.#events.push({
      kind: 'stored',
      hashes: [digest],
      blockTokens: this.options.model.blockTokens,
      medium: this.#hostMedium,
      loraId: story.loraName === undefined ? undefined : this.options.loraIds.get(story.loraName),
      ...story,
    })
  }

  /** vLLM sends one event per block; SGLang joins removals that follow each other in one namespace. */
  #removed(digest: Uint8Array, medium: Medium, namespace?: string): void {
    this.totals.removed++
    const last = this.#events.at(-1)
    const isJoined =
      this.options.engine === 'sglang' &&
      last?.kind === 'removed' &&
      last.medium === medium &&
      this.#lastRemoved === namespace
    this.#lastRemoved = namespace
    if (isJoined) (last.hashes as Uint8Array[]).push(digest)
    else this.#events.push({ kind: 'removed', hashes: [digest], medium })
  }

  #flush(): void {
    this.#passesUnpublished = 0
    if (this.#events.length === 0) return
    const events = this.#events
    this.#events = []
    this.#publish(events)
  }
}
