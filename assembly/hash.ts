/**
 * The hash kernel: XXH3-64 with a seed over token blocks, and the chain of sequence hashes, a chunk of blocks per call.
 * It owns one small fixed memory and never grows it. The caller copies tokens to TOKENS, seeds to SEEDS and calls
 * `hashChunk`; hashes lie at LOCAL and SEQUENCE as little-endian u64. 64-bit values cross the border through memory only,
 * because an i64 parameter would be a `bigint` on the other side.
 *
 * Follows the reference description of XXH3 (xxHash 0.8) for every length class: 0, 1-3, 4-8, 9-16, 17-128, 129-240, more.
 */

/** Tokens of one chunk, one more for a last overlapping window; also any other input of `hashBytes`. */
export const TOKENS: usize = memory.data(32768 + 4, 64)
export const TOKENS_MAX: i32 = 8192 + 1
export const LOCAL: usize = memory.data(65536, 64)
export const SEQUENCE: usize = memory.data(65536, 64)
export const BLOCKS_MAX: i32 = 8192
/** Four u64: block seed, chain seed, the sequence hash before the chunk (and after the call: its last), spare. */
export const SEEDS: usize = memory.data(32, 16)

const SECRET: usize = memory.data<u8>([
  0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, 0xde, 0xd4, 0x6d, 0xe9,
  0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78,
  0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6,
  0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
  0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, 0xa8, 0xfa, 0x76, 0x3f,
  0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31,
  0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff,
  0xfa, 0x13, 0x63, 0xeb, 0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
  0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, 0x45, 0xcb, 0x3a, 0x8f,
  0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
])
/**
 * The secret plus and minus the seed, word by word: what inputs meet. Loading a key from memory beats holding it in a
 * register, of which there are too few (docs/decisions/0010).
 */
const KEYS: usize = memory.data(192, 16)
/** For inputs of 129 to 240 bytes: seven keys from the secret's fourth byte on, and one from byte 119 for the last 16 bytes. */
const SHIFTED_KEYS: usize = memory.data(128, 16)

/** How far the chain runs behind the local hashes: three of them. */
const LAG_BYTES: usize = 24

const P32_1: u64 = 0x9e3779b1
const P32_2: u64 = 0x85ebca77
const P32_3: u64 = 0xc2b2ae3d
const P64_1: u64 = 0x9e3779b185ebca87
const P64_2: u64 = 0xc2b2ae3d27d4eb4f
const P64_3: u64 = 0x165667b19e3779f9
const P64_4: u64 = 0x85ebca77c2b2ae63
const P64_5: u64 = 0x27d4eb2f165667c5
const PRIME_MX1: u64 = 0x165667919e3779f9
const PRIME_MX2: u64 = 0x9fb21c651e98df25

/**
 * Hashes `count` windows of `windowBytes` bytes, `strideBytes` apart, and chains them. `isFirst`: block 0 of a prompt,
 * whose sequence hash is its local hash; otherwise the chain goes on from the third word of SEEDS.
 */
export function hashChunk(count: i32, strideBytes: i32, windowBytes: i32, isFirst: i32): void {
  if (count <= 0) return
  const seed = load<u64>(SEEDS)
  deriveKeys(seed)
  // Inlined twice: the 16-token block, which most engines use, gets a loop without a question in it.
  if (windowBytes == 64) hashAndChain(count, strideBytes, 64, isFirst, seed)
  else hashAndChain(count, strideBytes, windowBytes, isFirst, seed)
}

/** Chains `count` local hashes that already lie at LOCAL. */
export function chainChunk(count: i32, isFirst: i32): void {
  if (count <= 0) return
  chain(LOCAL, LOCAL + ((<usize>count) << 3), isFirst)
}

/** One hash of any bytes that lie at TOKENS, written to LOCAL. */
export function hashBytes(length: i32): void {
  const seed = load<u64>(SEEDS)
  deriveKeys(seed)
  store<u64>(LOCAL, hash(TOKENS, length, seed))
}

/**
 * A step of the chain waits for the one before, about twenty cycles. In one loop with local hashes it hides behind their
 * work, as long as it never waits for a local hash of the same turn. So the chain runs some blocks behind.
 */
