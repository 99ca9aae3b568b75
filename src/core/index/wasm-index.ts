/**
 * The exact index by the WebAssembly core. This side packs and unpacks: events are copied into the core's memory, depths
 * out of it; prompts too, unless they were written there in the first place (`promptColumn`). The core's memory may grow
 * in any call that stores, and old views are empty then.
 */
import type { HashColumn, Rank } from '../protocol/index.js'
import { newHashColumn, WarmrouteError } from '../protocol/index.js'
import type { ApplyReport } from './apply-report.js'
import { statusCodes } from './apply-report.js'
import { CoreBuffer } from './core-buffer.js'
import { type EventBatch, eventHeaderWords, eventKinds, ranksMax } from './event-batch.js'
import { runsOfCore, sampleCore } from './core-runs.js'
import { hotPathsOf, hottestOf } from './hot-prefixes.js'
import { address, type IndexCore, newIndexCore } from './index-core.js'
import type { BlockFact, HotPrefix, IndexStats, Sharing } from './prefix-index.js'
import { factKinds, factWords } from './prefix-index.js'
import {
  checkCaps,
  type HotPath,
  type KnownRun,
  type Random,
  type Shard,
  type ShardOptions,
  type ShardSampler,
} from './shard.js'
import { openSnapshot } from './snapshot-format.js'
import { restoreCore, snapshotCore } from './wasm-snapshot.js'
import { trimToCaps } from './trim.js'

/** Of a prompt from elsewhere, so many hashes are set before the rest: most that nobody holds miss among them (decision 0122). */
const headHashes = 64
/** Room is lent for prompts of so many blocks; longer ones have a column of their own. */
const lentHashesMax = 65_536
const lentHashesMin = 4096
/**
 * Room for a prompt from elsewhere. It grows with what is held and never while somebody reads, which would take lent columns back;
 * longer prompts go through in parts.
 */
