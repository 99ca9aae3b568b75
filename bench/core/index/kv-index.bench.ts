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
  defineBench(
    'kv_index.turns',
    'how long does the index hold the loop when much ends, leaves or comes at once?',
    (context) => {
      const blocks = context.size(20_000, 1_000_000)
      const report = (what: string, round: () => Iterable<unknown>) =>
        context.report({ id: `kv_index.turns.${what}.ms_max`, unit: 'ms', spread: 0, ...longestTurn(round) })

      report('expire', () => {
        const { kv, remember } = steppingIndex({ approximateTtlMs: 1000 })
        remember(0, blocks, recordedBlocks)
        return turns(
          () => kv.nextExpiryMs !== undefined,
          () => kv.expire(1e6, stepBlocks),
        )
      })
      report('leave_predicted', () => {
        const { kv, remember } = steppingIndex({ approximateTtlMs: 1000 })
        remember(0, blocks, recordedBlocks)
        return turnsOfLeaving(kv)
      })
      report('leave_reported', () => {
        const { kv, apply } = steppingIndex({})
        for (let from = 0; from < blocks; from += recordedBlocks) apply(from, recordedBlocks)
        return turnsOfLeaving(kv)
      })
      // Every block is a prompt of its own.
      report('remember', () => {
        const { remember } = steppingIndex({ approximateTtlMs: 1e9 })
        let from = -promptsPerTurn
        return turns(
          () => (from += promptsPerTurn) < blocks,
          () => remember(from, promptsPerTurn, 1),
        )
      })
    },
  ),
]

/** What the living router gives its index, and what it takes away in one turn (src/routing/build-index.ts). */
const stepBlocks = 4096
const recordedBlocks = 2048
const promptsPerTurn = 64

/** The longest of several turns, in CPU milliseconds; of three rounds the best, for what others do only adds to it. */
function longestTurn(round: () => Iterable<unknown>): { value: number; checksum: string } {
  let best = Number.POSITIVE_INFINITY
  let turns = 0
  for (let at = 0; at < 3; at++) {
    let longest = 0
    turns = 0
    for (const steps = round()[Symbol.iterator](); ; turns++) {
      const started = process.cpuUsage()
      const { done } = steps.next()
      const { user, system } = process.cpuUsage(started)
      if (done) break
      longest = Math.max(longest, (user + system) / 1000)
    }
    best = Math.min(best, longest)
  }
  return { value: best, checksum: String(turns) }
}

function* turns(hasMore: () => boolean, turn: () => unknown): Iterable<unknown> {
  while (hasMore()) yield turn()
}

function* turnsOfLeaving(kv: KvIndex): Iterable<unknown> {
  yield kv.resetRank(0)
  yield* turns(
    () => kv.drain(0) > 0,
    () => kv.drain(stepBlocks),
  )
}

/** An index as the living router makes it, with one rank; blocks are numbered, and so are their hashes. */
function steppingIndex(options: { approximateTtlMs?: number }): {
  kv: KvIndex
  remember: (from: number, blocks: number, perPrompt: number) => void
  apply: (from: number, blocks: number) => void
} {
  const ranks = new RankTable()
  ranks.intern(0n, 0)
  const device = createPrefixIndex({ ...seeds, clearBlocksMax: 256 })
  const kv = new KvIndex({ ranks, device, startMs: 0, seed: 1, stepBlocks, ...options })
  const hashesOf = (from: number, count: number) =>
    Uint32Array.from({ length: 2 * count }, (_, word) => Math.imul(2 * from + word + 1, 0x9e37_79b1))
  return {
    kv,
    remember(from, blocks, perPrompt) {
      const hashes = hashesOf(from, blocks)
      for (let at = 0; at < blocks; at += perPrompt) {
        const prompt = hashes.subarray(2 * at, 2 * (at + perPrompt))
        kv.recordRoutingDecision(0, prompt, prompt, 0)
      }
    },
    apply(from, blocks) {
      const batch = new TieredBatch()
      const hashes = hashesOf(from, blocks)
      batch.device.stored(0, undefined, hashes, hashes, blocks)
      kv.apply(batch)
    },
  }
}

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