// @ts-ignore: decorator
@inline
function hashAndChain(count: i32, strideBytes: i32, windowBytes: i32, isFirst: i32, seed: u64): void {
  const flip1 = chainFlip1()
  const flip2 = chainFlip2()
  const end = LOCAL + ((<usize>count) << 3)
  const lead = min<usize>(end, LOCAL + LAG_BYTES)
  let input = TOKENS
  let out = LOCAL
  while (out < lead) {
    store<u64>(out, hash(input, windowBytes, seed))
    out += 8
    input += strideBytes
  }
  let previous = load<u64>(SEEDS, 16)
  let chained = LOCAL
  if (isFirst) {
    previous = load<u64>(LOCAL)
    store<u64>(SEQUENCE, previous)
    chained += 8
  }
  while (out < end) {
    store<u64>(out, windowBytes == 64 ? hash64(input) : hash(input, windowBytes, seed))
    previous = chainStep(previous ^ flip1, load<u64>(chained) ^ flip2)
    store<u64>(chained + (SEQUENCE - LOCAL), previous)
    out += 8
    chained += 8
    input += strideBytes
  }
  store<u64>(SEEDS, previous, 16)
  chain(chained, end, 0)
}

/** Chains the local hashes from `chained` to `end`; addresses inside LOCAL. */
function chain(chained: usize, end: usize, isFirst: i32): void {
  const flip1 = chainFlip1()
  const flip2 = chainFlip2()
  let previous = load<u64>(SEEDS, 16)
  if (isFirst) {
    previous = load<u64>(chained)
    store<u64>(chained + (SEQUENCE - LOCAL), previous)
    chained += 8
  }
  for (; chained < end; chained += 8) {
    previous = chainStep(previous ^ flip1, load<u64>(chained) ^ flip2)
    store<u64>(chained + (SEQUENCE - LOCAL), previous)
  }
  store<u64>(SEEDS, previous, 16)
}

// @ts-ignore: decorator
@inline
function chainFlip1(): u64 {
  return (load<u64>(SECRET + 24) ^ load<u64>(SECRET + 32)) + load<u64>(SEEDS, 8)
}

// @ts-ignore: decorator
@inline
function chainFlip2(): u64 {
  return (load<u64>(SECRET + 40) ^ load<u64>(SECRET + 48)) - load<u64>(SEEDS, 8)
}

/** XXH3 of 16 bytes, with the two words already flipped. */
// @ts-ignore: decorator
@inline
function chainStep(low: u64, high: u64): u64 {
  return avalanche(16 + bswap<u64>(low) + high + fold(low, high))
}

/** Any length. The keys of this seed are in KEYS and SHIFTED_KEYS. */
function hash(input: usize, length: usize, seed: u64): u64 {
  if (length > 240) return hashLong(input, length)
  if (length > 128) return hash129To240(input, length)
  if (length > 16) return hash17To128(input, length)
  if (length > 8) return hash9To16(input, length, seed)
  if (length >= 4) return hash4To8(input, length, seed)
  if (length > 0) return hash1To3(input, length, seed)
  return avalanche64(seed ^ load<u64>(SECRET + 56) ^ load<u64>(SECRET + 64))
}

function hash1To3(input: usize, length: usize, seed: u64): u64 {
  const first = <u64>load<u8>(input)
  const middle = <u64>load<u8>(input + (length >> 1))
  const last = <u64>load<u8>(input + length - 1)
  const combined = (first << 16) | (middle << 24) | last | ((<u64>length) << 8)
  return avalanche64(combined ^ ((<u64>(load<u32>(SECRET) ^ load<u32>(SECRET + 4))) + seed))
}

function hash4To8(input: usize, length: usize, seed: u64): u64 {
  const mixedSeed = seed ^ ((<u64>bswap<u32>(<u32>seed)) << 32)
  const first = <u64>load<u32>(input)
  const last = <u64>load<u32>(input + length - 4)
  const flip = (load<u64>(SECRET + 8) ^ load<u64>(SECRET + 16)) - mixedSeed
  let h = (last + (first << 32)) ^ flip
  h ^= rotl<u64>(h, 49) ^ rotl<u64>(h, 24)
  h *= PRIME_MX2
  h ^= (h >> 35) + <u64>length
  h *= PRIME_MX2
  return h ^ (h >> 28)
}

function hash9To16(input: usize, length: usize, seed: u64): u64 {
  const low = load<u64>(input) ^ ((load<u64>(SECRET + 24) ^ load<u64>(SECRET + 32)) + seed)
  const high = load<u64>(input + length - 8) ^ ((load<u64>(SECRET + 40) ^ load<u64>(SECRET + 48)) - seed)
  return avalanche(<u64>length + bswap<u64>(low) + high + fold(low, high))
}

