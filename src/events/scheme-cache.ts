/** Hash schemes by adapter and namespace: making one hashes two names, and every stored event needs one. Bounded. */
import type { HashScheme } from '../core/hashing/index.js'
import { createHashScheme } from '../core/hashing/index.js'

const schemesMax = 4096

export class SchemeCache {
  readonly blockSize: number
  readonly #plain: HashScheme
  readonly #eagle: HashScheme
  readonly #named = new Map<string, Map<string, HashScheme>>()
  #count = 0

  constructor(blockSize: number) {
    this.blockSize = blockSize
    this.#plain = createHashScheme({ blockSize })
    this.#eagle = createHashScheme({ blockSize, isEagle: true })
  }

  get(adapter: string | undefined, namespace: string | undefined, isEagle: boolean): HashScheme {
    if (!adapter && !namespace) return isEagle ? this.#eagle : this.#plain
    const outer = (isEagle ? 'e' : 'p') + (adapter ?? '')
    let ofAdapter = this.#named.get(outer)
    if (!ofAdapter) this.#named.set(outer, (ofAdapter = new Map()))
    let scheme = ofAdapter.get(namespace ?? '')
    if (!scheme) {
      if (this.#count++ >= schemesMax) this.#forget()
      scheme = createHashScheme({
        blockSize: this.blockSize,
        loraName: adapter,
        cacheNamespace: namespace,
        isEagle,
      })
      ofAdapter.set(namespace ?? '', scheme)
    }
    return scheme
  }

  #forget(): void {
    this.#named.clear()
    this.#count = 1
  }
}