const promptHashesMax = 65_536
const promptHashesMin = 4096
const scratchBytes = 32_768
const factsPerCall = scratchBytes / 32
/** Names to describe lie behind their facts. */
const describedPerCall = scratchBytes / 64
const namesPerCall = scratchBytes / 8
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
  #input!: CoreBuffer
  #results!: CoreBuffer
  /** Prompts that are copied in; the one that is written in place; answers that are read at once. */
  #prompt!: CoreBuffer
  #lent!: CoreBuffer
  #scratch!: CoreBuffer
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
    if (bytes > this.#input.bytes && !this.#widenInput(bytes)) this.#purge(batch, report)
    else if (eventCount > 0) {
      this.#words.set(batch.words.subarray(0, wordCount), this.#input.at >>> 2)
      const statuses = this.#input.at + 4 * wordCount
      this.#core.apply(this.#input.at, eventCount, statuses)
      this.#view()
      for (let event = 0; event < eventCount; event++) report.statuses[event] = this.#bytes[statuses + event]!
    }
    report.count()
    this.#widenResults()
    this.#widenPrompt()
  }

  promptColumn(blockCount: number): HashColumn {
    if (8 * blockCount > this.#lent.bytes) {
      // The old place is not given back: somebody may still write to it. Together they take less than twice the last.
      const wider = new CoreBuffer(this.#core, Math.max(8 * lentHashesMin, 2 * this.#lent.bytes))
      if (blockCount > lentHashesMax || !wider.reserve(8 * blockCount)) return newHashColumn(blockCount)
      this.#lent = wider
    }
    this.#view()
    return new Uint32Array(this.#words.buffer, this.#lent.at, this.#lent.bytes >>> 2)
  }

  find(local: HashColumn, blockCount: number, depths: Uint32Array, lastExternal?: HashColumn): number {
    const core = this.#core
    core.findBegin(this.#results.at)
    if (local.buffer === this.#words.buffer) core.findWalk(local.byteOffset, blockCount)
    else this.#copyAndWalk(local, blockCount)
    const found = core.findFinish()
    const words = this.#words
    let at = this.#results.at >>> 2
    let greatest = 0
    for (let result = 0; result < found; result++, at += 3) {
      const depth = words[at + 1]!
      depths[words[at]!] = depth
      if (depth > greatest) greatest = depth
    }
    if (lastExternal) this.#nameResults(found, lastExternal)
    return greatest
  }

  chain(rank: Rank, local: HashColumn, blockCount: number, names: HashColumn): number {
    const room = this.#prompt.bytes >>> 3
    for (let from = 0; from < blockCount; from += room) {
      const count = Math.min(room, blockCount - from)
      this.#copyPrompt(local, from, count)
      const named = this.#core.nameChain(rank, from === 0 ? 1 : 0, this.#prompt.at, count)
      const at = this.#prompt.at >>> 2
      names.set(this.#words.subarray(at, at + 2 * named), 2 * from)
      if (named < count) return from + named
    }
    return blockCount
  }

  holds(rank: Rank, external: HashColumn): boolean {
    if (rank >= ranksMax) return false
    const { at } = this.#scratch
    this.#words[at >>> 2] = external[0]!
    this.#words[(at >>> 2) + 1] = external[1]!
    return this.#core.holds(rank, at) !== 0
  }

  clearRank(rank: Rank): number {
    const cleared = this.#core.clearRank(rank) >>> 0
    this.#view()
    return cleared
  }

  drain(blocksMax: number): number {
    const left = this.#core.drain(Math.min(unlimited, blocksMax)) >>> 0
    this.#view()
    return left
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
        core.describe(rank, from, part, this.#scratch.at)
        for (let at = this.#scratch.at >>> 2, end = at + 8 * part; at < end; at += 8) {
          readFact(fact, this.#words, at)
          yield fact
        }
      }
    } finally {
      core.discard()
    }
  }

  describe(rank: Rank, names: HashColumn, count: number, facts: Uint32Array): void {
    if (rank >= this.rankCount) return void facts.fill(factKinds.absent, 0, factWords * count)
    const at = this.#scratch.at >>> 2
    for (let from = 0; from < count; from += describedPerCall) {
      const part = Math.min(describedPerCall, count - from)
      const namesAt = at + factWords * describedPerCall
      this.#words.set(names.subarray(2 * from, 2 * (from + part)), namesAt)
      this.#core.describeNames(rank, 4 * namesAt, part, 4 * at)
      facts.set(this.#words.subarray(at, at + factWords * part), factWords * from)
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

  sharing(): Sharing {
    const sharedBlocks = this.#core.sharedBlocks()
    return { sharedBlocks, ranksPerSharedBlock: sharedBlocks && this.#core.holdsOfShared() / sharedBlocks }
  }

  hottest(): readonly HotPrefix[] {
    return hottestOf(this.#core)
  }

  snapshot(): Uint8Array {
    this.drain(unlimited)
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

  allRuns(hashesMax: number): readonly KnownRun[] | undefined {
    return runsOfCore(this.#core, hashesMax)
  }

  sampler(random: Random): ShardSampler {
    return sampleCore(this.#core, random)
  }

  holdersAlong(path: HashColumn, from: number, holders: Uint32Array): number {
    const blockCount = path.length >>> 1
    const room = this.#prompt.bytes >>> 3
    for (let start = 0; start < blockCount; start += room) {
      const count = Math.min(room, blockCount - start)
      this.#copyPrompt(path, start, count)
      const known = this.#core.holdersAlong(start === 0 ? 1 : 0, this.#prompt.at, count)
      const at = this.#prompt.at >>> 2
      for (let block = Math.max(0, from - start); block < known; block++)
        holders[start + block - from] = this.#words[at + 2 * block]!
      if (known < count) return start + known
    }
    return blockCount
  }

  hotPaths(): readonly HotPath[] {
    return hotPathsOf(this.#core)
  }

  #adopt(core: IndexCore): void {
    this.#input = new CoreBuffer(core, 65_536)
    this.#results = new CoreBuffer(core, 0)
    this.#prompt = new CoreBuffer(core, 8 * promptHashesMin)
    this.#lent = new CoreBuffer(core, 0)
    this.#scratch = new CoreBuffer(core, scratchBytes)
    // Taken while there is memory: what is asked later must not fail for want of them.
    if (!this.#prompt.reserve(8 * promptHashesMin) || !this.#scratch.reserve(scratchBytes)) {
      throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'too little memory for an index', ...this.#options })
    }
    this.#widenResults()
    this.#widenPrompt()
    this.#view()
  }

  #view(): void {
    const { buffer } = this.#core.memory
    if (this.#words !== undefined && this.#words.buffer === buffer) return
    this.#words = new Uint32Array(buffer)
    this.#bytes = new Uint8Array(buffer)
  }

  #widenInput(bytes: number): boolean {
    const isWide = this.#input.reserve(bytes)
    if (isWide) this.#view()
    return isWide
  }

  #copyAndWalk(local: HashColumn, blockCount: number): void {
    const head = Math.min(blockCount, headHashes)
    this.#copyPrompt(local, 0, head)
    if (this.#core.findWalk(this.#prompt.at, head) === 0) return
    const room = this.#prompt.bytes >>> 3
    for (let from = head; from < blockCount; from += room) {
      const count = Math.min(room, blockCount - from)
      this.#copyPrompt(local, from, count)
      if (this.#core.findWalk(this.#prompt.at, count) === 0) return
    }
  }

  #copyPrompt(local: HashColumn, from: number, count: number): void {
    this.#words.set(local.subarray(2 * from, 2 * (from + count)), this.#prompt.at >>> 2)
  }

  /** One result per rank that was ever used; `find` must never be short of room. */
  #widenResults(): void {
    const bytes = Math.max(64, this.#core.seats()) * resultBytes
    if (bytes <= this.#results.bytes) return
    if (!this.#results.reserve(bytes)) {
      throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'no memory for that many ranks' })
    }
    this.#view()
  }

  /** No prompt matches further than there are blocks. Without memory the room stays as it is. */
  #widenPrompt(): void {
    const wanted = Math.min(promptHashesMax, address(this.#core.heldBlocks()))
    if (8 * wanted > this.#prompt.bytes && this.#prompt.reserve(8 * wanted)) this.#view()
  }

  #nameResults(found: number, lastExternal: HashColumn): void {
    const words = this.#words
    const names = this.#scratch.at
    for (let from = 0; from < found; from += namesPerCall) {
      const count = Math.min(namesPerCall, found - from)
      const results = this.#results.at + resultBytes * from
      this.#core.nameResults(results, names, count)
      for (let result = 0; result < count; result++) {
        const rank = words[(results >>> 2) + 3 * result]!
        lastExternal[2 * rank] = words[(names >>> 2) + 2 * result]!
        lastExternal[2 * rank + 1] = words[(names >>> 2) + 2 * result + 1]!
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

function limit(core: IndexCore, options: WasmIndexOptions): void {
  const { maxBlocks, maxBlocksPerRank, clearBlocksMax, isShard } = options
  core.limitBlocks(isShard ? unlimited : (maxBlocks ?? unlimited), maxBlocksPerRank ?? unlimited, isShard ? 1 : 0)
  core.clearInSteps(Math.min(unlimited, clearBlocksMax ?? unlimited))
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
