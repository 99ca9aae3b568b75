/** The contract of an exact prefix index, one suite over every implementation. Upstream's cases: spec 12.4 (trees). */
import { expect, it } from 'vitest'
import { type HashColumn, newHashColumn, toBigInts, toHashColumn } from '../protocol/index.js'
import { ApplyReport, type EventStatus } from './apply-report.js'
import { EventBatch } from './event-batch.js'
import type { IndexOptions, PrefixIndex } from './prefix-index.js'
import { factKinds, factWords } from './prefix-index.js'

export type MakeIndex = (options?: Partial<IndexOptions>) => PrefixIndex

/** Knows how an index is called, so that every case is data. Blocks are small numbers; names are 100 above them. */
export function driver(index: PrefixIndex, ranks = 8) {
  const report = new ApplyReport()
  const apply = (fill: (batch: EventBatch) => void): EventStatus => {
    const batch = new EventBatch()
    fill(batch)
    index.apply(batch, report)
    return report.statusOf(0)
  }
  const find = (locals: readonly number[], last?: HashColumn): number[] => {
    const depths = new Uint32Array(ranks)
    index.find(column(locals), locals.length, depths, last)
    return [...depths]
  }
  return {
    index,
    report,
    store: (rank: number, locals: readonly number[], parent?: number, names = locals.map(nameOf)) =>
      apply((batch) =>
        batch.stored(rank, parent === undefined ? undefined : column([parent]), column(names), column(locals)),
      ),
    remove: (rank: number, names: readonly number[]) => apply((batch) => batch.removed(rank, column(names))),
    clear: (rank: number) => apply((batch) => batch.cleared(rank)),
    find,
    depth: (rank: number, locals: readonly number[]) => find(locals)[rank],
    lastNames: (locals: readonly number[]) => {
      const last = newHashColumn(ranks)
      find(locals, last)
      return toBigInts(last).map(Number)
    },
    facts: (rank: number) =>
      Array.from(index.facts(rank), (it) => [it.hasParent ? it.parentLo : undefined, it.localLo, it.externalLo]),
  }
}

export function nameOf(local: number): number {
  return local + 100
}

export function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index)
}

function column(values: readonly number[]): HashColumn {
  return toHashColumn(values.map(BigInt))
}

