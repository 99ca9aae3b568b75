/**
 * XXH3-64 with a seed, for every input length, on 32-bit words. The plain twin of `assembly/hash.ts`: it runs where there
 * is no WebAssembly, and each checks the other in the tests. Results go into a hash column, so nothing is allocated.
 */
import type { HashColumn } from '../protocol/index.js'
import { add, addFold, carry, multiply, mulHigh } from './limbs.js'
import {
  longStart,
  prime32x1,
  prime64x1High,
  prime64x1Low,
  prime64x2High,
  prime64x2Low,
  prime64x3High,
  prime64x3Low,
  primeMx1High,
  primeMx1Low,
  primeMx2High,
  primeMx2Low,
  secret,
} from './secret.js'

/** Hashes `length` bytes of `input` from `offset`; the result becomes hash `at` of `out`. */
export function xxh3Into(
  out: HashColumn,
  at: number,
  input: DataView,
  offset: number,
  length: number,
  seedLow: number,
  seedHigh: number,
): void {
  if (length > 240) hashLong(input, offset, length, seedLow, seedHigh)
  else if (length > 128) hash129To240(input, offset, length, seedLow, seedHigh)
  else if (length > 16) hash17To128(input, offset, length, seedLow, seedHigh)
  else if (length > 8) hash9To16(input, offset, length, seedLow, seedHigh)
  else if (length >= 4) hash4To8(input, offset, length, seedLow, seedHigh)
  else hash0To3(input, offset, length, seedLow, seedHigh)
  out[2 * at] = h[0]!
  out[2 * at + 1] = h[1]!
}

/** XXH3 of 16 bytes given as four words: the step of the sequence-hash chain. */
export function xxh3PairInto(
  out: HashColumn,
  at: number,
  firstLow: number,
  firstHigh: number,
  secondLow: number,
  secondHigh: number,
  seedLow: number,
  seedHigh: number,
): void {
  hashPair(16, firstLow, firstHigh, secondLow, secondHigh, seedLow, seedHigh)
  out[2 * at] = h[0]!
  out[2 * at + 1] = h[1]!
}

/** The hash under construction. One per module is enough: nothing here calls out or waits. */
const h = new Int32Array(2)
const accumulators = new Int32Array(16)
const derived = new DataView(new ArrayBuffer(192))

function hash0To3(input: DataView, offset: number, length: number, seedLow: number, seedHigh: number): void {
  if (length === 0) {
    h[0] = seedLow ^ word(secret, 56) ^ word(secret, 64)
    h[1] = seedHigh ^ word(secret, 60) ^ word(secret, 68)
  } else {
    const first = input.getUint8(offset)
    const middle = input.getUint8(offset + (length >> 1))
    const last = input.getUint8(offset + length - 1)
    h[0] = word(secret, 0) ^ word(secret, 4)
    h[1] = 0
    add(h, 0, seedLow, seedHigh)
    h[0] = h[0]! ^ ((first << 16) | (middle << 24) | last | (length << 8))
  }
  avalancheOfXxh64()
}

function hash4To8(input: DataView, offset: number, length: number, seedLow: number, seedHigh: number): void {
  const mixedHigh = seedHigh ^ swapBytes(seedLow)
  const flipLow = word(secret, 8) ^ word(secret, 16)
  const flipHigh = word(secret, 12) ^ word(secret, 20)
  const low = word(input, offset + length - 4) ^ ((flipLow - seedLow) | 0)
  const high = word(input, offset) ^ ((flipHigh - mixedHigh - borrow(flipLow, seedLow)) | 0)
  // h ^= rotl(h, 49) ^ rotl(h, 24)
  h[0] = low ^ ((high << 17) | (low >>> 15)) ^ ((low << 24) | (high >>> 8))
  h[1] = high ^ ((low << 17) | (high >>> 15)) ^ ((high << 24) | (low >>> 8))
  multiply(h, 0, primeMx2Low, primeMx2High)
  h[0] = h[0]! ^ ((h[1]! >>> 3) + length) // (h >> 35) + length stays in the low word
  multiply(h, 0, primeMx2Low, primeMx2High)
  h[0] = h[0]! ^ ((h[0]! >>> 28) | (h[1]! << 4))
  h[1] = h[1]! ^ (h[1]! >>> 28)
}

