/** The bucket mix, seeded per process so that nobody outside can aim hashes at one bucket. */
let seed: u64 = 0

export function setSeed(lo: u32, hi: u32): void {
  seed = ((<u64>hi) << 32) | lo
}

@inline export function mix(hash: u64): u64 {
  let x = (hash ^ seed) * 0x9e3779b97f4a7c15
  x ^= x >> 32
  x *= 0xd6e8feb86659fd93
  return x ^ (x >> 32)
}
