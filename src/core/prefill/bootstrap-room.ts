/**
 * The number under which both legs of an SGLang-style request find each other. The engine derives the prefill rank from
 * it (`room mod size`), so a room must be made for the rank that was chosen.
 */

const roomMax = 2n ** 63n - 1n

/** `draw` is uniform in [0, 2^63 - 1]; without a known rank and size it is the room itself. */
export function bootstrapRoom(draw: bigint, dpRank?: number, dpSize?: number): bigint {
  const r = BigInt.asUintN(63, draw)
  if (dpRank === undefined || dpSize === undefined || dpSize <= 0) return r
  const [rank, size] = [BigInt(dpRank), BigInt(dpSize)]
  const quotients = (roomMax - rank) / size + 1n // rooms of this rank that fit into 63 bits
  return (r % quotients) * size + rank
}
