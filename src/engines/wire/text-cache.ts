/**
 * Turns byte runs into strings without garbage when the same few come again and again (adapters, salts, sessions).
 * Direct-mapped and of fixed size: a run that is new or too long to keep is decoded plainly, and nothing grows.
 */
const slotCount = 256
const keptBytesMax = 256

export class TextCache {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  readonly #runs: (Uint8Array | undefined)[] = Array.from({ length: slotCount }, () => undefined)
  readonly #texts: string[] = Array.from({ length: slotCount }, () => '')

  read(bytes: Uint8Array, start: number, length: number): string {
    if (length > keptBytesMax) return this.#decoder.decode(bytes.subarray(start, start + length))
    let slot = length
    for (let index = 0; index < length; index++) slot = (Math.imul(slot, 31) + bytes[start + index]!) | 0
    slot &= slotCount - 1
    const run = this.#runs[slot]
    if (run !== undefined && isRun(bytes, start, length, run)) return this.#texts[slot]!
    const kept = bytes.slice(start, start + length)
    this.#runs[slot] = kept
    return (this.#texts[slot] = this.#decoder.decode(kept))
  }
}

/** Whether `bytes` from `start` over `length` spell `run`. */
export function isRun(bytes: Uint8Array, start: number, length: number, run: Uint8Array): boolean {
  if (length !== run.length) return false
  for (let index = 0; index < length; index++) if (bytes[start + index] !== run[index]) return false
  return true
}
