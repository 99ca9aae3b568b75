/**
 * `npm run soak:index [-- --millions N]`: N million block operations (200 unless told) at a constant residency of 1 M held
 * blocks. Fails when the memory in use after the last 10 M differs by more than 2 % from that after the first 10 M, or
 * when a block is left after the end.
 */
import { parseArgs } from 'node:util'
import { ApplyReport, createPrefixIndex, EventBatch } from '../src/core/index/index.js'

const { values } = parseArgs({ options: { millions: { type: 'string', default: '200' } } })
const total = Number(values.millions) * 1e6
const [ranks, residency, checkEvery] = [64, 1_024_000, 10_000_000]

interface Run {
  readonly first: number
  readonly count: number
}

const index = createPrefixIndex({ seedLo: 1, seedHi: 2, implementation: 'wasm' })
const report = new ApplyReport()
const batch = new EventBatch(1 << 16)
let state = 4711
let [next, operations] = [1, 0]
/** What each rank holds: a cache of constant size, as an engine has it. */
const runs: Run[][] = Array.from({ length: ranks }, () => [])
const heldBy = new Uint32Array(ranks)
const bytes: number[] = []
while (operations < total) {
  step()
  if (Math.floor(operations / checkEvery) > bytes.length) {
    bytes.push(index.stats().bytesUsed)
    console.log(`${bytes.length * 10} M operations: ${index.stats().heldBlocks} held, ${bytes.at(-1)} bytes`)
  }
}
const drift = Math.abs(bytes.at(-1)! / bytes[0]! - 1)
for (let rank = 0; rank < ranks; rank++) index.clearRank(rank)
const { heldBlocks, distinctBlocks, holderSets } = index.stats()
console.log(`drift ${(100 * drift).toFixed(2)} %, left after the drain: ${heldBlocks + distinctBlocks + holderSets}`)
process.exit(drift <= 0.02 && heldBlocks + distinctBlocks + holderSets === 0 && report.countOf('ok') > 0 ? 0 : 1)

/** Short bursts and long prompts, one in four on two ranks. */
function step(): void {
  const count = random(10) === 0 ? 400 + random(800) : 1 + random(60)
  const rank = random(ranks)
  store(rank, count)
  if (random(4) === 0) store((rank + 1 + random(ranks - 1)) % ranks, count)
  next += count
  if (batch.blockCount < 4096) return
  index.apply(batch, report)
  batch.clear()
}

/** Drops random runs of the rank until the new one fits. */
function store(rank: number, count: number): void {
  const own = runs[rank]!
  while (heldBy[rank]! + count > residency / ranks) {
    const at = random(own.length)
    const gone = own[at]!
    own[at] = own.at(-1)!
    own.pop()
    const to = batch.openRemoved(rank, gone.count)
    for (let block = 0; block < gone.count; block++) write(to + 2 * block, gone.first + gone.count - 1 - block)
    heldBy[rank]! -= gone.count
    operations += gone.count
  }
  const at = batch.openStored(rank, count, false, 0, 0)
  for (let block = 0; block < count; block++) {
    write(at + 2 * block, next + block)
    write(at + 2 * count + 2 * block, next + block)
  }
  own.push({ first: next, count })
  heldBy[rank]! += count
  operations += count
}

function write(at: number, id: number): void {
  batch.words[at] = Math.imul(id, 0x9e3779b1)
  batch.words[at + 1] = id
}

function random(below: number): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
  return Math.floor((state / 2 ** 32) * below)
}
