/**
 * Names of 128 bits: a number that says in its first two bits how many follow for the position of a block, and how a
 * name of that width travels. What the rest of the bits mean is said where a name is made.
 */
import { WarmrouteError } from '../protocol/index.js'

/** Bits of the position and of the fragment that fills the rest, for one value of the leading two bits. */
export interface PositionLayout {
  readonly positionBits: bigint
  readonly fragmentBits: bigint
}

/** The narrowest layout that a position fits. Throws `WR_INVALID_ARGUMENT` where none does. */
export function layoutFor(
  layouts: readonly PositionLayout[],
  position: number,
): { readonly mode: number; readonly layout: PositionLayout } {
  const mode = layouts.findIndex(({ positionBits }) => position < 2 ** Number(positionBits))
  const layout = layouts[mode]
  if (layout === undefined || !Number.isInteger(position) || position < 0) {
    const most = Number(layouts.at(-1)!.positionBits)
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `a position is an integer below 2^${most}`, position })
  }
  return { mode, layout }
}

/** As it travels: 16 bytes, the highest first. */
export function toBytes128(name: bigint): Uint8Array {
  if (name < 0n || name >> 128n !== 0n) {
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'a name is a number of 128 bits', name })
  }
  const bytes = new Uint8Array(16)
  const view = new DataView(bytes.buffer)
  view.setBigUint64(0, name >> 64n)
  view.setBigUint64(8, BigInt.asUintN(64, name))
  return bytes
}

/** From bytes, or from the list of numbers that JSON carries instead of bytes. */
export function fromBytes128(bytes: ArrayLike<number>): bigint {
  if (bytes.length !== 16 || !Array.from(bytes).every(isByte)) {
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'a name travels as 16 bytes', length: bytes.length })
  }
  return Array.from(bytes).reduce((name, byte) => (name << 8n) | BigInt(byte), 0n)
}

function isByte(value: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= 255
}
