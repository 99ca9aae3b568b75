// Question: how many block hashes per CPU second does the index take, find and drop, how long does a lookup take, and
// what does a block cost?
import { ApplyReport, createPrefixIndex, EventBatch, type PrefixIndex } from '../../../src/core/index/index.js'
import { type Bench, type BenchContext, defineBench, percentile, summarise } from '../../harness.js'
import { LargeFleet } from './large.js'
import { findTimes, replay } from './replay.js'
import { agents, externalSalt, localSalt, mooncake, type Stream, writeHash } from './streams.js'

const seeds = { seedLo: 0x9e3779b9, seedHi: 0x7f4a7c15 }
const wasm = (): PrefixIndex => createPrefixIndex({ ...seeds, implementation: 'wasm' })
const ts = (): PrefixIndex => createPrefixIndex({ ...seeds, implementation: 'ts' })

export const benches: Bench[] = [
  defineBench(
    'index.M16',
    'the conversation trace on 16 workers, and the TypeScript twin beside it',
    async (context) => {
      const it = mooncake(16, 1, context.size(60, 20_000))
      const timings = await context.compare({ wasm: () => replay(wasm(), it), ts: () => replay(ts(), it) })
      reportStream(context, 'M16', it, timings.wasm)
      const { spread, checksum } = timings.ts
      context.report({
        id: 'index.M16.ts.mops',
        value: mops(it.blockOps, timings.ts.cpuNs),
        unit: mopsUnit,
        spread,
        checksum,
      })
      const ratio = timings.ts.cpuNs / timings.wasm.cpuNs
      context.report({ id: 'index.M16.wasm_over_ts', value: ratio, unit: 'x', spread, checksum })
    },
  ),
  defineBench('index.M128', 'the conversation trace twice on 128 workers', async (context) => {
    const it = mooncake(128, 2, context.size(60, 20_000))
    reportStream(context, 'M128', it, (await context.compare({ wasm: () => replay(wasm(), it) })).wasm)
  }),
  defineBench('index.agents', 'deep shared trees with short bursts on 32 workers', async (context) => {
    const it = agents(32, context.size(200, 60_000))
    reportStream(context, 'agents', it, (await context.compare({ wasm: () => replay(wasm(), it) })).wasm)
  }),
  defineBench('index.S10M', '1,000 workers and 9.8 M held blocks, and snapshots of them', large),
  defineBench('index.decode', 'events of one block each, through the batched path', decode),
]

const mopsUnit = 'M block ops/CPU s'

function mops(blockOps: number, cpuNs: number): number {
  return (blockOps / cpuNs) * 1000
}

function reportStream(
  context: BenchContext,
  name: string,
  it: Stream,
  timing: { cpuNs: number; spread: number; checksum: string },
): void {
  const { spread, checksum } = timing
  const id = `index.${name}.wasm`
  context.report({ id: `${id}.mops`, value: mops(it.blockOps, timing.cpuNs), unit: mopsUnit, spread, checksum })
  const index = wasm()
  const times = findTimes(index, it)
  const { bytesUsed, heldBlocks } = index.stats()
  context.report({ id: `${id}.bytes_per_block`, value: bytesUsed / heldBlocks, unit: 'B', spread: 0, checksum })
  reportTimes(context, id, times, checksum)
  reportTimes(context, `${id}.in_place`, findTimes(wasm(), it, true), checksum)
}

function reportTimes(context: BenchContext, id: string, sorted: Float64Array, checksum: string): void {
  context.report({ id: `${id}.find_p50_us`, value: percentile(sorted, 0.5) / 1000, unit: 'us', spread: 0, checksum })
  context.report({ id: `${id}.find_p99_us`, value: percentile(sorted, 0.99) / 1000, unit: 'us', spread: 0, checksum })
}

function cpuNs(run: () => void): number {
  const started = process.cpuUsage()
  run()
  const used = process.cpuUsage(started)
  return (used.user + used.system) * 1000
}