/** `isOne`: false for shards, which keep names and sets of ranks each for themselves. */
export function indexConformance(name: string, make: MakeIndex, isOne = true): void {
  const fresh = (options?: Partial<IndexOptions>) => driver(make(options))
  const test = (says: string, run: () => void) => it(`${name}: ${says}`, run)

  test('finds what was stored, a part of it, nothing, and nothing for an empty prompt', () => {
    const { store, find } = fresh()
    store(0, [1, 2, 3])
    expect(find([1, 2, 3])[0]).toBe(3)
    expect(find([1, 2, 9])[0]).toBe(2)
    expect(find([9, 2, 3])).toEqual([0, 0, 0, 0, 0, 0, 0, 0])
    expect(find([])[0]).toBe(0)
  })

  test('warns of a store that changes nothing, and not of a continuation', () => {
    const { store, facts, report } = fresh()
    expect(store(0, [1, 2, 3])).toBe('ok')
    const before = facts(0)
    expect(store(0, [1, 2, 3])).toBe('duplicate_store')
    expect(facts(0)).toEqual(before)
    expect(store(0, [4], 103)).toBe('ok')
    expect([report.countOf('ok'), report.countOf('duplicate_store')]).toEqual([2, 1])
  })

  test('counts the blocks of a rank through repeated stores and removes', () => {
    const { index, store, remove } = fresh()
    for (let round = 0; round < 5; round++) {
      store(0, [1, 2, 3, 4])
      expect(index.blocksOf(0)).toBe(4)
      remove(0, [104, 103])
      expect(index.blocksOf(0)).toBe(2)
    }
    expect(index.blocksOf(7)).toBe(0)
  })

  test('keeps holes exact: 5, then 2 without block 3, then 5 again', () => {
    const { store, remove, depth } = fresh()
    store(0, [1, 2, 3, 4, 5])
    remove(0, [103])
    expect(depth(0, [1, 2, 3, 4, 5])).toBe(2)
    expect(store(0, [9], 103)).toBe('parent_block_not_found')
    expect(store(0, [6], 105)).toBe('ok')
    store(0, [3], 102)
    expect(depth(0, [1, 2, 3, 4, 5, 6])).toBe(6)
  })

  test('does not let a rank extend a branch that it does not hold', () => {
    const { store, find } = fresh()
    store(0, [1, 2, 3, 4, 5, 6])
    store(1, [1, 2, 3])
    expect(store(1, [7, 8], 103)).toBe('ok')
    expect(find([1, 2, 3, 4, 5, 6]).slice(0, 2)).toEqual([6, 3])
    expect(find([1, 2, 3, 7, 8]).slice(0, 2)).toEqual([3, 5])
    expect(store(1, [9], 106)).toBe('parent_block_not_found')
    expect(find([1, 2, 3, 4, 5, 6, 9])[1]).toBe(3)
  })

  test('lets a second rank reuse a suffix and grow past it', () => {
    const { store, find } = fresh()
    store(0, range(1, 6))
    store(1, range(1, 3))
    store(1, range(4, 6), 103)
    store(1, range(7, 9), 106)
    expect(find(range(1, 9)).slice(0, 2)).toEqual([6, 9])
  })

  test('keeps ranks apart: remove, clear and reuse touch one of them', () => {
    const { index, store, remove, clear, find } = fresh()
    for (const rank of [0, 1, 2]) store(rank, [1, 2, 3])
    remove(0, [103])
    expect(find([1, 2, 3]).slice(0, 3)).toEqual([2, 3, 3])
    expect(clear(1)).toBe('ok')
    expect(find([1, 2, 3]).slice(0, 3)).toEqual([2, 0, 3])
    store(1, [1, 9])
    expect(find([1, 9]).slice(0, 3)).toEqual([1, 2, 1])
    expect(index.clearRank(2)).toBe(3)
    expect(index.clearRank(2)).toBe(0)
    expect(find([1, 2, 3]).slice(0, 3)).toEqual([2, 1, 0])
  })

  test('is not disturbed by unknown ranks and hashes, and applies the rest of such a remove', () => {
    const { store, remove, clear, depth } = fresh()
    expect(remove(5, [101])).toBe('block_not_found')
    expect(clear(6)).toBe('ok')
    store(0, [1, 2, 3])
    expect(remove(0, [999, 103])).toBe('block_not_found')
    expect(depth(0, [1, 2, 3])).toBe(2)
  })

  test('removes the blocks of one event in whatever order it names them', () => {
    const left = [[[104], [102]], [[104, 102]], [[102, 104]]].map((events) => {
      const { store, remove, facts, find } = fresh()
      store(0, [1, 2, 3, 4])
      for (const names of events) expect(remove(0, names)).toBe('ok')
      return [facts(0), find([1, 2, 3, 4])]
    })
    expect(left[1]).toEqual(left[0])
    expect(left[2]).toEqual(left[0])
  })

  test('chains stores by parent, and mixes sequences of one rank by their common prefix only', () => {
    const { store, depth } = fresh()
    store(0, [1, 2])
    store(0, [3, 4], 102)
    store(0, [5, 6])
    expect(depth(0, [1, 2, 3, 4])).toBe(4)
    expect(depth(0, [1, 6])).toBe(1)
    expect(depth(0, [5, 6])).toBe(2)
  })

  test('refuses a block that is its own parent, and checks the parent of an empty store', () => {
    const { store, depth } = fresh()
    store(0, [1])
    expect(store(0, [2, 1], 101)).toBe('invalid_block')
    expect(store(0, [2], 101)).toBe('ok')
    expect(depth(0, [1, 2])).toBe(2)
    expect(store(0, [], 999)).toBe('parent_block_not_found')
    expect(store(0, [], 101)).toBe('ok')
  })

  test('lists facts parents first, and leaves out what lies behind a hole', () => {
    const { store, remove, facts } = fresh()
    store(0, [1, 2, 3, 4])
    store(0, [7], 102)
    remove(0, [103])
    expect(facts(0).sort((a, b) => a[2]! - b[2]!)).toEqual([
      [undefined, 1, 101],
      [101, 2, 102],
      [102, 7, 107],
    ])
    expect(facts(1)).toEqual([])
  })

  test('gives the same scores when its facts are replayed', () => {
    const one = fresh()
    one.store(0, range(1, 40))
    one.store(1, range(1, 20))
    one.store(1, range(60, 70), 110)
    const two = fresh()
    for (const rank of [0, 1]) {
      for (const [parent, local, external] of one.facts(rank)) two.store(rank, [local!], parent, [external!])
    }
    for (const prompt of [range(1, 40), [...range(1, 10), ...range(60, 70)]])
      expect(two.find(prompt)).toEqual(one.find(prompt))
    for (const rank of [0, 1])
      expect(new Set(two.facts(rank).map(String))).toEqual(new Set(one.facts(rank).map(String)))
  })

  test('describes blocks by their names, and those that it cannot place as absent', () => {
    const { index, store, remove } = fresh()
    const describe = (rank: number, names: readonly number[]) => {
      const facts = new Uint32Array(factWords * names.length).fill(7)
      index.describe(rank, column(names), names.length, facts)
      return names.map((_, at) => {
        const [kind, , parent, , local, , name] = facts.subarray(factWords * at, factWords * (at + 1))
        return kind === factKinds.absent ? [kind, name] : [kind, kind === factKinds.below ? parent : 0, local, name]
      })
    }
    store(0, [1, 2, 3, 4])
    expect(describe(0, [104, 101, 199])).toEqual([
      [factKinds.below, 103, 4, 104],
      [factKinds.atRoot, 0, 1, 101],
      [factKinds.absent, 199],
    ])
    remove(0, [102])
    expect(describe(0, [102, 103, 104])).toEqual([
      [factKinds.absent, 102],
      [factKinds.absent, 103], // its parent is a hole
      [factKinds.below, 103, 4, 104],
    ])
    expect(describe(3, [101]).flat()[0]).toBe(factKinds.absent)
    store(1, range(1, 2000))
    const many = describe(1, range(101, 2100))
    expect(many).toHaveLength(2000)
    expect(many.at(-1)).toEqual([factKinds.below, 2099, 2000, 2100])
  })

  test('lets every rank name a block as it likes', () => {
    const { index, store, remove, depth, lastNames } = fresh()
    store(0, [1, 2, 3])
    store(1, [1, 2, 3], undefined, [201, 202, 203])
    expect(lastNames([1, 2, 3]).slice(0, 2)).toEqual([103, 203])
    expect(remove(1, [103])).toBe('block_not_found')
    expect(store(1, [4], 203, [204])).toBe('ok')
    expect(remove(1, [203])).toBe('ok')
    expect(depth(1, [1, 2, 3, 4])).toBe(2)
    expect(depth(0, [1, 2, 3])).toBe(3)
    if (isOne) expect(index.stats().aliases).toBe(2)
  })

  test('keeps a block until its last name is removed', () => {
    const { store, remove, depth } = fresh()
    store(0, [1, 2])
    expect(store(0, [2], 101, [500])).toBe('ok')
    remove(0, [102])
    expect(depth(0, [1, 2])).toBe(2)
    remove(0, [500])
    expect(depth(0, [1, 2])).toBe(1)
  })

  test('moves a name that is used for another block', () => {
    const { index, store, find } = fresh()
    store(0, [1, 2])
    store(0, [3], undefined, [102])
    expect(find([1, 2])[0]).toBe(1)
    expect(find([3])[0]).toBe(1)
    expect(index.blocksOf(0)).toBe(2)
  })

  test('takes hash 0 for a hash like any other', () => {
    const { index, store, remove, depth } = fresh()
    store(0, [0, 1], undefined, [0, 5])
    expect(index.holds(0, toHashColumn([0n]))).toBe(true)
    expect(store(0, [0], 0, [6])).toBe('ok')
    expect(depth(0, [0, 0])).toBe(2)
    expect(remove(0, [0])).toBe('ok')
    expect(depth(0, [0, 1])).toBe(0)
  })

  test('is exact at every length from 31 to 97, by chunks, staggered, and 1,000 deep', () => {
    const { store, depth, find } = fresh()
    for (const length of [31, 32, 33, 63, 64, 65, 95, 96, 97]) {
      const blocks = range(length * 1000, length * 1000 + length - 1)
      store(0, blocks)
      expect(depth(0, blocks)).toBe(length)
      expect(depth(0, [...blocks.slice(0, -1), 7])).toBe(length - 1)
    }
    for (let from = 200_001; from <= 200_200; from += 17) {
      const parent = from === 200_001 ? undefined : nameOf(from - 1)
      expect(store(1, range(from, Math.min(200_200, from + 16)), parent)).toBe('ok')
    }
    expect(depth(1, range(200_001, 200_200))).toBe(200)
    for (const [rank, length] of [10, 20, 35, 64, 100].entries()) store(rank + 2, range(300_001, 300_000 + length))
    expect(find(range(300_001, 300_200)).slice(2, 7)).toEqual([10, 20, 35, 64, 100])
    store(7, range(400_001, 401_000))
    expect(depth(7, range(400_001, 401_000))).toBe(1000)
  })

  test('branches a node into more children than a byte can count, and forgets them all', () => {
    const { index, store, depth } = fresh()
    store(0, [1, 2])
    for (let child = 1000; child < 1700; child++) store(0, [child], 101)
    for (const child of [1000, 1255, 1256, 1699]) expect(depth(0, [1, child])).toBe(2)
    expect(index.stats().distinctBlocks).toBe(702)
    expect(index.clearRank(0)).toBe(702)
    expect(index.stats()).toMatchObject({ heldBlocks: 0, distinctBlocks: 0, holderSets: 0 })
  })

  test('counts what it holds, and nothing is left when all is removed', () => {
    const { index, store, remove } = fresh()
    for (const rank of [0, 1, 2]) store(rank, range(1, 50))
    store(3, range(1, 20))
    expect(index.stats()).toMatchObject({ heldBlocks: 170, evictedBlocks: 0 })
    expect(index.stats().distinctBlocks).toBe(50)
    expect(index.sharing()).toEqual({ sharedBlocks: 50, ranksPerSharedBlock: (30 * 3 + 20 * 4) / 50 })
    if (isOne) expect(index.stats().holderSets).toBe(2)
    expect(index.stats().bytesUsed).toBeGreaterThan(0)
    for (const rank of [0, 1, 2, 3]) expect(remove(rank, range(1, rank === 3 ? 20 : 50).map(nameOf))).toBe('ok')
    expect(index.stats()).toMatchObject({ heldBlocks: 0, distinctBlocks: 0, holderSets: 0, aliases: 0 })
  })

  test('shows the prefixes that lookups pass most often', () => {
    const { index, store, find } = fresh()
    store(0, range(1, 10))
    store(1, range(1, 10))
    store(0, range(50, 60))
    for (let time = 0; time < 20; time++) find(range(1, 10))
    for (let time = 0; time < 5; time++) find(range(50, 60))
    const [first, second] = index.hottest()
    expect(first).toEqual({ finds: 20, depth: 10, ranks: 2, localLo: 10, localHi: 0 })
    expect(second).toMatchObject({ finds: 5, depth: 11, ranks: 1 })
    expect(index.hottest().length).toBeLessThanOrEqual(16)
  })

  capConformance(test, fresh)
  snapshotConformance(test, make)
}

