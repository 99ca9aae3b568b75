/**
 * `npm run fuzz:index -- [--minutes N] [--seed S] [--runs R]`: the differential property of core/index with fresh seeds for
 * as long as asked, over every implementation. One seed is one run: `--seed S --runs 1` repeats it.
 */
import { parseArgs } from 'node:util'
import { Differential, type Shape } from '../src/core/index/differential.case.js'
import type { PrefixIndex } from '../src/core/index/index.js'
import { createPrefixIndex } from '../src/core/index/index.js'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '1' },
    seed: { type: 'string', default: `${Date.now() % 2 ** 31}` },
    runs: { type: 'string', default: 'Infinity' },
  },
})
const deadline = Date.now() + Number(values.minutes) * 60_000
const first = Number(values.seed)
const steps = 250
const shapes: readonly Shape[] = [
  { ranks: 4, locals: 2, blocksMax: 30, names: 'chained' },
  { ranks: 4, locals: 3, blocksMax: 150, names: 'per rank' },
  { ranks: 5, locals: 4, blocksMax: 25, names: 'clashing' },
  { ranks: 70, locals: 3, blocksMax: 40, names: 'clashing' },
  { ranks: 130, locals: 300, blocksMax: 200, names: 'chained' },
  { ranks: 3, locals: 900, blocksMax: 600, names: 'per rank' },
  { ranks: 2, locals: 1, blocksMax: 300, names: 'clashing' },
]

let [operations, seed] = [0, first]
for (; seed < first + Number(values.runs) && Date.now() < deadline; seed++) {
  try {
    operations += run(seed)
  } catch (cause) {
    console.error(`mismatch: npm run fuzz:index -- --seed ${seed} --runs 1`)
    throw cause
  }
}
console.log(`${operations} operations, seeds ${first} to ${seed - 1}, no mismatch and nothing left after any drain`)

/** Answers how many block hashes, events and lookups were compared. */
function run(it: number): number {
  const shape = shapes[it % shapes.length]!
  const isOne = it % 4 !== 3
  const both = new Differential(indexOf(it), shape, it)
  for (let step = 0; step < steps; step++) {
    both.step()
    both.find()
    if (step % 50 === 49) both.audit(isOne)
    if (step % 100 === 75) both.rewrite()
    if (step === 160) both.drain()
  }
  both.audit(isOne)
  both.drain()
  return both.counts.blocks + both.counts.events + both.counts.finds
}

/** Half of the runs take the WebAssembly core, a quarter the twin, a quarter three shards. */
function indexOf(it: number): PrefixIndex {
  const seeds = { seedLo: it, seedHi: Math.imul(it, 0x9e3779b1) }
  if (it % 4 === 3) return createPrefixIndex({ ...seeds, shards: 3 })
  return createPrefixIndex({ ...seeds, implementation: it % 4 === 2 ? 'ts' : 'wasm' })
}
