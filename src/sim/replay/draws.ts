/** Uniform numbers in [0, 1) from a seed: xorshift, so that a replay needs nothing from the outside. */
export function drawsOf(seed: number): () => number {
  let state = (seed * 2654435761) >>> 0 || 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    state >>>= 0
    return state / 2 ** 32
  }
}
