/**
 * 64-bit arithmetic on pairs of 32-bit words, low word first, for the TypeScript twin of the hash kernel. Values live in
 * an `Int32Array` (a register file), because a 64-bit result does not fit one return value and an object would be an
 * allocation per step. Not for general use: `bigint` is clearer wherever it is fast enough.
 */

/** Upper half of the 64-bit product of two unsigned 32-bit words, as an int32. */
export function mulHigh(a: number, b: number): number {
  const aLow = a & 0xffff
  const aHigh = a >>> 16
  const bLow = b & 0xffff
  const bHigh = b >>> 16
  // Each sum below stays under 2^32: (2^16-1)^2 + 2^16-1 = 2^32 - 2^16. So no carry is lost.
  const middle = (Math.imul(aHigh, bLow) + (Math.imul(aLow, bLow) >>> 16)) | 0
  const other = (Math.imul(aLow, bHigh) + (middle & 0xffff)) | 0
  return (Math.imul(aHigh, bHigh) + (middle >>> 16) + (other >>> 16)) | 0
}

/** 1 when `sum = part + anything` wrapped around 2^32. */
export function carry(sum: number, part: number): number {
  return sum >>> 0 < part >>> 0 ? 1 : 0
}

/** registers[at] += (low, high) */
export function add(registers: Int32Array, at: number, low: number, high: number): void {
  const sum = (registers[at]! + low) | 0
  registers[at] = sum
  registers[at + 1] = registers[at + 1]! + high + carry(sum, low)
}

/** registers[at] *= (low, high), modulo 2^64 */
export function multiply(registers: Int32Array, at: number, low: number, high: number): void {
  const ownLow = registers[at]!
  registers[at + 1] = mulHigh(ownLow, low) + Math.imul(ownLow, high) + Math.imul(registers[at + 1]!, low)
  registers[at] = Math.imul(ownLow, low)
}

/** registers[at] += lower half xor upper half of the 128-bit product x * y */
export function addFold(
  registers: Int32Array,
  at: number,
  xLow: number,
  xHigh: number,
  yLow: number,
  yHigh: number,
): void {
  // The product in four words: word 0 is low * low; the cross products meet in words 1 and 2; high * high in 2 and 3.
  const word0 = Math.imul(xLow, yLow)
  const crossA = Math.imul(xLow, yHigh)
  const crossB = Math.imul(xHigh, yLow)
  const sum1 = (mulHigh(xLow, yLow) + crossA) | 0
  const word1 = (sum1 + crossB) | 0
  const carry1 = carry(sum1, crossA) + carry(word1, crossB)

  const highA = mulHigh(xLow, yHigh)
  const highHigh = Math.imul(xHigh, yHigh)
  const sum2 = (mulHigh(xHigh, yLow) + highA) | 0
  const sum3 = (sum2 + highHigh) | 0
  const word2 = (sum3 + carry1) | 0
  const carry2 = carry(sum2, highA) + carry(sum3, highHigh) + carry(word2, carry1)
  const word3 = (mulHigh(xHigh, yHigh) + carry2) | 0
  add(registers, at, word0 ^ word2, word1 ^ word3)
}
