/** Several snapshots in one: [ magic | version | shards | bytes in all | length of each ... ], then the images. */
import { WarmrouteError } from '../protocol/index.js'

const magic = 0x53495257 // "WRIS"
const version = 1

export function writeManyImages(images: readonly Uint8Array[]): Uint8Array {
  const head = 16 + 4 * images.length
  const bytes = images.reduce((sum, image) => sum + image.length, head)
  const whole = new Uint8Array(bytes)
  new Uint32Array(whole.buffer, 0, head / 4).set([
    magic,
    version,
    images.length,
    bytes,
    ...images.map((it) => it.length),
  ])
  let at = head
  for (const image of images) {
    whole.set(image, at)
    at += image.length
  }
  return whole
}

/** Each image has a checksum of its own, so this one only takes them apart. Throws `WR_SNAPSHOT_INVALID`. */
export function readManyImages(whole: Uint8Array, shards: number): Uint8Array[] {
  const view = new DataView(whole.buffer, whole.byteOffset, whole.byteLength)
  const word = (index: number) => view.getUint32(4 * index, true)
  if (whole.length < 16) refuse('it is truncated')
  if (word(0) !== magic) refuse('it is no index snapshot of several shards')
  if (word(1) !== version) refuse(`its version is ${word(1)}, and this reads ${version}`)
  if (word(3) !== whole.length) refuse('it is truncated')
  if (word(2) !== shards) refuse(`it has ${word(2)} shards, and this index ${shards}`)
  const images: Uint8Array[] = []
  let at = 16 + 4 * shards
  for (let shard = 0; shard < shards; shard++) {
    images.push(whole.subarray(at, at + word(4 + shard)))
    at += word(4 + shard)
  }
  if (at !== whole.length) refuse('its parts do not fill it')
  return images
}

function refuse(reason: string): never {
  throw new WarmrouteError('WR_SNAPSHOT_INVALID', { reason })
}
