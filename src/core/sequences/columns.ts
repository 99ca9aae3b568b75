/** Longer copies of columns. A column is replaced when it grows, so nobody may keep a reference across a mutation. */

/** At least `needed` long, and at least half as long again as now, so that growing costs O(1) per row over time. */
export function roomFor(needed: number, length: number): number {
  return Math.max(needed, length + (length >>> 1), 16)
}

export function growInt32(column: Int32Array, length: number, fill = 0): Int32Array<ArrayBuffer> {
  const grown = new Int32Array(length)
  grown.set(column)
  if (fill !== 0) grown.fill(fill, column.length)
  return grown
}

export function growUint32(column: Uint32Array, length: number): Uint32Array<ArrayBuffer> {
  const grown = new Uint32Array(length)
  grown.set(column)
  return grown
}

export function growFloat64(column: Float64Array, length: number): Float64Array<ArrayBuffer> {
  const grown = new Float64Array(length)
  grown.set(column)
  return grown
}
