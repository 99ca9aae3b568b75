/**
 * A cache beside the engines (LMCache, Mooncake store, offloading): what one computed another finds, without a word about it
 * in any body. Shared by the simulated engines of this process that name the same store.
 */
import { createHash } from 'node:crypto'

/** Blocks that are remembered; the oldest are forgotten first. */
const blocksMax = 200_000

export class SharedStore {
  static readonly #stores = new Map<string, SharedStore>()
  readonly #blocks = new Set<string>()

  static named(name: string): SharedStore {
    let store = SharedStore.#stores.get(name)
    if (!store) SharedStore.#stores.set(name, (store = new SharedStore()))
    return store
  }

  put(prompt: readonly number[], blockTokens: number): void {
    for (const name of namesOf(prompt, blockTokens)) this.#blocks.add(name)
    while (this.#blocks.size > blocksMax) this.#blocks.delete(this.#blocks.values().next().value!)
  }

  /** Leading tokens of the prompt that are there, in whole blocks. */
  find(prompt: readonly number[], blockTokens: number): number {
    let tokens = 0
    for (const name of namesOf(prompt, blockTokens)) {
      if (!this.#blocks.has(name)) break
      tokens += blockTokens
    }
    return tokens
  }
}

/** Each block by all tokens up to its end. */
function* namesOf(prompt: readonly number[], blockTokens: number): Generator<string> {
  let before = ''
  for (let at = 0; at + blockTokens <= prompt.length; at += blockTokens) {
    const block = prompt.slice(at, at + blockTokens).join()
    yield (before = createHash('sha1').update(`${before}/${block}`).digest('base64'))
  }
}