type Test = (says: string, run: () => void) => void

function capConformance(test: Test, fresh: (options?: Partial<IndexOptions>) => ReturnType<typeof driver>): void {
  test('holds a rank to its cap, oldest knowledge first, and counts what went', () => {
    const { index, store, depth } = fresh({ maxBlocksPerRank: 30 })
    for (let run = 0; run < 10; run++) store(0, range(100 * run, 100 * run + 9))
    expect(index.blocksOf(0)).toBeLessThanOrEqual(30)
    expect(depth(0, range(900, 909))).toBe(10)
    expect(depth(0, range(800, 809))).toBe(10)
    expect(depth(0, range(0, 9))).toBe(0)
    expect(index.stats().evictedBlocks).toBe(100 - index.blocksOf(0))
  })

  test('holds all ranks together to the cap, and takes the oldest wherever it lies', () => {
    const { index, store, depth } = fresh({ maxBlocks: 40 })
    store(0, range(1, 20))
    store(1, range(101, 120))
    store(2, range(201, 220))
    expect(index.stats().heldBlocks).toBeLessThanOrEqual(40)
    expect([depth(0, range(1, 20)), depth(1, range(101, 120)), depth(2, range(201, 220))]).toEqual([0, 20, 20])
    expect(index.stats().evictedBlocks).toBe(20)
  })

  test('keeps the head of a store that is larger than the cap', () => {
    const { index, store, depth } = fresh({ maxBlocksPerRank: 8 })
    store(0, range(1, 20))
    expect(depth(0, range(1, 20))).toBe(8)
    expect(index.stats()).toMatchObject({ heldBlocks: 8, evictedBlocks: 12 })
  })

  test('stays right and bounded under long turnover at the cap', () => {
    const { index, store, depth } = fresh({ maxBlocks: 200, maxBlocksPerRank: 90 })
    for (let run = 0; run < 2000; run++) {
      store(run % 5, range(1000 + 10 * run, 1000 + 10 * run + 6))
      expect(index.stats().heldBlocks).toBeLessThanOrEqual(200)
      expect(depth(run % 5, range(1000 + 10 * run, 1000 + 10 * run + 6))).toBe(7)
    }
    expect(index.stats().evictedBlocks).toBe(14_000 - index.stats().heldBlocks)
  })
}

