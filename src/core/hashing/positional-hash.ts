/**
 * A block's content, place and history as one 128-bit number, as producers built on lib/tokens at v1.5.0 name blocks:
 *
 *   [ mode : 2 ][ position : P ][ low bits of the local hash : R ][ sequence hash : 64 ]
 *
 * The farther the position, the fewer bits of the local hash remain. The router itself does not use it.
 */
import { layoutFor, type PositionLayout } from './hash128.js'
import { WarmrouteError } from '../protocol/index.js'

export interface Positional {
  readonly position: number
  readonly sequenceHash: bigint
  /** As many low bits of the local hash as fit. */
  readonly localFragment: bigint
}

const layouts: readonly PositionLayout[] = [
  { positionBits: 8n, fragmentBits: 54n },
  { positionBits: 16n, fragmentBits: 46n },
  { positionBits: 24n, fragmentBits: 38n },
  { positionBits: 31n, fragmentBits: 31n },
]

export function packPositional(position: number, sequenceHash: bigint, localHash: bigint): bigint {
  const { mode, layout } = layoutFor(layouts, position)
  const head = (BigInt(mode) << layout.positionBits) | BigInt(position)
  const fragment = BigInt.asUintN(Number(layout.fragmentBits), localHash)
  return (((head << layout.fragmentBits) | fragment) << 64n) | BigInt.asUintN(64, sequenceHash)
}

export function unpackPositional(name: bigint): Positional {
  const layout = name < 0n ? undefined : layouts[Number(name >> 126n)]
  if (layout === undefined) {
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'not a positional hash', name })
  }
  return {
    position: Number(BigInt.asUintN(Number(layout.positionBits), name >> (64n + layout.fragmentBits))),
    sequenceHash: BigInt.asUintN(64, name),
    localFragment: BigInt.asUintN(Number(layout.fragmentBits), name >> 64n),
  }
}
