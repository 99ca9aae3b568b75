/**
 * The exact index by the WebAssembly core. This side packs and unpacks: events and prompts are copied into the core's
 * memory, depths out of it. The core's memory may grow in any call that stores, and old views are empty then.
 */
import type { HashColumn, Rank } from '../protocol/index.js'
import { WarmrouteError } from '../protocol/index.js'
import type { ApplyReport } from './apply-report.js'
import { statusCodes } from './apply-report.js'
import { type EventBatch, eventHeaderWords, eventKinds, ranksMax } from './event-batch.js'
import { hottestOf } from './hot-prefixes.js'
import { address, type IndexCore, newIndexCore } from './index-core.js'
import type { BlockFact, HotPrefix, IndexStats } from './prefix-index.js'
import { checkCaps, type Shard, type ShardOptions } from './shard.js'
import { openSnapshot } from './snapshot-format.js'
import { restoreCore, snapshotCore } from './wasm-snapshot.js'
import { trimToCaps } from './trim.js'

/** A prompt crosses in pieces: one that misses early is not copied in whole. */
const firstPiece = 64
const queryHashes = 4096
const factsPerCall = 512
const resultBytes = 12
const unlimited = 0xffff_ffff

export interface WasmIndexOptions extends ShardOptions {
  /** Bytes that the core may use, up to 4 GiB. A store that finds no memory ends with `capacity_exhausted`. */
  readonly maxBytes?: number
}

export class WasmIndex implements Shard {
  readonly #options: WasmIndexOptions
  #core: IndexCore
  #bytes!: Uint8Array
  #words!: Uint32Array
  #input = 0
  #inputBytes = 0
  #query = 0
  #results = 0
  #resultRanks = 0
  #epoch = 0

  private constructor(core: IndexCore, options: WasmIndexOptions) {
    this.#core = core
    this.#options = options
    this.#adopt(core)
  }

  /** Undefined where WebAssembly cannot run; callers then take the TypeScript twin. */
  static create(options: WasmIndexOptions): WasmIndex | undefined {
    checkCaps(options)
    const core = newCore(options)
    if (!core) return undefined
    const index = new WasmIndex(core, options)
    limit(core, options)
    return index
  }

  get rankCount(): number {
    return this.#core.ranks()
  }

