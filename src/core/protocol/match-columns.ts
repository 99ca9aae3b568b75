/**
 * What the caches hold of one prompt: a column per tier, indexed by rank. `device[rank]` is the longest prefix that the
 * rank holds contiguously from block 0; the lower tiers count only what extends the tier before. One instance is filled
 * again and again: a lookup allocates nothing.
 *
 * @example
 * import { type MatchColumns, newMatchColumns } from 'warmroute/core'
 *
 * const found: MatchColumns = newMatchColumns()
 * console.log(found.hasLowerTiers) // => false
 */
export interface MatchColumns {
  /** The columns are valid for ranks below this. */
  rankCount: number
  device: Uint32Array
  hostPinned: Uint32Array
  disk: Uint32Array
  external: Uint32Array
  /** False: the three lower columns are all zero and need not be read. */
  hasLowerTiers: boolean
}

/**
 * Columns for lookups; they grow with the fleet and are used again and again.
 *
 * @example
 * import { newMatchColumns } from 'warmroute/core'
 *
 * console.log(newMatchColumns(8).rankCount) // => 0
 */
export function newMatchColumns(rankCapacity = 0): MatchColumns {
  return {
    rankCount: 0,
    device: new Uint32Array(rankCapacity),
    hostPinned: new Uint32Array(rankCapacity),
    disk: new Uint32Array(rankCapacity),
    external: new Uint32Array(rankCapacity),
    hasLowerTiers: false,
  }
}

/** Makes room for `rankCount` ranks and clears what the last lookup left. */
export function resetMatchColumns(columns: MatchColumns, rankCount: number): void {
  if (columns.device.length < rankCount) {
    const capacity = Math.max(rankCount, 2 * columns.device.length)
    columns.device = new Uint32Array(capacity)
    columns.hostPinned = new Uint32Array(capacity)
    columns.disk = new Uint32Array(capacity)
    columns.external = new Uint32Array(capacity)
  } else {
    const dirty = Math.max(rankCount, columns.rankCount)
    columns.device.fill(0, 0, dirty)
    if (columns.hasLowerTiers) {
      columns.hostPinned.fill(0, 0, dirty)
      columns.disk.fill(0, 0, dirty)
      columns.external.fill(0, 0, dirty)
    }
  }
  columns.rankCount = rankCount
  columns.hasLowerTiers = false
}
