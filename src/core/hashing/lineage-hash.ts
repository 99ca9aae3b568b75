/**
 * A block's place in its chain as one 128-bit number, as producers built on lib/tokens at v1.5.0 name blocks:
 *
 *   [ mode : 2 ][ position : P ][ sequence hash : 64 ][ low bits of the parent's sequence hash : R ]
 *
 * The farther the position, the fewer bits of the parent remain. The router itself does not use it.
 */
import { WarmrouteError } from '../protocol/index.js'
import { nextSequenceHash } from './compute.js'

export interface Lineage {
  readonly position: number
  readonly sequenceHash: bigint
  /** As many low bits of the parent's sequence hash as fit; 0 for the first block. */
  readonly parentFragment: bigint
}

/** Bits of the position and of the parent, by mode. */
const layouts = [
  { positionBits: 8n, parentBits: 54n },
  { positionBits: 16n, parentBits: 46n },
  { positionBits: 24n, parentBits: 38n },
] as const

export function packLineage(position: number, sequenceHash: bigint, parentSequenceHash: bigint): bigint {
  const mode = layouts.findIndex(({ positionBits }) => position < 2 ** Number(positionBits))
  const layout = layouts[mode]
  if (layout === undefined || !Number.isInteger(position) || position < 0) {
    throw new WarmrouteError('WR_INVALID_ARGUMENT', {
      reason: 'a position is an integer below 2^24',
      position,
    })
  }
  const head = (BigInt(mode) << layout.positionBits) | BigInt(position)
  const parent = BigInt.asUintN(Number(layout.parentBits), parentSequenceHash)
  return (((head << 64n) | BigInt.asUintN(64, sequenceHash)) << layout.parentBits) | parent
}

export function unpackLineage(lineage: bigint): Lineage {
  const layout = layouts[Number(lineage >> 126n)]
  if (layout === undefined || lineage < 0n) {
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'not a lineage hash', lineage })
  }
  const sequenceHash = BigInt.asUintN(64, lineage >> layout.parentBits)
  return {
    position: Number(BigInt.asUintN(Number(layout.positionBits), lineage >> (64n + layout.parentBits))),
    sequenceHash,
    parentFragment: BigInt.asUintN(Number(layout.parentBits), lineage),
  }
}

/** The lineage of the block that follows. */
export function extendLineage(parent: bigint, localHash: bigint): bigint {
  const { position, sequenceHash } = unpackLineage(parent)
  return packLineage(position + 1, nextSequenceHash(sequenceHash, localHash), sequenceHash)
}