function hash9To16(input: DataView, offset: number, length: number, seedLow: number, seedHigh: number): void {
  const end = offset + length
  hashPair(
    length,
    word(input, offset),
    word(input, offset + 4),
    word(input, end - 8),
    word(input, end - 4),
    seedLow,
    seedHigh,
  )
}

function hashPair(
  length: number,
  firstLow: number,
  firstHigh: number,
  secondLow: number,
  secondHigh: number,
  seedLow: number,
  seedHigh: number,
): void {
  const flip1Low = word(secret, 24) ^ word(secret, 32)
  const flip1High = word(secret, 28) ^ word(secret, 36)
  const flip2Low = word(secret, 40) ^ word(secret, 48)
  const flip2High = word(secret, 44) ^ word(secret, 52)
  const sum = (flip1Low + seedLow) | 0
  const xLow = firstLow ^ sum
  const xHigh = firstHigh ^ ((flip1High + seedHigh + carry(sum, seedLow)) | 0)
  const yLow = secondLow ^ ((flip2Low - seedLow) | 0)
  const yHigh = secondHigh ^ ((flip2High - seedHigh - borrow(flip2Low, seedLow)) | 0)
  h[0] = length
  h[1] = 0
  add(h, 0, swapBytes(xHigh), swapBytes(xLow))
  add(h, 0, yLow, yHigh)
  addFold(h, 0, xLow, xHigh, yLow, yHigh)
  avalanche()
}

function hash17To128(input: DataView, offset: number, length: number, seedLow: number, seedHigh: number): void {
  const end = offset + length
  startFrom(length)
  if (length > 32) {
    if (length > 64) {
      if (length > 96) {
        mix(input, offset + 48, 96, seedLow, seedHigh)
        mix(input, end - 64, 112, seedLow, seedHigh)
      }
      mix(input, offset + 32, 64, seedLow, seedHigh)
      mix(input, end - 48, 80, seedLow, seedHigh)
    }
    mix(input, offset + 16, 32, seedLow, seedHigh)
    mix(input, end - 32, 48, seedLow, seedHigh)
  }
  mix(input, offset, 0, seedLow, seedHigh)
  mix(input, end - 16, 16, seedLow, seedHigh)
  avalanche()
}

function hash129To240(input: DataView, offset: number, length: number, seedLow: number, seedHigh: number): void {
  startFrom(length)
  for (let at = 0; at < 128; at += 16) mix(input, offset + at, at, seedLow, seedHigh)
  avalanche()
  const whole = length & ~15
  for (let at = 128; at < whole; at += 16) mix(input, offset + at, at - 125, seedLow, seedHigh)
  mix(input, offset + length - 16, 119, seedLow, seedHigh)
  avalanche()
}

function hashLong(input: DataView, offset: number, length: number, seedLow: number, seedHigh: number): void {
  deriveSecret(seedLow, seedHigh)
  accumulators.set(longStart)
  const blockCount = Math.floor((length - 1) / 1024)
  for (let block = 0; block < blockCount; block++) {
    for (let stripe = 0; stripe < 16; stripe++) accumulate(input, offset + 1024 * block + 64 * stripe, 8 * stripe)
    scramble()
  }
  const rest = offset + 1024 * blockCount
  const stripeCount = Math.floor((length - 1 - 1024 * blockCount) / 64)
  for (let stripe = 0; stripe < stripeCount; stripe++) accumulate(input, rest + 64 * stripe, 8 * stripe)
  accumulate(input, offset + length - 64, 121)
  startFrom(length)
  for (let at = 0; at < 4; at++) {
    addFold(
      h,
      0,
      accumulators[4 * at]! ^ word(derived, 11 + 16 * at),
      accumulators[4 * at + 1]! ^ word(derived, 15 + 16 * at),
      accumulators[4 * at + 2]! ^ word(derived, 19 + 16 * at),
      accumulators[4 * at + 3]! ^ word(derived, 23 + 16 * at),
    )
  }
  avalanche()
}

