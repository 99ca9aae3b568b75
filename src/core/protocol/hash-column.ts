/**
 * 64-bit hashes without `bigint`: a column of hashes is a `Uint32Array` with two words per hash, low word first.
 * That is the byte order of a little-endian u64, so a column can be copied into WASM memory or viewed as a
 * `BigUint64Array` as it is. `bigint` is for the public edge, logs and tests: one read of it allocates.
 *
 *   column   [ lo0, hi0, lo1, hi1, ... ]        hash i = column[2i] + column[2i+1] * 2^32
 *
 * @example
 * import type { HashColumn } from 'warmroute/core'
 *
 * const column: HashColumn = new Uint32Array(new BigUint64Array([5n, 2n ** 32n]).buffer)
 * console.log(column) // => Uint32Array(4) [ 5, 0, 0, 1 ]
 */
export type HashColumn = Uint32Array

/** A new column of `count` zeroes, aligned so that it can be viewed as 64-bit words. */
export function newHashColumn(count: number): HashColumn {
  return new Uint32Array(new ArrayBuffer(count * 8))
}

export function hashCount(column: HashColumn): number {
  return column.length >>> 1
}

export function hashAt(column: HashColumn, index: number): bigint {
  return (BigInt(column[2 * index + 1]!) << 32n) | BigInt(column[2 * index]!)
}

export function setHashAt(column: HashColumn, index: number, hash: bigint): void {
  column[2 * index] = Number(hash & 0xffff_ffffn)
  column[2 * index + 1] = Number((hash >> 32n) & 0xffff_ffffn)
}

/** Signed values keep their bits: -1 becomes 2^64 - 1. */
export function toHashColumn(hashes: readonly bigint[]): HashColumn {
  const column = newHashColumn(hashes.length)
  for (let index = 0; index < hashes.length; index++) setHashAt(column, index, hashes[index]!)
  return column
}

export function toBigInts(column: HashColumn): bigint[] {
  return Array.from({ length: hashCount(column) }, (_, index) => hashAt(column, index))
}
