/**
 * A block's place in its chain as one 128-bit number, as producers built on lib/tokens at v1.5.0 name blocks:
 *
 *   [ mode : 2 ][ position : P ][ sequence hash : 64 ][ low bits of the parent's sequence hash : R ]
 *
 * The farther the position, the fewer bits of the parent remain. The router itself does not use it.
 */
import { WarmrouteError } from '../protocol/index.js'
import { nextSequenceHash } from './compute.js'
import { layoutFor, type PositionLayout } from './hash128.js'

export interface Lineage {
  readonly position: number
  readonly sequenceHash: bigint
  /** As many low bits of the parent's sequence hash as fit; 0 for the first block. */
  readonly parentFragment: bigint
}

const layouts: readonly PositionLayout[] = [
  { positionBits: 8n, fragmentBits: 54n },
  { positionBits: 16n, fragmentBits: 46n },
  { positionBits: 24n, fragmentBits: 38n },
]

export function packLineage(position: number, sequenceHash: bigint, parentSequenceHash: bigint): bigint {
  const { mode, layout } = layoutFor(layouts, position)
  const head = (BigInt(mode) << layout.positionBits) | BigInt(position)
  const parent = BigInt.asUintN(Number(layout.fragmentBits), parentSequenceHash)
  return (((head << 64n) | BigInt.asUintN(64, sequenceHash)) << layout.fragmentBits) | parent
}

export function unpackLineage(lineage: bigint): Lineage {
  const layout = lineage < 0n ? undefined : layouts[Number(lineage >> 126n)]
  if (layout === undefined) {
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'not a lineage hash', lineage })
  }
  const sequenceHash = BigInt.asUintN(64, lineage >> layout.fragmentBits)
  return {
    position: Number(BigInt.asUintN(Number(layout.positionBits), lineage >> (64n + layout.fragmentBits))),
    sequenceHash,
    parentFragment: BigInt.asUintN(Number(layout.fragmentBits), lineage),
  }
}

/** The lineage of the block that follows. */
export function extendLineage(parent: bigint, localHash: bigint): bigint {
  const { position, sequenceHash } = unpackLineage(parent)
  return packLineage(position + 1, nextSequenceHash(sequenceHash, localHash), sequenceHash)
}
