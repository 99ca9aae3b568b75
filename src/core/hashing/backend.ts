/** What a hash implementation must do. Everything above it (schemes, media, known prefixes) is written once. */
import type { HashColumn } from '../protocol/index.js'
import type { HashScheme } from './hash-scheme.js'

export type HashBackendName = 'wasm' | 'ts'

export interface HashBackend {
  readonly name: HashBackendName

  /**
   * Local and sequence hashes of blocks `from` to `to`, without media. The chain goes on from `sequence[from - 1]`.
   * The columns have room for `to` hashes and the tokens cover every window.
   */
  hashBlocks(
    tokens: Uint32Array,
    scheme: HashScheme,
    from: number,
    to: number,
    local: HashColumn,
    sequence: HashColumn,
  ): void

  /** Sequence hashes of blocks `from` to `to` from their local hashes. */
  chainBlocks(scheme: HashScheme, from: number, to: number, local: HashColumn, sequence: HashColumn): void

  /** One hash of whole words under the scheme's block seed; it becomes hash `at` of `out`. */
  hashWords(words: Uint32Array, scheme: HashScheme, out: HashColumn, at: number): void
}
