/**
 * Reads all that is known of one rank while events go on changing it, in steps that may lie turns of the loop apart.
 *
 *   names of the ledger ─► what each stands for ─► names that events touched meanwhile, again ─► ... ─► the last few, the
 *   anchor and the ledger at once ─► chains packed into runs
 *
 * A name that no event touched since it was read still stands for the same block, so what is true at the end is what was
 * read of the untouched and what was read last of the others. An event that empties the rank ends the reading: what was
 * saved before it can still be continued by a replay.
 */
import type { EventBatch, TieredBatch } from '../core/index/index.js'
import { eventHeaderWords, eventKinds, factKinds, factWords } from '../core/index/index.js'
import type { Rank, StorageTier } from '../core/protocol/index.js'
import { storageTiers } from '../core/protocol/index.js'
import { HashTable, triplesPerPage } from './hash-table.js'
import type { RankLedger } from './rank-ledger.js'

/** The index, as far as a rank can be read from it name by name. */
export interface NamedBlocks {
  describe(tier: StorageTier, rank: Rank, names: Uint32Array, count: number, facts: Uint32Array): void
}

export interface ReadTier {
  /** Runs of blocks: count, has parent, parent (2 words), then per block external and local hash (4 words). */
  readonly runs: Uint32Array
  readonly blockCount: number
}

export interface ReadingLimits {
  readonly namesPerStep: number
  /** So many names are read in one go with the anchor. */
  readonly lastNamesMax: number
  /** And so many that had no place before. */
  readonly placelessMax: number
  /** A rank that changes faster than it can be read is given up. */
  readonly roundsMax: number
}

const limitsDefault: ReadingLimits = {
  namesPerStep: 512,
  lastNamesMax: 2048,
  placelessMax: 2048,
  roundsMax: 16,
}
const runBlocksMax = 512

/** Which names of a rank events have touched, per tier. */
export class TouchedNames {
  readonly #rank: Rank
  #names = storageTiers.map(() => new HashTable())
  #isCleared = false

  constructor(rank: Rank) {
    this.#rank = rank
  }

  get isCleared(): boolean {
    return this.#isCleared
  }

  get size(): number {
    return this.#names.reduce((sum, it) => sum + it.size, 0)
  }

  note(batch: TieredBatch): void {
    storageTiers.forEach((tier, at) => this.#noteTier(batch.of(tier), this.#names[at]!))
  }

  /** What was noted since the last time, one table per tier. */
  take(): HashTable[] {
    const taken = this.#names
    this.#names = storageTiers.map(() => new HashTable())
    return taken
  }

  #noteTier({ words, eventCount }: EventBatch, names: HashTable): void {
    for (let event = 0, at = 0; event < eventCount; event++) {
      const kind = words[at]! & 0xff
      const count = words[at + 2]!
      const blocksAt = at + eventHeaderWords
      if (words[at + 1] === this.#rank) {
        if (kind === eventKinds.cleared) this.#isCleared = true
        else
          for (let block = 0; block < count; block++)
            names.set(words[blocksAt + 2 * block]!, words[blocksAt + 2 * block + 1]!, 1)
      }
      at = blocksAt + (kind === eventKinds.stored ? 4 : kind === eventKinds.removed ? 2 : 0) * count
    }
  }
}

/** One tier of a rank. */
class TierReading {
  readonly #blocks: NamedBlocks
  readonly #tier: StorageTier
  readonly #rank: Rank
  /** Name -> number of its row, from 1 on. */
  readonly #rowOf: HashTable
  readonly #perStep: number
  readonly #names: Uint32Array
  readonly #facts: Uint32Array
  readonly #triples = new Uint32Array(3 * triplesPerPage)
  /** Names without a place when they were read: behind a hole that a store may have filled since. */
  readonly #placeless = new HashTable()
  #rows: Uint32Array
  #rowCount = 0

  constructor(blocks: NamedBlocks, tier: StorageTier, rank: Rank, names: number, perStep: number) {
    const room = names + Math.max(64, names >>> 4)
    this.#blocks = blocks
    this.#tier = tier
    this.#rank = rank
    this.#perStep = perStep
    this.#names = new Uint32Array(2 * perStep)
    this.#facts = new Uint32Array(factWords * perStep)
    this.#rowOf = new HashTable(undefined, room)
    this.#rows = new Uint32Array(factWords * room)
  }

