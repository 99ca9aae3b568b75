// Question: what does a tier below the device cost, per block that engines move there and per prompt that is looked up?
// Shape: every prompt of 512 blocks lies on 16 of 128 ranks, which the device has covered to different depths.
import { RankTable } from '../../../src/core/protocol/index.js'
import { ExpiryQueue } from '../../../src/core/index/expiry-queue.js'
import { LowerTier } from '../../../src/core/index/lower-tier.js'
import { TierOwners } from '../../../src/core/index/tier-owners.js'
import { TierWalk } from '../../../src/core/index/tier-walk.js'
import type { Bench } from '../../harness.js'
import { defineBench } from '../../harness.js'

const rankCount = 128
const holdersPerPrompt = 16
const blocksPerPrompt = 512

interface Prompt {
  readonly external: Uint32Array
  readonly local: Uint32Array
  readonly ranks: readonly number[]
}

export const benches: Bench[] = [
  defineBench('tiers', 'what does a lower tier cost per block and per lookup?', async (context) => {
    const prompts = newPrompts(context.size(4, 200))
    const blockOps = prompts.length * holdersPerPrompt * blocksPerPrompt
    const ranks = new RankTable()
    for (let rank = 0; rank < rankCount; rank++) ranks.intern(BigInt(rank), 0)
    const owners = new TierOwners(ranks)
    const full = filled(prompts, owners)
    const walk = new TierWalk()

    const timings = await context.compare(
      {
        store: () => filled(prompts, owners).heldBlocks,
        storeAndRemove: () => {
          const tier = filled(prompts, owners)
          for (const { external, ranks } of prompts)
            for (const rank of ranks) tier.remove(owners.ofRank(rank), external, blocksPerPrompt)
          return tier.heldBlocks
        },
        walk: () => walkAll(prompts, full, owners, walk),
        expiry: () => {
          const queue = new ExpiryQueue({ ttlMs: 1000, startMs: 0, seed: 1 })
          for (const [index, { external, ranks }] of prompts.entries())
            for (const rank of ranks) queue.start(rank, external, blocksPerPrompt, 10 * index)
          return queue.size
        },
      },
      { sameChecksum: false },
    )
    const { store, storeAndRemove, walk: walked, expiry } = timings
    const perBlock = (cpuNs: number) => cpuNs / blockOps
    const figure = (id: string, value: number, unit: string, of: { spread: number; checksum: string }) =>
      context.report({ id, value, unit, spread: of.spread, checksum: of.checksum })
    figure('tiers.store.ns_per_block', perBlock(store.cpuNs), 'ns', store)
    figure('tiers.store_remove.ns_per_block', perBlock(storeAndRemove.cpuNs), 'ns', storeAndRemove)
    figure('tiers.walk.us_per_prompt', walked.cpuNs / 1000 / prompts.length, 'us', walked)
    figure('tiers.walk.ns_per_hit', walked.cpuNs / Number(walked.checksum), 'ns', walked)
    figure('tiers.expiry_start.ns_per_block', perBlock(expiry.cpuNs), 'ns', expiry)
    const bytes = full.bytesUsed / full.heldBlocks
    figure('tiers.bytes_per_block', bytes, 'B', { spread: 0, checksum: String(full.heldBlocks) })
  }),
  defineBench('tiers.turns', 'the longest call that stores 512 blocks, up to a million', ({ size, report }) => {
    const chains = size(20, 2048)
    let longestMs = Number.POSITIVE_INFINITY
    let checksum = ''
    for (let round = 0; round < 3; round++) {
      const tier = new LowerTier({ seed: 1, blocksMax: 1e9 })
      let longestOfRound = 0
      for (let chain = 0; chain < chains; chain++) {
        const hashes = Uint32Array.from({ length: 2 * blocksPerPrompt }, (_, word) => 1024 * chain + word)
        const started = process.cpuUsage()
        tier.store(0, false, 0, 0, hashes, hashes, blocksPerPrompt)
        const { user, system } = process.cpuUsage(started)
        longestOfRound = Math.max(longestOfRound, (user + system) / 1000)
      }
      longestMs = Math.min(longestMs, longestOfRound) // what others do only adds to it
      checksum = String(tier.heldBlocks)
    }
    report({ id: 'tiers.turns.store.ms_max', value: longestMs, unit: 'ms', spread: 0, checksum })
  }),
]

function newPrompts(count: number): Prompt[] {
  let state = 123_456_789
  const random = () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state >>> 0
  }
  return Array.from({ length: count }, (_, index) => ({
    external: Uint32Array.from({ length: 2 * blocksPerPrompt }, random),
    local: Uint32Array.from({ length: 2 * blocksPerPrompt }, random),
    ranks: Array.from({ length: holdersPerPrompt }, (_holder, holder) => (7 * index + 8 * holder) % rankCount),
  }))
}

function filled(prompts: readonly Prompt[], owners: TierOwners): LowerTier {
  const tier = new LowerTier({ seed: 1, blocksMax: 1e9 })
  for (const { external, local, ranks } of prompts)
    for (const rank of ranks) tier.store(owners.ofRank(rank), false, 0, 0, external, local, blocksPerPrompt)
  return tier
}

/** Answers the blocks that all walks together found: the checksum. */
function walkAll(prompts: readonly Prompt[], tier: LowerTier, owners: TierOwners, walk: TierWalk): number {
  const depths = new Uint32Array(rankCount)
  const last = new Uint32Array(2 * rankCount)
  const hits = new Uint32Array(rankCount)
  let sum = 0
  for (const { external, local, ranks } of prompts) {
    depths.fill(0)
    hits.fill(0)
    for (const [holder, rank] of ranks.entries()) {
      const depth = (13 * holder) % 128
      depths[rank] = depth
      if (depth > 0) last.set(external.subarray(2 * depth - 2, 2 * depth), 2 * rank)
    }
    walk.seed(depths, last, rankCount)
    walk.extend(tier, owners, local, blocksPerPrompt, hits)
    for (let rank = 0; rank < rankCount; rank++) sum += hits[rank]!
  }
  return sum
}
