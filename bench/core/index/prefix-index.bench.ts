// Question: how many block hashes per CPU second does the index take, find and drop, and how long does a lookup take?
import { WasmIndex } from '../../../src/core/index/index.js'
import { type Bench, type BenchContext, defineBench, percentile } from '../../harness.js'
import { findTimes, replay } from './replay.js'
import { agents, mooncake, type Stream } from './streams.js'

const seeds = { seedLo: 0x9e3779b9, seedHi: 0x7f4a7c15 }
const wasm = () => WasmIndex.create(seeds)!

export const benches: Bench[] = [
  defineBench('index.M16', 'the conversation trace on 16 workers', (context) =>
    stream(context, 'M16', mooncake(16, 1, context.size(60, 20_000))),
  ),
  defineBench('index.M128', 'the conversation trace twice on 128 workers', (context) =>
    stream(context, 'M128', mooncake(128, 2, context.size(60, 20_000))),
  ),
  defineBench('index.agents', 'deep shared trees with short bursts on 32 workers', (context) =>
    stream(context, 'agents', agents(32, context.size(200, 60_000))),
  ),
]

async function stream(context: BenchContext, name: string, it: Stream): Promise<void> {
  let index = wasm()
  const { wasm: timing } = await context.compare({
    wasm: () => {
      index = wasm()
      return replay(index, it)
    },
  })
  const { spread, checksum } = timing
  const id = `index.${name}.wasm`
  context.report({
    id: `${id}.mops`,
    value: (it.blockOps / timing.cpuNs) * 1000,
    unit: 'M block ops/CPU s',
    spread,
    checksum,
  })
  const { bytesUsed, heldBlocks } = index.stats()
  context.report({ id: `${id}.bytes_per_block`, value: bytesUsed / heldBlocks, unit: 'B', spread: 0, checksum })
  const times = findTimes(wasm(), it)
  for (const [label, p] of [
    ['p50', 0.5],
    ['p99', 0.99],
  ] as const) {
    context.report({
      id: `${id}.find_${label}_us`,
      value: percentile(times, p) / 1000,
      unit: 'us',
      spread: 0,
      checksum,
    })
  }
}