  /** What the names of a table stand for now, instead of what was read before. */
  *read(table: HashTable): Generator<undefined, void, void> {
    const frozen = table.freeze()
    try {
      for (const count of frozen.pages(this.#triples)) {
        for (let from = 0; from < count; from += this.#perStep) {
          this.#describe(from, Math.min(this.#perStep, count - from))
          yield
        }
      }
    } finally {
      frozen.release()
    }
  }

  /** Without steps, for a few names. */
  readNow(table: HashTable): void {
    const steps = this.read(table)
    while (!steps.next().done);
  }

  /** Once more those without a place, if they are few; else they are forgotten. */
  readPlaceless(namesMax: number): void {
    if (this.#placeless.size <= namesMax) this.readNow(this.#placeless)
  }

  /** Chains from the root, parents first. Below the device a chain may begin anywhere. */
  *pack(): Generator<undefined, ReadTier, void> {
    const rows = this.#rows
    const isFloating = this.#tier !== 'device'
    const fate = new Uint8Array(this.#rowCount) // 0 open, 1 written, 2 on the way up, 3 behind a hole
    const path: number[] = []
    let out = new Uint32Array(64 + 5 * this.#rowCount)
    let used = 0
    let blockCount = 0
    let work = 0
    for (let start = 0; start < this.#rowCount; start++) {
      const isWhole = this.#climb(start, fate, path, isFloating)
      work += 1 + 4 * path.length
      if (work > 4 * this.#perStep) {
        work = 0
        yield
      }
      if (used + 8 * path.length > out.length) out = wider(out, used + 8 * path.length)
      for (let head = -1; path.length > 0; ) {
        const at = factWords * path.pop()!
        fate[at / factWords] = isWhole ? 1 : 3
        if (!isWhole) continue
        if (head < 0 || out[head] === runBlocksMax) {
          head = used
          out[used] = 0
          out[used + 1] = rows[at] === factKinds.below ? 1 : 0
          out[used + 2] = rows[at + 2]!
          out[used + 3] = rows[at + 3]!
          used += 4
        }
        out[used] = rows[at + 6]!
        out[used + 1] = rows[at + 7]!
        out[used + 2] = rows[at + 4]!
        out[used + 3] = rows[at + 5]!
        used += 4
        out[head]!++
        blockCount++
      }
    }
    return { runs: out.subarray(0, used), blockCount }
  }

  /** The way up from an open row to the root, or to a row that was met before. True: all of it may be written. */
  #climb(start: number, fate: Uint8Array, path: number[], isFloating: boolean): boolean {
    const rows = this.#rows
    if (fate[start] !== 0 || rows[factWords * start] === factKinds.absent) return false
    for (let row = start; ; ) {
      const at = factWords * row
      fate[row] = 2
      path.push(row)
      if (rows[at] === factKinds.atRoot) return true
      row = this.#rowOf.get(rows[at + 2]!, rows[at + 3]!) - 1
      if (row < 0 || rows[factWords * row] === factKinds.absent) return isFloating
      if (fate[row] !== 0) return fate[row] === 1 || isFloating
    }
  }

  #describe(from: number, count: number): void {
    const names = this.#names
    const facts = this.#facts
    for (let index = 0; index < count; index++) {
      names[2 * index] = this.#triples[3 * (from + index)]!
      names[2 * index + 1] = this.#triples[3 * (from + index) + 1]!
    }
    this.#blocks.describe(this.#tier, this.#rank, names, count, facts)
    const needed = factWords * (this.#rowCount + count)
    if (needed > this.#rows.length) this.#rows = wider(this.#rows, needed)
    for (let index = 0; index < count; index++) {
      let row = this.#rowOf.get(names[2 * index]!, names[2 * index + 1]!)
      if (row === 0) this.#rowOf.set(names[2 * index]!, names[2 * index + 1]!, (row = ++this.#rowCount))
      if (facts[factWords * index] === factKinds.absent)
        this.#placeless.set(names[2 * index]!, names[2 * index + 1]!, 1)
      else if (this.#placeless.size > 0) this.#placeless.delete(names[2 * index]!, names[2 * index + 1]!)
      const to = factWords * (row - 1)
      for (let word = 0; word < factWords; word++) this.#rows[to + word] = facts[factWords * index + word]!
    }
  }
}

export class RankReading {
  readonly #blocks: NamedBlocks
  readonly #ledger: RankLedger
  readonly #limits: ReadingLimits
  readonly #tiers: TierReading[] = []
  readonly touched: TouchedNames

  /** From now on `touched` must be told of every batch before it is applied, and everything before is applied. */
  constructor(blocks: NamedBlocks, ledger: RankLedger, limits: Partial<ReadingLimits> = {}) {
    this.#blocks = blocks
    this.#ledger = ledger
    this.#limits = { ...limitsDefault, ...limits }
    this.touched = new TouchedNames(ledger.rank)
  }

  /** True: so little is left that `readRest` may read it at once. False: it changes too fast, or was emptied. */
  *read(flush: () => void): Generator<undefined, boolean, void> {
    const { rank } = this.#ledger
    const { namesPerStep, lastNamesMax, roundsMax } = this.#limits
    for (const [at, tier] of storageTiers.entries()) {
      const names = this.#ledger.copies(at, 0)
      this.#tiers.push(new TierReading(this.#blocks, tier, rank, names.size, namesPerStep))
      yield
      yield* this.#tiers[at]!.read(names)
    }
    const tables = [...this.#ledger.tables()] // an event may bring another
    for (const { tier, group, table } of tables) if (group > 0) yield* this.#tiers[tier]!.read(table)
    for (let round = 0; round < roundsMax; round++) {
      flush()
      if (this.touched.isCleared) return false
      if (this.touched.size <= lastNamesMax) return true
      const names = this.touched.take()
      for (const [at, tier] of this.#tiers.entries()) yield* tier.read(names[at]!)
    }
    return false
  }

  /** In one go with whatever it must agree with. */
  readRest(): void {
    const names = this.touched.take()
    for (const [at, tier] of this.#tiers.entries()) {
      tier.readNow(names[at]!)
      tier.readPlaceless(this.#limits.placelessMax)
    }
  }

  /** In the order of `storageTiers`. */
  *pack(): Generator<undefined, ReadTier[], void> {
    const packed: ReadTier[] = []
    for (const tier of this.#tiers) packed.push(yield* tier.pack())
    return packed
  }
}

function wider(words: Uint32Array, needed: number): Uint32Array<ArrayBuffer> {
  const grown = new Uint32Array(Math.max(needed, Math.floor(1.5 * words.length)))
  grown.set(words)
  return grown
}
