// Goal: ranks of thousands of names, whose tables move to other sizes all the time, hold what plain sets hold. The other random tests
// have collisions; these have tables of many pages that others used before, moves that another move follows, and memory that runs out.
import { expect, it } from 'vitest'
import { toHashColumn } from '../protocol/index.js'
import { ApplyReport } from './apply-report.js'
import { randomOf } from './differential.case.js'
import { EventBatch } from './event-batch.js'
import { WasmIndex } from './wasm-index.js'

const steps = 250

it.each([
  { seed: 1, maxBytes: undefined, clearBlocksMax: undefined },
  { seed: 2, maxBytes: undefined, clearBlocksMax: 700 },
  { seed: 3, maxBytes: 3 << 20, clearBlocksMax: 700 },
])('tables that move: seed $seed, $maxBytes bytes', ({ seed, maxBytes, clearBlocksMax }) => {
  const random = randomOf(seed)
  const index = WasmIndex.create({
    seedLo: seed,
    seedHi: 7,
    ...(maxBytes === undefined ? {} : { maxBytes }),
    ...(clearBlocksMax === undefined ? {} : { clearBlocksMax }),
  })!
  const held = Array.from({ length: 4 }, () => new Set<number>())
  const wanted = held.map(() => random(9000))
  let names = 0
  for (let step = 0; step < steps; step++) {
    const rank = random(held.length)
    const own = held[rank]!
    if (random(20) === 0) wanted[rank] = random(3) === 0 ? random(40) : random(12_000)
    if (random(100) === 0) {
      expect(index.clearRank(rank)).toBe(own.size)
      own.clear()
    } else if (own.size < wanted[rank]! ? random(10) > 0 : random(10) === 0) store(rank, 1 + random(900))
    else remove(rank, 1 + random(900))
    index.drain(random(400))
    expect(index.blocksOf(rank)).toBe(own.size)
    if (step % 100 === 99) for (let it = 0; it < held.length; it++) compare(it)
  }
  for (let rank = 0; rank < held.length; rank++) index.clearRank(rank)
  index.drain(Number.POSITIVE_INFINITY)
  expect(index.stats()).toMatchObject({ heldBlocks: 0, distinctBlocks: 0, aliases: 0 })

  /** Each block at the root; a quarter of the time blocks that others may hold, too. */
  function store(rank: number, count: number): void {
    const first = names > 2000 && random(4) === 0 ? random(names - count) : names
    names = Math.max(names, first + count)
    const batch = new EventBatch(16)
    for (let id = first; id < first + count; id++)
      batch.stored(rank, undefined, nameOf(id), toHashColumn([BigInt(id) + 5n]))
    const report = new ApplyReport()
    index.apply(batch, report)
    for (let id = first; id < first + count; id++) held[rank]!.add(id)
    if (report.countOf('capacity_exhausted') === 0) return
    expect(maxBytes).toBeDefined()
    for (const [it, own] of held.entries()) for (const id of own) if (!index.holds(it, nameOf(id))) own.delete(id)
  }

  function remove(rank: number, count: number): void {
    const own = held[rank]!
    const ids = [...own].filter(() => random(own.size) < count)
    if (ids.length === 0) return
    for (const id of ids) own.delete(id)
    const batch = new EventBatch(16)
    batch.removed(rank, toHashColumn(ids.map(externalOf)))
    const report = new ApplyReport()
    index.apply(batch, report)
    expect(report.statusOf(0)).toBe('ok')
  }

  function compare(rank: number): void {
    const own = held[rank]!
    let wrong = 0
    for (const id of own) if (!index.holds(rank, nameOf(id))) wrong++
    for (let asked = 0; asked < 1000; asked++) {
      const id = random(names)
      if (index.holds(rank, nameOf(id)) !== own.has(id)) wrong++
    }
    expect(wrong).toBe(0)
  }
})

function nameOf(id: number): Uint32Array {
  return toHashColumn([externalOf(id)])
}

function externalOf(id: number): bigint {
  return BigInt.asUintN(64, BigInt(id + 1) * 0x9e3779b97f4a7c15n)
}