function hash17To128(input: usize, length: usize): u64 {
  const end = input + length
  let acc = mixPair(input, KEYS, end - 16, KEYS + 16)
  if (length > 32) {
    acc = v128.add<u64>(acc, mixPair(input + 16, KEYS + 32, end - 32, KEYS + 48))
    if (length > 64) {
      acc = v128.add<u64>(acc, mixPair(input + 32, KEYS + 64, end - 48, KEYS + 80))
      if (length > 96) acc = v128.add<u64>(acc, mixPair(input + 48, KEYS + 96, end - 64, KEYS + 112))
    }
  }
  return avalanche(<u64>length * P64_1 + laneSum(acc))
}

/** Offsets as second arguments become part of the load; written as a sum they would be an addition each. */
// @ts-ignore: decorator
@inline
function hash64(input: usize): u64 {
  const outer = foldPair(
    v128.xor(v128.load(input), v128.load(KEYS)),
    v128.xor(v128.load(input, 48), v128.load(KEYS, 16)),
  )
  const inner = foldPair(
    v128.xor(v128.load(input, 16), v128.load(KEYS, 32)),
    v128.xor(v128.load(input, 32), v128.load(KEYS, 48)),
  )
  return avalanche(64 * P64_1 + laneSum(v128.add<u64>(outer, inner)))
}

function hash129To240(input: usize, length: usize): u64 {
  let acc = mixPair(input, KEYS, input + 16, KEYS + 16)
  for (let at: usize = 32; at < 128; at += 32) {
    acc = v128.add<u64>(acc, mixPair(input + at, KEYS + at, input + at + 16, KEYS + at + 16))
  }
  const first = avalanche(<u64>length * P64_1 + laneSum(acc))
  acc = v128.splat<u64>(0)
  const last = input + length - 16
  let at: usize = 128
  const whole = length & ~15
  for (; at + 16 < whole; at += 32) {
    acc = v128.add<u64>(acc, mixPair(input + at, SHIFTED_KEYS + at - 128, input + at + 16, SHIFTED_KEYS + at - 112))
  }
  const lastKeyed = v128.xor(v128.load(last), v128.load(SHIFTED_KEYS + 112))
  const other = at < whole ? v128.xor(v128.load(input + at), v128.load(SHIFTED_KEYS + at - 128)) : v128.splat<u64>(0)
  return avalanche(first + laneSum(v128.add<u64>(acc, foldPair(lastKeyed, other))))
}

function hashLong(input: usize, length: usize): u64 {
  let acc0 = pair(P32_3, P64_1)
  let acc1 = pair(P64_2, P64_3)
  let acc2 = pair(P64_4, P32_2)
  let acc3 = pair(P64_5, P32_1)
  const last = input + length - 64
  // Stripes of 64 bytes, each with the keys 8 bytes further on; after 16 of them the accumulators are scrambled.
  let stripe: usize = 0
  for (; input < last; input += 64) {
    acc0 = accumulated(acc0, v128.load(input), v128.load(KEYS + stripe))
    acc1 = accumulated(acc1, v128.load(input, 16), v128.load(KEYS + stripe, 16))
    acc2 = accumulated(acc2, v128.load(input, 32), v128.load(KEYS + stripe, 32))
    acc3 = accumulated(acc3, v128.load(input, 48), v128.load(KEYS + stripe, 48))
    stripe += 8
    if (stripe == 128) {
      acc0 = scrambled(acc0, KEYS + 128)
      acc1 = scrambled(acc1, KEYS + 144)
      acc2 = scrambled(acc2, KEYS + 160)
      acc3 = scrambled(acc3, KEYS + 176)
      stripe = 0
    }
  }
  acc0 = accumulated(acc0, v128.load(last), v128.load(KEYS + 121))
  acc1 = accumulated(acc1, v128.load(last, 16), v128.load(KEYS + 137))
  acc2 = accumulated(acc2, v128.load(last, 32), v128.load(KEYS + 153))
  acc3 = accumulated(acc3, v128.load(last, 48), v128.load(KEYS + 169))
  const merged = v128.add<u64>(
    foldPair(v128.xor(acc0, v128.load(KEYS + 11)), v128.xor(acc1, v128.load(KEYS + 27))),
    foldPair(v128.xor(acc2, v128.load(KEYS + 43)), v128.xor(acc3, v128.load(KEYS + 59))),
  )
  return avalanche(<u64>length * P64_1 + laneSum(merged))
}

/** Each lane adds its neighbour's data and the product of its keyed halves. */
// @ts-ignore: decorator
@inline
function accumulated(acc: v128, data: v128, key: v128): v128 {
  const keyed = v128.xor(data, key)
  const halves = v128.shuffle<u32>(keyed, keyed, 0, 2, 1, 3) // both low halves, then both high halves
  const product = v128.extmul_low<u32>(halves, v128.shuffle<u32>(halves, halves, 2, 3, 0, 1))
  return v128.add<u64>(v128.add<u64>(acc, v128.shuffle<u64>(data, data, 1, 0)), product)
}

