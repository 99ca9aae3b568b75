// The model is what the real indexes are judged by, so its own word is pinned to the examples of the contract.
import { expect, it } from 'vitest'
import { toBigInts, toHashColumn } from '../protocol/index.js'
import { ApplyReport } from './apply-report.js'
import { EventBatch } from './event-batch.js'
import { NaiveIndex } from './naive-index.case.js'

const name = (local: bigint) => local + 100n
function model() {
  const index = new NaiveIndex()
  const report = new ApplyReport()
  const apply = (fill: (batch: EventBatch) => void) => {
    const batch = new EventBatch()
    fill(batch)
    index.apply(batch, report)
    return report.statusOf(0)
  }
  const column = (it: bigint[]) => toHashColumn(it)
  return {
    index,
    store: (rank: number, locals: bigint[], parent?: bigint, names = locals.map(name)) =>
      apply((it) =>
        it.stored(rank, parent === undefined ? undefined : column([parent]), column(names), column(locals)),
      ),
    remove: (rank: number, names: bigint[]) => apply((it) => it.removed(rank, column(names))),
    clear: (rank: number) => apply((it) => it.cleared(rank)),
    find: (locals: bigint[]) => {
      const depths = new Uint32Array(4)
      index.find(column(locals), locals.length, depths)
      return [...depths]
    },
  }
}

it('keeps holes exact: 5, then 2 without block 3, then 5 again', () => {
  const it = model()
  it.store(0, [1n, 2n, 3n, 4n, 5n])
  expect(it.find([1n, 2n, 3n, 4n, 5n])[0]).toBe(5)
  expect(it.remove(0, [103n])).toBe('ok')
  expect(it.find([1n, 2n, 3n, 4n, 5n])[0]).toBe(2)
  it.store(0, [3n], 102n)
  expect(it.find([1n, 2n, 3n, 4n, 5n])[0]).toBe(5)
})

it('follows the worked example with two ranks and a branch', () => {
  const it = model()
  it.store(0, [1n, 2n, 3n, 4n, 5n, 6n])
  it.store(1, [1n, 2n, 3n])
  it.store(1, [7n, 8n], 103n)
  expect(it.find([1n, 2n, 3n, 4n, 5n, 6n])).toEqual([6, 3, 0, 0])
  expect(it.find([1n, 2n, 3n, 7n, 8n])).toEqual([3, 5, 0, 0])
  expect(it.store(1, [9n], 106n)).toBe('parent_block_not_found')
  expect(it.index.stats()).toMatchObject({ heldBlocks: 11, distinctBlocks: 8, holderSets: 1 })
})

it('says what became of each event', () => {
  const it = model()
  expect(it.store(0, [1n, 2n])).toBe('ok')
  expect(it.store(0, [1n, 2n])).toBe('duplicate_store')
  expect(it.store(0, [3n], 102n, [102n])).toBe('invalid_block')
  expect(it.store(0, [], 999n)).toBe('parent_block_not_found')
  expect(it.store(0, [], 102n)).toBe('ok')
  expect(it.remove(0, [999n, 102n])).toBe('block_not_found')
  expect(it.find([1n, 2n])[0]).toBe(1)
  expect(it.clear(0)).toBe('ok')
  expect(it.index.stats()).toMatchObject({ heldBlocks: 0, distinctBlocks: 0, holderSets: 0 })
})

it('lists only what can be replayed, parents first, and names every name', () => {
  const it = model()
  it.store(0, [1n, 2n, 3n, 4n])
  it.store(0, [2n], 101n, [200n]) // a second name for block 2
  it.remove(0, [103n])
  const facts = [...it.index.facts(0)].map((fact) => [fact.hasParent, fact.parentLo, fact.externalLo])
  expect(facts).toEqual([
    [false, 0, 101],
    [true, 101, 102],
    [true, 101, 200],
  ])
  expect(it.index.namesAt(0, [1n, 2n])).toEqual([102n, 200n])
})

it('reads its own snapshot back', () => {
  const it = model()
  it.store(0, [1n, 2n, 2n ** 63n])
  it.store(3, [1n])
  const copy = new NaiveIndex()
  copy.restore(it.index.snapshot())
  const depths = new Uint32Array(4)
  const last = toHashColumn([0n, 0n, 0n, 0n])
  expect(copy.find(toHashColumn([1n, 2n, 2n ** 63n]), 3, depths, last)).toBe(3)
  expect([...depths]).toEqual([3, 0, 0, 1])
  expect(toBigInts(last)).toEqual([2n ** 63n + 100n, 0n, 0n, 101n])
})
