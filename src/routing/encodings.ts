/**
 * Where engines of one model make different tokens of a prompt: every worker is judged by its own. Lookups are made one after the
 * other and laid into one set of columns, so that a decision is taken as always.
 */
import type { MatchColumns, RankTable } from '../core/protocol/index.js'
import { newMatchColumns } from '../core/protocol/index.js'
import type { PromptEncoding, PromptHashes } from './router-port.js'

/** Columns of their own: `find` may fill those of `usual` again. */
export function matchesByEncoding(
  ranks: RankTable,
  usual: MatchColumns,
  encodings: readonly PromptEncoding[],
  find: (hashes: PromptHashes, index: number) => MatchColumns,
): MatchColumns {
  const merged = copyOf(usual)
  for (const [index, { workerIds, hashes }] of encodings.entries()) {
    const found = hashes && find(hashes, index)
    merged.hasLowerTiers ||= found?.hasLowerTiers ?? false
    for (const workerId of workerIds)
      for (const rank of ranks.ofWorker(workerId)) {
        if (rank >= merged.rankCount) continue
        for (const tier of tiers) merged[tier][rank] = found?.[tier][rank] ?? 0
      }
  }
  return merged
}

export function encodingFor(
  encodings: readonly PromptEncoding[] | undefined,
  workerId: bigint,
): PromptEncoding | undefined {
  return encodings?.find(({ workerIds }) => workerIds.has(workerId))
}

const tiers = ['device', 'hostPinned', 'disk', 'external'] as const

function copyOf(columns: MatchColumns): MatchColumns {
  const copy = newMatchColumns(columns.rankCount)
  copy.rankCount = columns.rankCount
  copy.hasLowerTiers = columns.hasLowerTiers
  for (const tier of tiers) copy[tier].set(columns[tier].subarray(0, columns.rankCount))
  return copy
}