/** One stripe of 64 bytes: each lane adds its neighbour's data and the product of its keyed halves. */
function accumulate(input: DataView, offset: number, secretOffset: number): void {
  for (let lane = 0; lane < 8; lane++) {
    const low = word(input, offset + 8 * lane)
    const high = word(input, offset + 8 * lane + 4)
    const keyLow = low ^ word(derived, secretOffset + 8 * lane)
    const keyHigh = high ^ word(derived, secretOffset + 8 * lane + 4)
    add(accumulators, 2 * (lane ^ 1), low, high)
    add(accumulators, 2 * lane, Math.imul(keyLow, keyHigh), mulHigh(keyLow, keyHigh))
  }
}

function scramble(): void {
  for (let lane = 0; lane < 8; lane++) {
    const high = accumulators[2 * lane + 1]!
    accumulators[2 * lane] = accumulators[2 * lane]! ^ (high >>> 15) ^ word(derived, 128 + 8 * lane)
    accumulators[2 * lane + 1] = high ^ word(derived, 132 + 8 * lane)
    multiply(accumulators, 2 * lane, prime32x1, 0)
  }
}

function deriveSecret(seedLow: number, seedHigh: number): void {
  for (let at = 0; at < 192; at += 16) {
    const sum = (word(secret, at) + seedLow) | 0
    derived.setInt32(at, sum, true)
    derived.setInt32(at + 4, word(secret, at + 4) + seedHigh + carry(sum, seedLow), true)
    const minuend = word(secret, at + 8)
    derived.setInt32(at + 8, minuend - seedLow, true)
    derived.setInt32(at + 12, word(secret, at + 12) - seedHigh - borrow(minuend, seedLow), true)
  }
}

/** h += fold of 16 bytes, keyed with the secret plus and minus the seed. */
function mix(input: DataView, offset: number, secretOffset: number, seedLow: number, seedHigh: number): void {
  const sum = (word(secret, secretOffset) + seedLow) | 0
  const minuend = word(secret, secretOffset + 8)
  addFold(
    h,
    0,
    word(input, offset) ^ sum,
    word(input, offset + 4) ^ ((word(secret, secretOffset + 4) + seedHigh + carry(sum, seedLow)) | 0),
    word(input, offset + 8) ^ ((minuend - seedLow) | 0),
    word(input, offset + 12) ^ ((word(secret, secretOffset + 12) - seedHigh - borrow(minuend, seedLow)) | 0),
  )
}

/** h = length * prime */
function startFrom(length: number): void {
  h[0] = length
  h[1] = 0
  multiply(h, 0, prime64x1Low, prime64x1High)
}

function avalanche(): void {
  h[0] = h[0]! ^ (h[1]! >>> 5) // h ^= h >> 37
  multiply(h, 0, primeMx1Low, primeMx1High)
  h[0] = h[0]! ^ h[1]!
}

function avalancheOfXxh64(): void {
  h[0] = h[0]! ^ (h[1]! >>> 1) // h ^= h >> 33
  multiply(h, 0, prime64x2Low, prime64x2High)
  h[0] = h[0]! ^ ((h[0]! >>> 29) | (h[1]! << 3))
  h[1] = h[1]! ^ (h[1]! >>> 29)
  multiply(h, 0, prime64x3Low, prime64x3High)
  h[0] = h[0]! ^ h[1]!
}

function word(view: DataView, offset: number): number {
  return view.getInt32(offset, true)
}

function borrow(minuend: number, subtrahend: number): number {
  return minuend >>> 0 < subtrahend >>> 0 ? 1 : 0
}

function swapBytes(value: number): number {
  return (value << 24) | ((value << 8) & 0xff0000) | ((value >>> 8) & 0xff00) | (value >>> 24)
}