// @ts-ignore: decorator
@inline
function scrambled(acc: v128, key: usize): v128 {
  const mixed = v128.xor(v128.xor(acc, v128.shr<u64>(acc, 47)), v128.load(key))
  const halves = v128.shuffle<u32>(mixed, mixed, 0, 2, 1, 3)
  const prime = v128.splat<u32>(<u32>P32_1)
  return v128.add<u64>(v128.extmul_low<u32>(halves, prime), v128.shl<u64>(v128.extmul_high<u32>(halves, prime), 32))
}

/** Nothing to do when the keys of this seed are there already; two words tell, because fresh memory fits no seed. */
function deriveKeys(seed: u64): void {
  if (load<u64>(KEYS) == load<u64>(SECRET) + seed && load<u64>(KEYS, 8) == load<u64>(SECRET, 8) - seed) return
  for (let at: usize = 0; at < 192; at += 16) v128.store(KEYS + at, seededKey(SECRET + at, seed))
  for (let at: usize = 0; at < 112; at += 16) v128.store(SHIFTED_KEYS + at, seededKey(SECRET + 3 + at, seed))
  v128.store(SHIFTED_KEYS, seededKey(SECRET + 119, seed), 112)
}

// @ts-ignore: decorator
@inline
function seededKey(secret: usize, seed: u64): v128 {
  return pair(load<u64>(secret) + seed, load<u64>(secret, 8) - seed)
}

/** The folds of two times 16 bytes, each with its key. */
// @ts-ignore: decorator
@inline
function mixPair(x: usize, keyOfX: usize, y: usize, keyOfY: usize): v128 {
  return foldPair(v128.xor(v128.load(x), v128.load(keyOfX)), v128.xor(v128.load(y), v128.load(keyOfY)))
}

/** Low half xor high half of x.0 * x.1 and of y.0 * y.1, each a 64 by 64 bit product made of four 32 by 32 bit ones. */
// @ts-ignore: decorator
@inline
function foldPair(x: v128, y: v128): v128 {
  const mask = v128.splat<u64>(0xffffffff)
  const a = v128.shuffle<u32>(x, y, 0, 4, 1, 5) // x0.lo y0.lo x0.hi y0.hi
  const b = v128.shuffle<u32>(x, y, 2, 6, 3, 7) // x1.lo y1.lo x1.hi y1.hi
  const swapped = v128.shuffle<u32>(b, b, 2, 3, 0, 1)
  const lowLow = v128.extmul_low<u32>(a, b)
  const highHigh = v128.extmul_high<u32>(a, b)
  const lowHigh = v128.extmul_low<u32>(a, swapped)
  const highLow = v128.extmul_high<u32>(a, swapped)
  const cross = v128.add<u64>(v128.add<u64>(v128.shr<u64>(lowLow, 32), v128.and(highLow, mask)), lowHigh)
  const upper = v128.add<u64>(v128.add<u64>(v128.shr<u64>(highLow, 32), v128.shr<u64>(cross, 32)), highHigh)
  return v128.xor(upper, v128.or(v128.shl<u64>(cross, 32), v128.and(lowLow, mask)))
}

// @ts-ignore: decorator
@inline
function pair(low: u64, high: u64): v128 {
  return v128.replace_lane<u64>(v128.splat<u64>(low), 1, high)
}

// @ts-ignore: decorator
@inline
function laneSum(lanes: v128): u64 {
  return v128.extract_lane<u64>(lanes, 0) + v128.extract_lane<u64>(lanes, 1)
}

/** Low half xor high half of the 128-bit product. */
// @ts-ignore: decorator
@inline
function fold(a: u64, b: u64): u64 {
  const lowLow = (a & 0xffffffff) * (b & 0xffffffff)
  const highLow = (a >> 32) * (b & 0xffffffff)
  const lowHigh = (a & 0xffffffff) * (b >> 32)
  const highHigh = (a >> 32) * (b >> 32)
  const cross = (lowLow >> 32) + (highLow & 0xffffffff) + lowHigh
  return ((highLow >> 32) + (cross >> 32) + highHigh) ^ ((cross << 32) | (lowLow & 0xffffffff))
}

// @ts-ignore: decorator
@inline
function avalanche(value: u64): u64 {
  let h = value ^ (value >> 37)
  h *= PRIME_MX1
  return h ^ (h >> 32)
}

function avalanche64(value: u64): u64 {
  let h = value ^ (value >> 33)
  h *= P64_2
  h ^= h >> 29
  h *= P64_3
  return h ^ (h >> 32)
}
