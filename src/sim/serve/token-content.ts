/** The tokens of one request, prompt and answer, and the digests of the blocks they fill. */
import type { BlockContent } from '../engine/request.js'
import type { BlockChain } from './block-chain.js'

export class TokenContent implements BlockContent {
  readonly tokens: number[]
  readonly promptTokens: number
  readonly #blockTokens: number
  readonly #chain: BlockChain
  readonly #digests: Uint8Array[] = []
  readonly #keys: number[] = []

  constructor(prompt: readonly number[], blockTokens: number, chain: BlockChain) {
    this.tokens = [...prompt]
    this.promptTokens = prompt.length
    this.#blockTokens = blockTokens
    this.#chain = chain
  }

  push(token: number): void {
    this.tokens.push(token)
  }

  keyAt(index: number): number {
    this.#reach(index)
    return this.#keys[index]!
  }

  digestAt(index: number): Uint8Array {
    this.#reach(index)
    return this.#digests[index]!
  }

  tokensOf(from: number, to: number): number[] {
    return this.tokens.slice(from * this.#blockTokens, to * this.#blockTokens)
  }

  #reach(index: number): void {
    const size = this.#blockTokens
    while (this.#digests.length <= index) {
      const at = this.#digests.length
      const digest = this.#chain.next(this.#digests[at - 1], this.tokens, at * size, (at + 1) * size)
      this.#digests.push(digest)
      this.#keys.push(this.#chain.keyOf(digest))
    }
  }
}
