// Question: what does the door add to the exact index behind it, and what does keeping a routing decision cost?
// Shape: 1,000 conversations of 256 blocks on 128 ranks, the first 64 shared by all; lookups of whole prompts.
import { ApplyReport, createPrefixIndex, EventBatch, KvIndex, TieredBatch } from '../../../src/core/index/index.js'
import { newMatchColumns, RankTable } from '../../../src/core/protocol/index.js'
import type { Bench } from '../../harness.js'
import { defineBench } from '../../harness.js'

const rankCount = 128
const blocksPerPrompt = 256
const sharedBlocks = 64
const seeds = { seedLo: 1, seedHi: 2 }

export const benches: Bench[] = [
  defineBench(
    'kv_index',
    'what does KvIndex add to the exact index, and what does a decision cost?',
    async (context) => {
      const prompts = newPrompts(context.size(20, 1000))
      const rounds = context.size(1, 20)
      const ranks = new RankTable()
      for (let rank = 0; rank < rankCount; rank++) ranks.intern(BigInt(rank), 0)
      const device = createPrefixIndex(seeds)
      const kv = new KvIndex({ ranks, device, startMs: 0, seed: 1 })
      const batch = new TieredBatch()
      for (const [index, prompt] of prompts.entries())
        batch.device.stored(index % rankCount, undefined, prompt, prompt, blocksPerPrompt)
      kv.apply(batch)

      const columns = newMatchColumns()
      const depths = new Uint32Array(rankCount)
      const { door, bare } = await context.compare({
        door: () => {
          let sum = 0
          for (let round = 0; round < rounds; round++)
            for (const prompt of prompts) {
              kv.findMatches(prompt, blocksPerPrompt, columns)
              for (let rank = 0; rank < rankCount; rank++) sum += columns.device[rank]!
            }
          return sum
        },
        bare: () => {
          let sum = 0
          for (let round = 0; round < rounds; round++)
            for (const prompt of prompts) {
              depths.fill(0)
              device.find(prompt, blocksPerPrompt, depths)
              for (let rank = 0; rank < rankCount; rank++) sum += depths[rank]!
            }
          return sum
        },
      })
      const finds = rounds * prompts.length
      const us = (it: { cpuNs: number }) => it.cpuNs / 1000 / finds
      context.report({ id: 'kv_index.find.us', value: us(door), unit: 'us', ...spreadOf(door) })
      context.report({ id: 'kv_index.find_bare.us', value: us(bare), unit: 'us', ...spreadOf(bare) })

      const again = new KvIndex({ ranks, device: createPrefixIndex(seeds), approximateTtlMs: 1e9, startMs: 0, seed: 1 })
      let nowMs = 0
      const { decide, refresh, store } = await context.compare(
        {
          decide: () => {
            const index = createPrefixIndex(seeds)
            const predicting = new KvIndex({ ranks, device: index, approximateTtlMs: 1e9, startMs: 0, seed: 1 })
            for (const [at, prompt] of prompts.entries())
              predicting.recordRoutingDecision(at % rankCount, prompt, prompt, at)
            return index.stats().heldBlocks
          },
          refresh: () => {
            for (const [at, prompt] of prompts.entries())
              again.recordRoutingDecision(at % rankCount, prompt, prompt, (nowMs += 10))
            return again.stats().device.heldBlocks
          },
          store: () => {
            const index = createPrefixIndex(seeds)
            const one = new EventBatch()
            const report = new ApplyReport()
            for (const [at, prompt] of prompts.entries()) {
              one.clear()
              one.stored(at % rankCount, undefined, prompt, prompt, blocksPerPrompt)
              index.apply(one, report)
            }
            return index.stats().heldBlocks
          },
        },
        { runs: context.isSmoke ? 1 : 7 },
      )
      const blocks = prompts.length * blocksPerPrompt
      context.report({
        id: 'kv_index.decision.ns_per_block',
        value: decide.cpuNs / blocks,
        unit: 'ns',
        ...spreadOf(decide),
      })
      context.report({
        id: 'kv_index.refresh.ns_per_block',
        value: refresh.cpuNs / blocks,
        unit: 'ns',
        ...spreadOf(refresh),
      })
      context.report({ id: 'kv_index.store.ns_per_block', value: store.cpuNs / blocks, unit: 'ns', ...spreadOf(store) })
    },
  ),
]

function spreadOf(timing: { spread: number; checksum: string }): { spread: number; checksum: string } {
  return { spread: timing.spread, checksum: timing.checksum }
}

/** One column serves as local and external hashes: every block of every conversation has its own, but the shared ones. */
function newPrompts(count: number): Uint32Array[] {
  return Array.from({ length: count }, (_, index) =>
    Uint32Array.from({ length: 2 * blocksPerPrompt }, (_word, word) => {
      const owner = word < 2 * sharedBlocks ? 0 : index + 1
      return Math.imul(word + 1, 0x9e37_79b1) ^ Math.imul(owner, 0x85eb_ca6b)
    }),
  )
}
