/**
 * What several shards know together: a block that ranks of several shards hold is one block. Every run of every shard is looked
 * up in all of them; a block that m shards know counts 1/m in each. Where that would be too much to look at, runs are drawn by
 * chance, always the same way, and stand for the others: figures are estimates then, and `isExact` is false. What is shared is
 * a small part of all blocks and a large one of what ranks hold, so for that blocks are drawn as often as they are held.
 */
import type { HotPrefix, Sharing } from './prefix-index.js'
import type { HotPath, KnownRun, Random, Shard } from './shard.js'

/** Local hashes on the paths that are looked at, over all shards: some milliseconds. */
export const surveyHashesMax = 131_072
const drawsMax = 4096
const hottestMax = 16

export interface Survey {
  readonly distinctBlocks: number
  readonly sharing: Sharing
  readonly isExact: boolean
}

export function surveyShards(shards: readonly Shard[], hashesMax: number = surveyHashesMax): Survey {
  const share = Math.floor(hashesMax / shards.length)
  let [distinct, shared, holds, isExact] = [0, 0, 0, true]
  for (const shard of shards) {
    const all = shard.allRuns(share)
    const sums = all ? sumRuns(all, shards) : drawSums(shard, shards, share)
    isExact &&= all !== undefined
    distinct += sums.distinct
    shared += sums.shared
    holds += sums.holds
  }
  const sharedBlocks = Math.round(shared)
  const perBlock = isExact ? Math.round(holds) / sharedBlocks : holds / shared // thirds do not add up to wholes
  return {
    distinctBlocks: Math.round(distinct),
    sharing: { sharedBlocks, ranksPerSharedBlock: sharedBlocks && perBlock },
    isExact,
  }
}

/** The same prefix may be hot in several shards, which see the same lookups; its ranks add up. */
export function hottestOfShards(shards: readonly Shard[]): readonly HotPrefix[] {
  const merged: HotPath[] = []
  for (const { prefix, path } of shards.flatMap((it) => it.hotPaths())) {
    const known = merged.findIndex((it) => it.path.length === path.length && startsWith(it.path, path))
    if (known < 0) merged.push({ path, prefix: { ...prefix, ranks: ranksAtEnd(path, shards) } })
    else if (merged[known]!.prefix.finds < prefix.finds)
      merged[known] = { path, prefix: { ...merged[known]!.prefix, finds: prefix.finds } }
  }
  // A shard may end a run where another goes on: what leads to an almost equally hot longer prefix says nothing of its own.
  const shown = merged.filter(
    (it) => !merged.some((longer) => longer.prefix.finds >= 0.9 * it.prefix.finds && goesOn(longer.path, it.path)),
  )
  const prefixes = shown.map((it) => it.prefix)
  return prefixes.sort((a, b) => b.finds - a.finds || b.depth - a.depth).slice(0, hottestMax)
}

interface Sums {
  blocks: number
  distinct: number
  shared: number
  holds: number
}

function sumRuns(runs: Iterable<KnownRun>, shards: readonly Shard[]): Sums {
  const sums: Sums = { blocks: 0, distinct: 0, shared: 0, holds: 0 }
  const ranks = new Uint32Array(64)
  const knownBy = new Uint32Array(64)
  const holders = new Uint32Array(64)
  for (const { path, blocks, weight } of runs) {
    const from = (path.length >>> 1) - blocks
    ranks.fill(0)
    knownBy.fill(0)
    for (const shard of shards) {
      const known = shard.holdersAlong(path, from, holders) - from
      for (let block = 0; block < known; block++) {
        ranks[block]! += holders[block]!
        knownBy[block]!++
      }
    }
    sums.blocks += weight * blocks
    for (let block = 0; block < blocks; block++) {
      const part = weight / knownBy[block]!
      sums.distinct += part
      if (ranks[block]! < 2) continue
      sums.shared += part
      sums.holds += part * ranks[block]!
    }
  }
  return sums
}

/** What is drawn stands for all that the shard knows, and for all that its ranks hold. */
function drawSums(shard: Shard, shards: readonly Shard[], hashesMax: number): Sums {
  const { run, heldPath } = shard.sampler(fixedRandom())
  const runs = sumRuns(
    drawn(run, (it) => it.path.length >>> 1, hashesMax / 2),
    shards,
  )
  const { distinctBlocks, heldBlocks } = shard.stats()
  let [draws, blocks, holds] = [0, 0, 0]
  for (const path of drawn(heldPath, (it) => it.length >>> 1, hashesMax / 2)) {
    const ranks = ranksAtEnd(path, shards)
    draws++
    if (ranks < 2) continue
    blocks += 1 / ranks // such a block is drawn once for each of its ranks
    holds++
  }
  const [perRun, perHold] = [distinctBlocks / Math.max(1, runs.blocks), heldBlocks / Math.max(1, draws)]
  return { blocks: distinctBlocks, distinct: perRun * runs.distinct, shared: perHold * blocks, holds: perHold * holds }
}

function* drawn<T>(draw: () => T | undefined, hashesOf: (it: T) => number, hashesMax: number): Iterable<T> {
  for (let draws = 0, hashes = 0; draws < drawsMax && hashes < hashesMax; draws++) {
    const it = draw()
    if (it === undefined) continue
    hashes += hashesOf(it)
    yield it
  }
}

function fixedRandom(): Random {
  let state = 0x9e37_79b9
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

function ranksAtEnd(path: HotPath['path'], shards: readonly Shard[]): number {
  const count = path.length >>> 1
  const holders = new Uint32Array(1)
  return shards.reduce((sum, it) => (it.holdersAlong(path, count - 1, holders) === count ? sum + holders[0]! : sum), 0)
}

function goesOn(longer: HotPath['path'], path: HotPath['path']): boolean {
  return longer.length > path.length && startsWith(longer, path)
}

/** From the end: prompts differ there more often than at their beginning. */
function startsWith(longer: HotPath['path'], path: HotPath['path']): boolean {
  let at = path.length - 1
  while (at >= 0 && longer[at] === path[at]) at--
  return at < 0
}
