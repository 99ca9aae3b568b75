/** A snapshot as bytes in memory, which the product writes and reads piece by piece. */
import { encodeImage, encodePreface, readSnapshot } from './snapshot.js'
import type { RankImage } from './snapshot.js'

export function encodeSnapshot(images: readonly RankImage[]): Uint8Array {
  return Buffer.concat([encodePreface(), ...images.flatMap((it) => [...encodeImage(it)])])
}

export function decodeSnapshot(bytes: Uint8Array): RankImage[] {
  const reading = readSnapshot(bytes.length)
  for (;;) {
    const step = reading.next()
    if (step.done) return step.value
    const { at, into } = step.value
    into.set(bytes.subarray(at, at + into.length))
  }
}
