/** A buffer in the core's memory that grows when more is asked for; what lay in it is lost then. */
import { address, type IndexCore } from './index-core.js'

export class CoreBuffer {
  readonly #core: IndexCore
  readonly #bytesMin: number
  /** Where it begins, as a byte offset into the core's memory. */
  at = 0
  bytes = 0

  constructor(core: IndexCore, bytesMin: number) {
    this.#core = core
    this.#bytesMin = bytesMin
  }

  /** False where the core has no memory left: the buffer is as large as it was. May make older views of the memory empty. */
  reserve(bytes: number): boolean {
    if (bytes <= this.bytes) return true
    const wanted = Math.max(bytes, 2 * this.bytes, this.#bytesMin)
    const at = address(this.#core.take(wanted))
    if (at === 0) return false
    if (this.bytes > 0) this.#core.give(this.at, this.bytes)
    this.at = at
    this.bytes = wanted
    return true
  }
}
