/** Where a text may be cut, sparsely: byte offsets and the number of tokens before each. */
const strideBytes = 192

export class Boundaries {
  count = 0
  /** The next offset at which a boundary is worth keeping. */
  nextFrom = 0
  at: Uint32Array<ArrayBuffer> = new Uint32Array(64)
  tokens: Uint32Array<ArrayBuffer> = new Uint32Array(64)

  clear(): void {
    this.count = 0
    this.nextFrom = 0
  }

  /** Keeps the boundary unless one lies close before it. Offsets ascend. */
  add(at: number, tokens: number): void {
    if (at < this.nextFrom) return
    if (this.count === this.at.length) {
      this.at = grown(this.at)
      this.tokens = grown(this.tokens)
    }
    this.at[this.count] = at
    this.tokens[this.count++] = tokens
    this.nextFrom = at + strideBytes
  }
}

function grown(column: Uint32Array): Uint32Array<ArrayBuffer> {
  const larger = new Uint32Array(column.length * 2)
  larger.set(column)
  return larger
}
