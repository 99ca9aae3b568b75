// One suite and one property over every implementation, alone and in shards.
import { expect, it } from 'vitest'
import { branchConformance } from './branches.case.js'
import { Differential, type Shape } from './differential.case.js'
import { driver, indexConformance, type MakeIndex, range } from './prefix-index.case.js'
import type { Shard } from './shard.js'
import { ShardedIndex } from './sharded-index.js'
import { TsIndex } from './ts-index.js'
import { WasmIndex } from './wasm-index.js'

const seeds = { seedLo: 0x1234, seedHi: 0x5678 }
const wasm: MakeIndex = (options = {}) => WasmIndex.create({ ...seeds, ...options })!
const inSteps: MakeIndex = (options = {}) => wasm({ clearBlocksMax: 3, ...options })
const ts: MakeIndex = (options = {}) => new TsIndex({ ...seeds, ...options })
const sharded =
  (count: number): MakeIndex =>
  (options = {}) =>
    new ShardedIndex(count, options, () => WasmIndex.create({ ...seeds, ...options, isShard: true })!)
const shardedTs: MakeIndex = (options = {}) =>
  new ShardedIndex(3, options, () => new TsIndex({ ...seeds, ...options, isShard: true }))

const implementations: Record<string, MakeIndex> = {
  wasm,
  ts,
  '1 shard': sharded(1),
  '3 shards': sharded(3),
  '3 ts shards': shardedTs,
}
for (const [name, make] of Object.entries(implementations)) {
  indexConformance(name, make, !name.startsWith('3'))
  branchConformance(name, make)
}

it('deals ranks to shards in turn, so that ranks of one worker lie in different ones', () => {
  const shards: Shard[] = []
  const index = new ShardedIndex(3, seeds, () => {
    shards.push(WasmIndex.create({ ...seeds, isShard: true })!)
    return shards.at(-1)!
  })
  const { store, find } = driver(index)
  for (let rank = 0; rank < 7; rank++) store(rank, range(1, 10 + rank))
  expect(find(range(1, 20)).slice(0, 7)).toEqual(range(10, 16))
  for (const [number, shard] of shards.entries()) {
    for (let rank = 0; rank < 7; rank++) expect(shard.blocksOf(rank)).toBe(rank % 3 === number ? 10 + rank : 0)
  }
})

it('a snapshot written by one implementation is read by the other', () => {
  for (const [one, two] of [
    [wasm, ts],
    [ts, wasm],
  ] as const) {
    const [from, to] = [one(), two()]
    const both = new Differential(from, { ranks: 5, locals: 3, blocksMax: 90, names: 'clashing' }, 4711)
    for (let step = 0; step < 200; step++) both.step()
    to.restore(from.snapshot())
    both.replaceReal(to)
    for (let step = 0; step < 50; step++) {
      both.find()
      both.step()
    }
    both.audit()
    both.drain()
  }
})

it('refuses a snapshot of another number of shards', () => {
  expect(() => sharded(3)().restore(sharded(1)().snapshot())).toThrow('it has 1 shards, and this index 3')
})

it.each([0, 1.5, -1, 2 ** 32])('refuses a cap of %s blocks', (maxBlocks) => {
  for (const make of [wasm, ts, sharded(3)]) expect(() => make({ maxBlocks })).toThrow('at least 1')
})

/** Fresh seeds every time; a failure names its seed. */
const started = Date.now()
const shapes: readonly Shape[] = [
  { ranks: 4, locals: 3, blocksMax: 20, names: 'chained' },
  { ranks: 4, locals: 2, blocksMax: 150, names: 'per rank' },
  { ranks: 5, locals: 4, blocksMax: 20, names: 'clashing' },
  { ranks: 70, locals: 3, blocksMax: 30, names: 'clashing' },
  { ranks: 130, locals: 300, blocksMax: 150, names: 'chained' },
]

const makers = [
  { make: wasm, isOne: true },
  { make: inSteps, isOne: true },
  { make: ts, isOne: true },
  { make: () => sharded(3)({ clearBlocksMax: 3 }), isOne: false },
  { make: shardedTs, isOne: false },
] as const

it.each(shapes)('answers as plain sets do ($ranks ranks, $locals locals, $names names)', (shape) => {
  for (let round = 0; round < 10; round++) {
    const { make, isOne } = makers[round % makers.length]!
    const index = make()
    const seed = (started + round * 7919) | 0
    const both = new Differential(index, shape, seed)
    try {
      for (let step = 0; step < 45; step++) {
        both.step()
        both.find()
        if (step % 20 === 19) both.audit(isOne)
        if (step === 40) both.rewrite()
      }
      both.drain()
    } catch (cause) {
      throw new Error(`seed ${seed}`, { cause })
    }
  }
})
