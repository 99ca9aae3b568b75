/** The hashes in plain TypeScript: the fallback where WebAssembly is missing, and the kernel's second oracle. */
import type { HashColumn } from '../protocol/index.js'
import type { HashBackend } from './backend.js'
import type { HashScheme } from './hash-scheme.js'
import { windowOf } from './hash-scheme.js'
import { xxh3Into, xxh3PairInto } from './xxh3.js'

export class TsBackend implements HashBackend {
  readonly name = 'ts'

  hashBlocks(
    tokens: Uint32Array,
    scheme: HashScheme,
    from: number,
    to: number,
    local: HashColumn,
    sequence: HashColumn,
  ): void {
    const view = new DataView(tokens.buffer, tokens.byteOffset, tokens.byteLength)
    const stride = 4 * scheme.blockSize
    const window = 4 * windowOf(scheme)
    const seedLow = scheme.seeds[0]!
    const seedHigh = scheme.seeds[1]!
    for (let block = from; block < to; block++) {
      xxh3Into(local, block, view, block * stride, window, seedLow, seedHigh)
    }
    this.chainBlocks(scheme, from, to, local, sequence)
  }

  chainBlocks(scheme: HashScheme, from: number, to: number, local: HashColumn, sequence: HashColumn): void {
    const seedLow = scheme.seeds[2]!
    const seedHigh = scheme.seeds[3]!
    let block = from
    if (block === 0 && to > 0) {
      sequence[0] = local[0]!
      sequence[1] = local[1]!
      block = 1
    }
    for (; block < to; block++) {
      const at = 2 * block
      xxh3PairInto(sequence, block, sequence[at - 2]!, sequence[at - 1]!, local[at]!, local[at + 1]!, seedLow, seedHigh)
    }
  }

  hashWords(words: Uint32Array, scheme: HashScheme, out: HashColumn, at: number): void {
    const view = new DataView(words.buffer, words.byteOffset, words.byteLength)
    xxh3Into(out, at, view, 0, words.byteLength, scheme.seeds[0]!, scheme.seeds[1]!)
  }
}
