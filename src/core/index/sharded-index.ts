/**
 * Several indexes as one: ranks are spread over them, and lookups merged. One WebAssembly memory ends at 4 GiB, about
 * 100 M blocks; shards go on from there. Every rank lives in one shard, so nothing is ever counted twice.
 */
import type { HashColumn, Rank } from '../protocol/index.js'
import type { ApplyReport } from './apply-report.js'
import { ApplyReport as ShardReport } from './apply-report.js'
import { EventBatch, eventHeaderWords, eventKinds } from './event-batch.js'
import type { BlockFact, HotPrefix, IndexOptions, IndexStats, PrefixIndex, Sharing } from './prefix-index.js'
import { checkCaps, epochSizeOf, type Shard } from './shard.js'
import { hottestOfShards, type Survey, surveyShards } from './shard-survey.js'
import { readManyImages, writeManyImages } from './shard-images.js'
import { openSnapshot } from './snapshot-format.js'
import { trimToCaps } from './trim.js'

interface Lane {
  shard: Shard
  readonly batch: EventBatch
  readonly report: ShardReport
  /** Which event of the whole batch each event here is. */
  readonly events: number[]
}

export class ShardedIndex implements PrefixIndex {
  readonly #lanes: Lane[]
  readonly #maxBlocks: number
  readonly #epochSize: number
  readonly #options: Partial<IndexOptions>
  readonly #make: (shard: number) => Shard
  #epoch = 0
  #epochFill = 0
  #survey: Survey | undefined

