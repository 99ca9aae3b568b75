/**
 * Every feed of one model's fleet, and the one place where their events meet the index. Events gather in a batch per tier
 * and cross into the index together, once per turn of the event loop instead of once per event; a purge crosses at once.
 */
import type { BlockHasher } from '../core/hashing/index.js'
import { TieredBatch } from '../core/index/index.js'
import type { Rank, StorageTier } from '../core/protocol/index.js'
import { Converter } from './converter.js'
import type { BatchDecoder } from './decoded-batch.js'
import { DecodedBatch } from './decoded-batch.js'
import type { FeedHost, FeedOptions, FeedStatus } from './feed.js'
import { Feed } from './feed.js'
import { NamespaceNames } from './namespaces.js'
import { Normaliser } from './normaliser.js'
import { SchemeCache } from './scheme-cache.js'

/** Where events go: `KvIndex`, or something like it. The batch is the caller's and is reused after the call. */
export interface EventSink {
  apply(batch: TieredBatch): void
}

export interface IntakeOptions {
  readonly decoder: BatchDecoder
  readonly sink: EventSink
  readonly hasher: BlockHasher
  /** Tokens per block; stores of another size are counted and give nothing. */
  readonly blockSize: number
  readonly imageTokenId?: number | undefined
  /** Mixed into hash positions, so that nobody can aim at one slot. */
  readonly seed: number
  /** Distinct blocks believed per rank and tier. */
  readonly blocksPerRankMax?: number
  /** Unix seconds by our clock, for lag and rates; without it there are none. */
  readonly wallSeconds?: () => number
  readonly requestReplay: (feed: Feed, from: number, ticket: number) => void
  /** Called when something waits to be applied; the owner calls `flush` soon, from its own loop. */
  readonly onPending?: () => void
}

/** Sees every batch before the index does. */
export interface BatchWatcher {
  note(batch: TieredBatch): void
}

/** Above this many blocks a batch crosses at once, so that a flood cannot grow it. */
const pendingBlocksMax = 65_536
const loadedBlocksPerStep = 1024
const blocksPerRankDefault = 8_388_608

export class Intake {
  readonly #options: IntakeOptions
  readonly #host: FeedHost
  readonly #feeds = new Map<Rank, Feed>()
  readonly #batch = new TieredBatch()
  readonly #watchers = new Set<BatchWatcher>()
  #crossings = 0
  #isPending = false

  constructor(options: IntakeOptions) {
    this.#options = options
    const schemes = new SchemeCache(options.blockSize)
    const converter = new Converter({ hasher: options.hasher, schemes, imageTokenId: options.imageTokenId })
    const blocksMax = options.blocksPerRankMax ?? blocksPerRankDefault
    this.#host = {
      decoder: options.decoder,
      normaliser: new Normaliser(converter, options.blockSize, { blocksMax }),
      decoded: new DecodedBatch(),
      batch: this.#batch,
      names: new NamespaceNames(),
      seed: options.seed,
      blocksMax,
      wallSeconds: options.wallSeconds ?? (() => Number.NaN),
      requestReplay: options.requestReplay,
      changed: () => this.#changed(),
      purged: () => this.flush(),
    }
  }

  addFeed(options: FeedOptions): Feed {
    const feed = new Feed(this.#host, options)
    this.#feeds.get(options.rank)?.machine.leave()
    this.#feeds.set(options.rank, feed)
    return feed
  }

  /** The rank is gone: its knowledge too. */
  removeFeed(rank: Rank): void {
    this.#feeds.get(rank)?.machine.leave()
    this.#feeds.delete(rank)
    this.flush()
  }

  feeds(): Iterable<Feed> {
    return this.#feeds.values()
  }

  feedOf(rank: Rank): Feed | undefined {
    return this.#feeds.get(rank)
  }

  /** Whether what the index says of the rank may be counted on. A rank without a feed is not ours to judge: true. */
  isCredited(rank: Rank): boolean {
    const feed = this.#feeds.get(rank)
    return feed === undefined || feed.machine.state === 'live'
  }

  status(nowSeconds: number): FeedStatus[] {
    return [...this.#feeds.values()].map((feed) => feed.status(nowSeconds))
  }

  /** Whatever waits crosses into the index now. */
  flush(): void {
    this.#isPending = false
    const batch = this.#batch
    const { device, hostPinned, disk, external } = batch
    if (device.eventCount + hostPinned.eventCount + disk.eventCount + external.eventCount === 0) return
    this.#crossings++
    for (const watcher of this.#watchers) watcher.note(batch)
    this.#options.sink.apply(batch)
    batch.clear()
  }

  /** Returns the way to stop. */
  watch(watcher: BatchWatcher): () => void {
    this.#watchers.add(watcher)
    return () => void this.#watchers.delete(watcher)
  }

  /** Blocks of a rank from a snapshot, as `RankImage.runs` holds them; each step's cross into the index at its end. */
  *load(rank: Rank, tier: StorageTier, runs: Uint32Array): Generator<undefined, void, void> {
    const batch = this.#batch.of(tier)
    for (let at = 0; at + 4 <= runs.length; ) {
      const count = runs[at]!
      if (at + 4 + 4 * count > runs.length) break // the checksum has already vouched for it; never read past the end
      const out = batch.openStored(rank, count, runs[at + 1] === 1, runs[at + 2]!, runs[at + 3]!)
      for (let block = 0; block < count; block++) {
        const from = at + 4 + 4 * block
        batch.words[out + 2 * block] = runs[from]!
        batch.words[out + 2 * block + 1] = runs[from + 1]!
        batch.words[out + 2 * (count + block)] = runs[from + 2]!
        batch.words[out + 2 * (count + block) + 1] = runs[from + 3]!
      }
      at += 4 + 4 * count
      if (batch.blockCount < loadedBlocksPerStep) continue
      this.flush()
      yield
    }
    this.flush()
    yield
  }

  /** How often events crossed into the index. */
  get crossings(): number {
    return this.#crossings
  }

  #changed(): void {
    if (this.#batch.blockCount > pendingBlocksMax) return this.flush()
    if (this.#isPending) return
    this.#isPending = true
    this.#options.onPending?.()
  }
}