/** One fill; every slice of turns is a sample. */
function large(context: BenchContext): void {
  const index = wasm()
  const fleet = new LargeFleet(index, context.size(10, 1000))
  fleet.fill()
  const rates: number[] = []
  const times: number[] = []
  let checksum = 0
  for (let slice = 0; slice < 6; slice++) {
    const turns = fleet.turns(context.size(10, 5000))
    const taken = slice === 5 ? times : undefined
    const rate = mops(
      turns.blockOps,
      cpuNs(() => (checksum += fleet.run(turns, taken))),
    )
    if (!taken && slice > 0) rates.push(rate)
  }
  const { median, spread } = summarise(rates)
  const sum = `${checksum}`
  context.report({ id: 'index.S10M.wasm.mops', value: median, unit: mopsUnit, spread, checksum: sum })
  reportTimes(context, 'index.S10M.wasm', Float64Array.from(times).sort(), sum)
  const { bytesUsed, heldBlocks } = index.stats()
  context.report({
    id: 'index.S10M.wasm.bytes_per_block',
    value: bytesUsed / heldBlocks,
    unit: 'B',
    spread: 0,
    checksum: sum,
  })
  snapshots(context, index)
}

function snapshots(context: BenchContext, index: PrefixIndex): void {
  let image: Uint8Array = new Uint8Array()
  const writes: number[] = []
  const restores: number[] = []
  for (let time = 0; time < context.size(1, 3); time++) {
    writes.push(cpuNs(() => (image = index.snapshot())) / 1e9)
    const copy = wasm()
    restores.push(cpuNs(() => copy.restore(image)) / 1e9)
    if (copy.stats().heldBlocks !== index.stats().heldBlocks) throw new Error('the snapshot lost blocks')
  }
  const checksum = `${image.length}`
  for (const [name, samples] of [
    ['write_s', writes],
    ['restore_s', restores],
  ] as const) {
    const { median, spread } = summarise(samples)
    context.report({ id: `index.snapshot10M.${name}`, value: median, unit: 'CPU s', spread, checksum })
  }
  const perBlock = image.length / index.stats().heldBlocks
  context.report({ id: 'index.snapshot10M.bytes_per_block', value: perBlock, unit: 'B', spread: 0, checksum })
}

/** 64 ranks decode 64 sequences each, in batches of 256 events: one new block, one old one gone. */
function decode(context: BenchContext): void {
  const index = wasm()
  const report = new ApplyReport()
  const [ranks, sequences, window] = [64, 64, 100]
  const rounds = context.size(110, 300)
  const rates: number[] = []
  const batch = new EventBatch(1 << 16)
  const parent = new Uint32Array(2)
  let events = 0
  for (let round = 0; round < rounds; round++) {
    const batches: EventBatch[] = []
    for (let sequence = 0; sequence < ranks * sequences; sequence++) {
      const id = sequence * 1000
      if (batch.eventCount >= 256) batches.push(closed(batch))
      writeHash(parent, 0, id + round - 1, externalSalt)
      const at = batch.openStored(sequence % ranks, 1, round > 0, parent[0]!, parent[1]!)
      writeHash(batch.words, at, id + round, externalSalt)
      writeHash(batch.words, at + 2, id + round, localSalt)
      if (round >= window)
        writeHash(batch.words, batch.openRemoved(sequence % ranks, 1), id + round - window, externalSalt)
    }
    batches.push(closed(batch))
    const count = batches.reduce((sum, it) => sum + it.eventCount, 0)
    const ns = cpuNs(() => batches.forEach((it) => index.apply(it, report)))
    if (round > window) rates.push(ns / count)
    events += count
  }
  if (report.countOf('ok') !== events) throw new Error('the index refused events')
  const { median, spread } = summarise(rates)
  context.report({ id: 'index.decode.wasm.ns_per_event', value: median, unit: 'CPU ns', spread, checksum: `${events}` })
}

function closed(batch: EventBatch): EventBatch {
  const it = new EventBatch(batch.wordCount)
  it.words.set(batch.words.subarray(0, batch.wordCount))
  it.wordCount = batch.wordCount
  it.eventCount = batch.eventCount
  batch.clear()
  return it
}
