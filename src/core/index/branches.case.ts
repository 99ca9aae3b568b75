/**
 * What runs of blocks do when they branch, grow, are cut and come back, one suite over every implementation. Upstream's cases:
 * spec 12.4 (compressed trees, branch shards, searches).
 */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { toHashColumn } from '../protocol/index.js'
import { driver, type MakeIndex, nameOf, range } from './prefix-index.case.js'

export function branchConformance(name: string, make: MakeIndex): void {
  const fresh = () => driver(make())
  const test = (says: string, run: () => void) => it(`${name}: ${says}`, run)
  const branch = [...range(1, 20), ...range(500, 510)]
  const isHeld = ({ index }: ReturnType<typeof driver>, rank: number, block: number) =>
    index.holds(rank, toHashColumn([BigInt(nameOf(block))]))

  test('a branch in the middle of a run keeps what follows, and whose it is', () => {
    const { store, find } = fresh()
    for (const rank of [0, 1]) store(rank, range(1, 40))
    store(2, branch)
    expect(find(range(1, 40)).slice(0, 3)).toEqual([40, 40, 20])
    expect(find(branch).slice(0, 3)).toEqual([20, 20, 31])
    expect(store(0, range(500, 510), nameOf(20))).toBe('ok')
    expect(find(branch).slice(0, 3)).toEqual([31, 20, 31])
    expect(find(range(1, 40)).slice(0, 3)).toEqual([40, 40, 20])
  })

  test('a tail grows where it ends, and a second child begins beside it', () => {
    const { index, store, depth, facts } = fresh()
    store(0, range(1, 10))
    expect(store(0, range(11, 13), nameOf(10))).toBe('ok')
    expect([depth(0, range(1, 13)), index.stats().distinctBlocks]).toEqual([13, 13])
    expect(store(0, [77, 78], nameOf(10))).toBe('ok')
    expect([depth(0, [...range(1, 10), 77, 78]), depth(0, range(1, 13))]).toEqual([12, 13])
    expect([index.stats().distinctBlocks, facts(0).length]).toEqual([15, 15])
  })

  test('a clear sweeps one rank, and leaves the others every branch', () => {
    const { index, store, find, clear } = fresh()
    for (const rank of [0, 1]) store(rank, range(1, 40))
    for (const rank of [0, 2]) store(rank, branch)
    store(0, range(600, 610), nameOf(30))
    clear(0)
    expect(find(range(1, 40)).slice(0, 3)).toEqual([0, 40, 20])
    expect(find(branch).slice(0, 3)).toEqual([0, 20, 31])
    expect(index.stats()).toMatchObject({ heldBlocks: 71, distinctBlocks: 51 })
    expect(store(0, range(600, 610), nameOf(30))).toBe('parent_block_not_found')
    store(0, branch)
    expect(find(branch).slice(0, 3)).toEqual([31, 20, 31])
  })

  test('blocks that nobody holds go from the leaf up, and never while something hangs on them', () => {
    const { index, store, remove, depth } = fresh()
    const distinct = () => index.stats().distinctBlocks
    store(0, range(1, 6))
    store(1, range(1, 3))
    store(1, [50], nameOf(3))
    expect(distinct()).toBe(7)
    remove(0, [nameOf(6), nameOf(5)])
    expect(distinct()).toBe(5)
    remove(0, [nameOf(2)])
    remove(1, [nameOf(2)]) // nobody holds it now, but blocks hang on it
    expect([distinct(), depth(0, range(1, 6)), depth(1, range(1, 3))]).toEqual([5, 1, 1])
    remove(0, [nameOf(4), nameOf(3)])
    expect(distinct()).toBe(4)
    remove(1, [nameOf(50), nameOf(3)]) // and with the last of them it goes
    expect(distinct()).toBe(1)
    expect(store(0, [2, 3], nameOf(1))).toBe('ok')
    expect([distinct(), depth(0, range(1, 6)), depth(1, range(1, 6))]).toEqual([3, 3, 1])
  })

  test('names are gone with their blocks, after a branch as before it', () => {
    const it = fresh()
    const { index, store, remove, depth } = it
    store(0, range(1, 40))
    store(1, branch)
    const gone = [...range(11, 20), ...range(500, 510)]
    expect(remove(1, gone.map(nameOf))).toBe('ok')
    for (const block of gone) expect(isHeld(it, 1, block)).toBe(false)
    for (const block of range(11, 40)) expect(isHeld(it, 0, block)).toBe(true)
    for (const block of gone) expect(store(1, [9], nameOf(block))).toBe('parent_block_not_found')
    expect(remove(1, gone.map(nameOf))).toBe('block_not_found')
    expect([index.blocksOf(1), depth(1, branch), depth(0, range(1, 40))]).toEqual([10, 10, 40])
    expect(index.stats().distinctBlocks).toBe(40)
  })

  test('from the leaf to the root, each removal uncovers one block', () => {
    const it = fresh()
    const { index, store, remove, find } = it
    for (const rank of [0, 1]) store(rank, range(1, 70))
    for (let block = 70; block >= 1; block--) {
      expect(remove(0, [nameOf(block)])).toBe('ok')
      expect([isHeld(it, 0, block), isHeld(it, 0, block - 1)]).toEqual([false, block > 1])
      expect(find(range(1, 70)).slice(0, 2)).toEqual([block - 1, 70])
      expect([index.blocksOf(0), index.stats().distinctBlocks]).toEqual([block - 1, 70]) // the other rank has them
    }
    for (let block = 70; block >= 1; block--) {
      expect(remove(1, [nameOf(block)])).toBe('ok')
      expect(find(range(1, 70)).slice(0, 2)).toEqual([0, block - 1])
      expect(index.stats().distinctBlocks).toBe(block - 1)
    }
  })

  test('every rank’s prefix is whole wherever the rank lies, block by block and with branches', () => {
    const { store, find } = fresh()
    for (let rank = 0; rank < 6; rank++) {
      for (let block = 1; block <= 4 + rank; block++) store(rank, [block], block === 1 ? undefined : nameOf(block - 1))
      store(rank, [rank % 2 === 0 ? 90 : 91], nameOf(4))
    }
    expect(find(range(1, 12)).slice(0, 6)).toEqual([4, 5, 6, 7, 8, 9])
    expect(find([...range(1, 4), 90]).slice(0, 6)).toEqual([5, 4, 5, 4, 5, 4])
    expect(find([...range(1, 4), 91]).slice(0, 6)).toEqual([4, 5, 4, 5, 4, 5])
  })

  test('when some ranks have lost everything the others answer as before', () => {
    const { index, store, find } = fresh()
    for (let rank = 0; rank < 6; rank++) store(rank, range(1, 10 + rank))
    for (const rank of [0, 3]) index.clearRank(rank) // in three shards: all that one of them had
    expect(find(range(1, 20)).slice(0, 6)).toEqual([0, 11, 12, 0, 14, 15])
    store(3, range(1, 2))
    expect(find(range(1, 20)).slice(0, 6)).toEqual([0, 11, 12, 2, 14, 15])
  })

  test('a prefix that is stored again, or by another rank, is the same prefix', () => {
    const { index, store, find } = fresh()
    for (const rank of [0, 3, 1]) expect(store(rank, range(1, 10))).toBe('ok')
    for (const rank of [0, 3, 1]) expect(store(rank, range(1, 10))).toBe('duplicate_store')
    expect(find(range(1, 10)).slice(0, 4)).toEqual([10, 10, 0, 10])
    expect(index.stats()).toMatchObject({ heldBlocks: 30, distinctBlocks: 10 })
    expect(index.sharing()).toEqual({ sharedBlocks: 10, ranksPerSharedBlock: 3 })
  })

  test('removing the prefix hides the suffix, and storing it again shows it', () => {
    const { store, remove, find } = fresh()
    for (const rank of [0, 1]) store(rank, range(1, 10))
    remove(0, range(1, 3).map(nameOf))
    expect(find(range(1, 10)).slice(0, 2)).toEqual([0, 10])
    store(0, range(1, 3))
    expect(find(range(1, 10)).slice(0, 2)).toEqual([10, 10])
  })

  test('a remove behind what is held does not harm the prefix', () => {
    const { store, remove, depth } = fresh()
    store(0, range(1, 5))
    expect(remove(0, [nameOf(6), nameOf(7)])).toBe('block_not_found')
    expect(depth(0, range(1, 8))).toBe(5)
    store(0, range(6, 8), nameOf(5))
    expect(remove(0, [nameOf(8), nameOf(7)])).toBe('ok')
    expect(depth(0, range(1, 8))).toBe(6)
  })

  // Goal: how a prompt is searched cannot be seen. Method: halving over shorter prompts, and prompts that lie in the index's
  // memory, must find what the walk over the whole prompt finds.
  test('one prompt has one answer: by halves, cut anywhere, in place or not', () => {
    const anyPrompt = fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 100 })
    const anyHold = fc.record({ rank: fc.nat(5), of: fc.nat(3), blocks: fc.nat(100), hole: fc.nat(100) })
    fc.assert(
      fc.property(fc.array(anyPrompt, { minLength: 4, maxLength: 4 }), fc.array(anyHold, { maxLength: 12 }), check),
      { numRuns: 25 },
    )
  })

  function check(prompts: number[][], holds: { rank: number; of: number; blocks: number; hole: number }[]): void {
    const { index, store, remove, find } = fresh()
    for (const { rank, of, blocks, hole } of holds) {
      const prompt = prompts[of]!
      const names = prompt.map((_, at) => 1000 * of + at + 1)
      store(rank, prompt.slice(0, blocks), undefined, names.slice(0, blocks))
      if (hole < blocks / 2) remove(rank, [names[hole] ?? 0])
    }
    for (const prompt of prompts) {
      const whole = find(prompt)
      const column = index.promptColumn(prompt.length)
      column.set(toHashColumn(prompt.map(BigInt)))
      const inPlace = new Uint32Array(8)
      index.find(column, prompt.length, inPlace)
      expect([...inPlace]).toEqual(whole)
      for (let rank = 0; rank < 6; rank++) {
        expect(byHalves((blocks) => find(prompt.slice(0, blocks))[rank] === blocks, prompt.length)).toBe(whole[rank])
        const cut = prompt.length >>> 1
        expect(find(prompt.slice(0, cut))[rank]).toBe(Math.min(cut, whole[rank]!))
      }
    }
  }
}

/** The greatest length that is held; every shorter one is held too. */
function byHalves(isHeld: (blocks: number) => boolean, length: number): number {
  let [low, high] = [0, length]
  while (low < high) {
    const middle = (low + high + 1) >>> 1
    if (isHeld(middle)) low = middle
    else high = middle - 1
  }
  return low
}