function snapshotConformance(test: Test, make: MakeIndex): void {
  const filled = (): ReturnType<typeof driver> => {
    const it = driver(make())
    it.store(0, range(1, 130))
    it.store(1, range(1, 70))
    it.store(1, range(900, 960), 150)
    it.store(2, [1, 2, 3], undefined, [701, 702, 703]) // names of its own
    it.store(0, [2], 101, [702]) // a second name
    it.remove(0, [140]) // a hole
    return it
  }
  const prompts = [range(1, 130), [...range(1, 50), ...range(900, 960)], [1, 2, 3]]

  test('restores a snapshot into an index that answers the same', () => {
    const one = filled()
    const two = driver(make())
    two.store(5, [1, 2, 3]) // replaced
    two.index.restore(one.index.snapshot())
    for (const prompt of prompts) {
      expect(two.find(prompt)).toEqual(one.find(prompt))
      expect(two.lastNames(prompt)).toEqual(one.lastNames(prompt))
    }
    const { bytesUsed: _, ...stats } = two.index.stats()
    expect(one.index.stats()).toMatchObject(stats)
    two.store(0, [40], 139) // the hole closes
    expect(two.depth(0, range(1, 130))).toBe(130)
    for (const rank of [0, 1, 2]) two.clear(rank)
    expect(two.index.stats()).toMatchObject({ heldBlocks: 0, distinctBlocks: 0, holderSets: 0, aliases: 0 })
  })

  test('refuses a snapshot that is truncated, damaged, foreign or of another version, and stays as it was', () => {
    const one = filled()
    const image = one.index.snapshot().slice()
    const before = prompts.map((prompt) => one.find(prompt))
    const bad = (change: (copy: Uint8Array) => Uint8Array, reason: string): void => {
      const restore = () => one.index.restore(change(image.slice()))
      expect(restore).toThrow(reason)
      expect(restore).toThrow(expect.objectContaining({ code: 'WR_SNAPSHOT_INVALID' }))
      expect(prompts.map((prompt) => one.find(prompt))).toEqual(before)
    }
    const with1 = (at: number) => (copy: Uint8Array) => {
      copy[at]! ^= 1
      return copy
    }
    bad(() => new Uint8Array(), 'truncated')
    bad((copy) => copy.subarray(0, copy.length - 4), 'truncated')
    bad((copy) => copy.subarray(0, copy.length - 1), 'truncated')
    bad(with1(0), 'no index snapshot')
    bad(with1(4), 'version')
    for (let at = 12; at < image.length; at += 41) bad(with1(at), 'an index snapshot cannot be used')
    bad(() => new TextEncoder().encode('{"model":{"block_size":16,"events":[]}}!'), 'no index snapshot')
  })

  test('cuts a restored snapshot down to its caps, deepest blocks first', () => {
    const one = driver(make())
    one.store(0, range(1, 100))
    one.store(1, range(1, 100))
    const two = driver(make({ maxBlocksPerRank: 60, maxBlocks: 100 }))
    two.index.restore(one.index.snapshot())
    expect(two.find(range(1, 100)).slice(0, 2)).toEqual([50, 50])
    two.store(2, range(1, 60))
    expect(two.index.stats().heldBlocks).toBeLessThanOrEqual(100)
  })
}
