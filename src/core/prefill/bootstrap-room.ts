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

/**
 * Rooms for the prompts of one request, all of one rank and no two alike; `draw` is uniform in [0, 1). Below 2^53: whoever
 * reads such a number as a double must read the same one.
 */
export function bootstrapRooms(draw: number, rank: number, size: number, count: number): readonly bigint[] {
  const step = BigInt(Math.max(1, size))
  const first = bootstrapRoom(BigInt(Math.floor(draw * (2 ** 53 / Math.max(1, size) - count))), rank, size)
  return Array.from({ length: count }, (_, at) => first + BigInt(at) * step)
}
