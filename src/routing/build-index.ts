/** The index of a router, as its settings want it: exact, approximate, exact with predictions beside it, or none that counts. */
import type { PrefixIndex } from '../core/index/index.js'
import { createPrefixIndex, KvIndex } from '../core/index/index.js'
import type { RankTable, RouterConfig } from '../core/protocol/index.js'
import type { Randomness } from './router-ports.js'

/** What one turn of the loop takes away at most of what has ended, or was left by ranks that are gone: a millisecond of work (decision 0233). */
export const stepBlocks = 4096
/** A rank with more blocks than this is cleared in steps; several ranks may go at once. */
const clearBlocksMax = 256

export function newKvIndex(
  ranks: RankTable,
  config: RouterConfig,
  options: { readonly newIndex?: (() => PrefixIndex) | undefined },
  startMs: number,
  random: Randomness,
): KvIndex {
  const seeds = new Uint32Array(3)
  random.fill(seeds) // whoever chooses hashes must not know where they land
  const { routerPredictedTtlSecs: predictedTtlSecs, indexMaxBlocks, indexMaxBlocksPerRank, indexShards } = config
  const newIndex =
    options.newIndex ??
    (() =>
      createPrefixIndex({
        seedLo: seeds[0]!,
        seedHi: seeds[1]!,
        maxBlocks: indexMaxBlocks,
        clearBlocksMax,
        ...(indexMaxBlocksPerRank === undefined ? {} : { maxBlocksPerRank: indexMaxBlocksPerRank }),
        shards: indexShards,
      }))
  return new KvIndex({
    ranks,
    device: newIndex(),
    approximateTtlMs: config.useKvEvents ? undefined : 1000 * config.routerTtlSecs,
    predicted:
      config.useKvEvents && predictedTtlSecs !== undefined
        ? { index: newIndex(), ttlMs: 1000 * predictedTtlSecs }
        : undefined,
    isEnabled: config.overlapScoreCredit > 0,
    startMs,
    stepBlocks,
    seed: seeds[2]!,
  })
}