  /** `make` builds shard number i; with caps, it passes them on together with `isShard`. */
  constructor(shardCount: number, options: Partial<IndexOptions>, make: (shard: number) => Shard) {
    checkCaps(options)
    this.#options = options
    this.#make = make
    this.#maxBlocks = options.maxBlocks ?? Number.POSITIVE_INFINITY
    this.#epochSize = epochSizeOf(options)
    this.#lanes = Array.from({ length: shardCount }, (_, shard) => ({
      shard: make(shard),
      batch: new EventBatch(),
      report: new ShardReport(),
      events: [],
    }))
  }

  apply(batch: EventBatch, report: ApplyReport): void {
    report.begin(batch.eventCount)
    this.#survey = undefined
    const { words } = batch
    for (let event = 0, at = 0; event < batch.eventCount; event++) {
      const kind = words[at]! & 0xff
      const count = words[at + 2]!
      const hashWords = (kind === eventKinds.stored ? 4 : kind === eventKinds.removed ? 2 : 0) * count
      if (kind === eventKinds.stored) this.#openEpoch(Math.min(count, this.#maxBlocks), report)
      this.#deal(words, at, eventHeaderWords + hashWords, count, event)
      at += eventHeaderWords + hashWords
    }
    this.#flush(report)
    report.count()
  }

  /** In the memory of the first shard; the others are handed a copy, at once. */
  promptColumn(blockCount: number): HashColumn {
    return this.#lanes[0]!.shard.promptColumn(blockCount)
  }

  find(local: HashColumn, blockCount: number, depths: Uint32Array, lastExternal?: HashColumn): number {
    let greatest = 0
    for (const { shard } of this.#lanes)
      greatest = Math.max(greatest, shard.find(local, blockCount, depths, lastExternal))
    return greatest
  }

  chain(rank: Rank, local: HashColumn, blockCount: number, names: HashColumn): number {
    return this.#shardOf(rank).chain(rank, local, blockCount, names)
  }

  holds(rank: Rank, external: HashColumn): boolean {
    return this.#shardOf(rank).holds(rank, external)
  }

  clearRank(rank: Rank): number {
    this.#survey = undefined
    return this.#shardOf(rank).clearRank(rank)
  }

  drain(blocksMax: number): number {
    this.#survey = undefined
    let budget = blocksMax
    let sum = 0
    for (const { shard } of this.#lanes) {
      const before = shard.drain(0)
      const left = before > 0 ? shard.drain(budget) : 0
      budget = Math.max(0, budget - (before - left))
      sum += left
    }
    return sum
  }

  facts(rank: Rank): Iterable<Readonly<BlockFact>> {
    return this.#shardOf(rank).facts(rank)
  }

  describe(rank: Rank, names: HashColumn, count: number, facts: Uint32Array): void {
    this.#shardOf(rank).describe(rank, names, count, facts)
  }

  blocksOf(rank: Rank): number {
    return this.#shardOf(rank).blocksOf(rank)
  }

  /**
   * Blocks are counted once, however many shards know them. Sets of ranks and aliases are what memory is spent on, so each shard
   * counts its own.
   */
  stats(): IndexStats {
    const all = this.#shards().map((shard) => shard.stats())
    const sum = (key: keyof IndexStats) => all.reduce((total, stats) => total + stats[key], 0)
    const surveyed = () => this.#surveyed()
    return {
      heldBlocks: sum('heldBlocks'),
      // Counted when it is read: a survey takes milliseconds, and metrics do without.
      get distinctBlocks() {
        return surveyed().distinctBlocks
      },
      holderSets: sum('holderSets'),
      aliases: sum('aliases'),
      evictedBlocks: sum('evictedBlocks'),
      bytesUsed: sum('bytesUsed'),
    }
  }

  sharing(): Sharing {
    return this.#surveyed().sharing
  }

  hottest(): readonly HotPrefix[] {
    return hottestOfShards(this.#shards())
  }

  snapshot(): Uint8Array {
    return writeManyImages(this.#lanes.map(({ shard }) => shard.snapshot()))
  }

  /** Only a snapshot of as many shards fits: ranks would be in the wrong ones otherwise. */
  restore(snapshot: Uint8Array): void {
    const images = readManyImages(snapshot, this.#lanes.length)
    for (const image of images) openSnapshot(image)
    // Into shards of their own: one that turns out bad leaves all of the old ones as they are.
    const shards = images.map((image, shard) => {
      const fresh = this.#make(shard)
      fresh.restore(image)
      return fresh
    })
    for (const [index, shard] of shards.entries()) this.#lanes[index]!.shard = shard
    this.#survey = undefined
    const rankCount = Math.max(...this.#lanes.map(({ shard }) => shard.rankCount))
    trimToCaps(this, rankCount, this.#options)
  }

  #shards(): Shard[] {
    return this.#lanes.map(({ shard }) => shard)
  }

  /** Once for every change: whoever asks for figures asks for several. */
  #surveyed(): Survey {
    this.#survey ??= surveyShards(this.#shards())
    return this.#survey
  }

  #shardOf(rank: Rank): Shard {
    return this.#lanes[rank % this.#lanes.length]!.shard
  }

  #deal(words: Uint32Array, from: number, length: number, blocks: number, event: number): void {
    const lane = this.#lanes[words[from + 1]! % this.#lanes.length]!
    lane.batch.append(words.subarray(from, from + length), blocks)
    lane.events.push(event)
  }

  /** A store that does not fit into the rest of the epoch opens the next; what was dealt before belongs to the old one. */
  #openEpoch(blocks: number, report: ApplyReport): void {
    if (this.#epochFill > 0 && this.#epochFill + blocks > this.#epochSize) {
      this.#flush(report)
      this.#epoch++
      this.#epochFill = 0
      for (const { shard } of this.#lanes) shard.openEpoch(this.#epoch)
    }
    this.#epochFill += blocks
  }

  #flush(report: ApplyReport): void {
    for (const lane of this.#lanes) {
      if (lane.events.length === 0) continue
      lane.shard.apply(lane.batch, lane.report)
      for (const [own, event] of lane.events.entries()) report.statuses[event] = lane.report.statuses[own]!
      lane.batch.clear()
      lane.events.length = 0
    }
    if (this.#maxBlocks === Number.POSITIVE_INFINITY) return
    while (this.#lanes.reduce((sum, { shard }) => sum + shard.stats().heldBlocks, 0) > this.#maxBlocks) {
      const ages = this.#lanes.map(({ shard }) => shard.oldestEpoch())
      this.#lanes[ages.indexOf(Math.min(...ages))]!.shard.evictOldest()
    }
  }
}