  apply(batch: EventBatch, report: ApplyReport): void {
    const { wordCount, eventCount } = batch
    report.begin(eventCount)
    const bytes = 4 * wordCount + eventCount
    if (bytes > this.#inputBytes && !this.#widenInput(bytes)) this.#purge(batch, report)
    else if (eventCount > 0) {
      const core = this.#core
      this.#words.set(batch.words.subarray(0, wordCount), this.#input >>> 2)
      const statuses = this.#input + 4 * wordCount
      core.apply(this.#input, eventCount, statuses)
      this.#view()
      for (let event = 0; event < eventCount; event++) report.statuses[event] = this.#bytes[statuses + event]!
    }
    report.count()
    if (this.#core.ranks() > this.#resultRanks) this.#widenResults()
  }

  find(local: HashColumn, blockCount: number, depths: Uint32Array, lastExternal?: HashColumn): number {
    const core = this.#core
    core.findBegin(this.#results)
    for (let from = 0, piece = firstPiece; from < blockCount; piece = queryHashes) {
      const to = Math.min(blockCount, from + piece)
      this.#words.set(local.subarray(2 * from, 2 * to), this.#query >>> 2)
      if (core.findWalk(this.#query, to - from) === 0) break
      from = to
    }
    const found = core.findFinish()
    const words = this.#words
    let at = this.#results >>> 2
    let greatest = 0
    for (let result = 0; result < found; result++, at += 3) {
      const depth = words[at + 1]!
      depths[words[at]!] = depth
      if (depth > greatest) greatest = depth
    }
    if (lastExternal) this.#nameResults(found, lastExternal)
    return greatest
  }

  holds(rank: Rank, external: HashColumn): boolean {
    if (rank >= ranksMax) return false
    this.#words[this.#query >>> 2] = external[0]!
    this.#words[(this.#query >>> 2) + 1] = external[1]!
    return this.#core.holds(rank, this.#query) !== 0
  }

  clearRank(rank: Rank): number {
    const cleared = this.#core.clearRank(rank) >>> 0
    this.#view()
    return cleared
  }

  *facts(rank: Rank): Iterable<Readonly<BlockFact>> {
    const core = this.#core
    const count = core.collect(rank) >>> 0
    this.#view()
    if (count === 0xffff_ffff) {
      throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'no memory is left to list this rank', rank })
    }
    const fact: BlockFact = emptyFact()
    try {
      for (let from = 0; from < count; from += factsPerCall) {
        const part = Math.min(factsPerCall, count - from)
        core.describe(rank, from, part, this.#query)
        for (let at = this.#query >>> 2, end = at + 8 * part; at < end; at += 8) {
          readFact(fact, this.#words, at)
          yield fact
        }
      }
    } finally {
      core.discard()
    }
  }

  blocksOf(rank: Rank): number {
    return this.#core.blocksOf(rank) >>> 0
  }

  stats(): IndexStats {
    const core = this.#core
    return {
      heldBlocks: core.heldBlocks() >>> 0,
      distinctBlocks: core.distinctBlocks() >>> 0,
      holderSets: core.holderSets() >>> 0,
      aliases: core.aliases() >>> 0,
      evictedBlocks: core.evictedBlocks(),
      bytesUsed: core.bytesUsed() >>> 0,
    }
  }

  hottest(): readonly HotPrefix[] {
    return hottestOf(this.#core)
  }

  snapshot(): Uint8Array {
    return snapshotCore(this.#core)
  }

  restore(snapshot: Uint8Array): void {
    const words = openSnapshot(snapshot)
    // Into a core of its own: a snapshot that turns out bad half way leaves this one as it is.
    const fresh = newCore(this.#options)
    if (!fresh) throw new WarmrouteError('WR_SNAPSHOT_INVALID', { reason: 'no memory for a second core' })
    restoreCore(fresh, words)
    this.#core = fresh
    this.#adopt(fresh)
    trimToCaps(this, this.rankCount, this.#options)
    limit(fresh, this.#options)
    this.#epoch = 0
  }

  openEpoch(epoch: number): void {
    this.#core.passEpochs(Math.min(255, epoch - this.#epoch))
    this.#epoch = epoch
  }

  oldestEpoch(): number {
    const age = this.#core.ageOfOldest() >>> 0
    return age === unlimited ? Number.POSITIVE_INFINITY : this.#epoch - age
  }

  evictOldest(): void {
    this.#core.evictOldest()
    this.#view()
  }

  #adopt(core: IndexCore): void {
    this.#input = 0
    this.#inputBytes = 0
    this.#resultRanks = 0
    this.#results = 0
    this.#query = address(core.take(8 * queryHashes))
    this.#view()
    this.#widenResults()
  }

  #view(): void {
    const { buffer } = this.#core.memory
    if (this.#words !== undefined && this.#words.buffer === buffer) return
    this.#words = new Uint32Array(buffer)
    this.#bytes = new Uint8Array(buffer)
  }

  #widenInput(bytes: number): boolean {
    const wanted = Math.max(bytes, 2 * this.#inputBytes, 65_536)
    const input = address(this.#core.take(wanted))
    if (input === 0) return false
    if (this.#inputBytes > 0) this.#core.give(this.#input, this.#inputBytes)
    this.#input = input
    this.#inputBytes = wanted
    this.#view()
    return true
  }

  /** One result per rank that was ever used; `find` must never be short of room. */
  #widenResults(): void {
    const wanted = Math.max(64, 2 * this.#core.ranks())
    const results = address(this.#core.take(wanted * resultBytes))
    if (results === 0) throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'no memory for that many ranks' })
    if (this.#results > 0) this.#core.give(this.#results, this.#resultRanks * resultBytes)
    this.#results = results
    this.#resultRanks = wanted
    this.#view()
  }

  #nameResults(found: number, lastExternal: HashColumn): void {
    const words = this.#words
    for (let from = 0; from < found; from += queryHashes) {
      const count = Math.min(queryHashes, found - from)
      const results = this.#results + resultBytes * from
      this.#core.nameResults(results, this.#query, count)
      for (let result = 0; result < count; result++) {
        const rank = words[(results >>> 2) + 3 * result]!
        lastExternal[2 * rank] = words[(this.#query >>> 2) + 2 * result]!
        lastExternal[2 * rank + 1] = words[(this.#query >>> 2) + 2 * result + 1]!
      }
    }
  }

  /** The batch does not even fit into memory: doubt means purge. A lost remove would be credit for what is gone. */
  #purge(batch: EventBatch, report: ApplyReport): void {
    for (let event = 0, at = 0; event < batch.eventCount; event++) {
      const kind = batch.words[at]! & 0xff
      const count = batch.words[at + 2]!
      this.clearRank(batch.words[at + 1]!)
      report.statuses[event] = statusCodes.capacityExhausted
      at += eventHeaderWords + (kind === eventKinds.stored ? 4 : kind === eventKinds.removed ? 2 : 0) * count
    }
  }
}

function newCore(options: WasmIndexOptions): IndexCore | undefined {
  const core = newIndexCore()
  core?.init(options.seedLo, options.seedHi, options.maxBytes ?? unlimited)
  return core
}

function limit(core: IndexCore, { maxBlocks, maxBlocksPerRank, isShard }: WasmIndexOptions): void {
  core.limitBlocks(isShard ? unlimited : (maxBlocks ?? unlimited), maxBlocksPerRank ?? unlimited, isShard ? 1 : 0)
}

function emptyFact(): BlockFact {
  return { hasParent: false, parentLo: 0, parentHi: 0, localLo: 0, localHi: 0, externalLo: 0, externalHi: 0 }
}

function readFact(fact: BlockFact, words: Uint32Array, at: number): void {
  fact.hasParent = words[at] !== 0
  fact.parentLo = words[at + 2]!
  fact.parentHi = words[at + 3]!
  fact.localLo = words[at + 4]!
  fact.localHi = words[at + 5]!
  fact.externalLo = words[at + 6]!
  fact.externalHi = words[at + 7]!
}
