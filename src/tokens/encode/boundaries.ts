/**
 * Where a text may be cut, sparsely: pairs of a byte offset and the number of tokens before it, ascending.
 *
 *   pairs   [ at0, tokens0, at1, tokens1, ... ]
 */
const strideBytes = 192
/** Short texts are cut more finely: what lies between two cuts is all that a repeated one costs. */
const shortBytes = 4096
const shortStrideBytes = 48

export class Boundaries {
  count = 0
  /** The next offset at which a boundary is worth keeping. Never 0: a rest that begins there would be taken for a whole text. */
  nextFrom = 1
  pairs: Uint32Array<ArrayBuffer> = new Uint32Array(128)

  clear(): void {
    this.count = 0
    this.nextFrom = 1
  }

  /** Keeps the boundary unless one lies close before it. Offsets ascend. */
  add(at: number, tokens: number): void {
    if (at < this.nextFrom) return
    if (this.count * 2 === this.pairs.length) {
      const larger = new Uint32Array(this.pairs.length * 2)
      larger.set(this.pairs)
      this.pairs = larger
    }
    this.pairs[this.count * 2] = at
    this.pairs[this.count * 2 + 1] = tokens
    this.count++
    this.nextFrom = at + (at < shortBytes ? shortStrideBytes : strideBytes)
  }

  /** A copy, valid after the next text. */
  take(): Uint32Array {
    return this.pairs.slice(0, this.count * 2)
  }
}

/** The last cut at or before byte `limit`: its place among the pairs, or -1. */
export function lastCut(cuts: Uint32Array, limit: number): number {
  let low = 0
  let high = cuts.length >>> 1
  while (low < high) {
    const middle = (low + high) >>> 1
    if (cuts[middle * 2]! <= limit) low = middle + 1
    else high = middle
  }
  return low - 1
}

/** The cuts up to and including `kept` of a known text, then `count` pairs of the rest, moved by what came before it. */
export function joinCuts(
  known: Uint32Array,
  kept: number,
  rest: Uint32Array,
  count: number,
  bytesBefore: number,
): Uint32Array {
  const head = (kept + 1) * 2
  const cuts = new Uint32Array(head + count * 2)
  for (let index = 0; index < head; index++) cuts[index] = known[index]!
  const tokensBefore = head > 0 ? known[head - 1]! : 0
  for (let index = 0; index < count * 2; index += 2) {
    cuts[head + index] = rest[index]! + bytesBefore
    cuts[head + index + 1] = rest[index + 1]! + tokensBefore
  }
  return cuts
}
