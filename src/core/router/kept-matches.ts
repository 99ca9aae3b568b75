/**
 * What a parked request keeps of its lookup: only the ranks that hold something. A fleet of a thousand ranks has columns
 * of 16 kB, and a hundred thousand requests may wait.
 *
 *   words   [ rank, device, host, disk, external ] per holding rank
 */
import type { MatchColumns } from '../protocol/index.js'
import { resetMatchColumns } from '../protocol/index.js'

export type KeptMatches = Uint32Array

const rowWords = 5

export function keepMatches(matches: MatchColumns): KeptMatches {
  let rows = 0
  for (let rank = 0; rank < matches.rankCount; rank++) if (holdsAny(matches, rank)) rows++
  const kept = new Uint32Array(rows * rowWords)
  let at = 0
  for (let rank = 0; rank < matches.rankCount; rank++) {
    if (!holdsAny(matches, rank)) continue
    kept[at] = rank
    kept[at + 1] = matches.device[rank]!
    if (matches.hasLowerTiers) {
      kept[at + 2] = matches.hostPinned[rank]!
      kept[at + 3] = matches.disk[rank]!
      kept[at + 4] = matches.external[rank]!
    }
    at += rowWords
  }
  return kept
}

/** Fills `out`. Ranks for which `isSame` is false are left out: the number stands for another worker by now. */
export function spreadMatches(
  kept: KeptMatches,
  rankCount: number,
  out: MatchColumns,
  isSame: (rank: number) => boolean,
): void {
  resetMatchColumns(out, rankCount)
  for (let at = 0; at < kept.length; at += rowWords) {
    const rank = kept[at]!
    if (rank >= rankCount || !isSame(rank)) continue
    out.device[rank] = kept[at + 1]!
    out.hostPinned[rank] = kept[at + 2]!
    out.disk[rank] = kept[at + 3]!
    out.external[rank] = kept[at + 4]!
    if (kept[at + 2]! + kept[at + 3]! + kept[at + 4]! > 0) out.hasLowerTiers = true
  }
}

function holdsAny(matches: MatchColumns, rank: number): boolean {
  if (matches.device[rank]! > 0) return true
  return matches.hasLowerTiers && matches.hostPinned[rank]! + matches.disk[rank]! + matches.external[rank]! > 0
}
