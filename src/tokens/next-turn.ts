/** Lets everybody else have a turn of the loop: work on a long array is done in slices, with this between them. */
/** Ids that one slice takes: under a millisecond where the code is warm, about three where it is not (docs/decisions/0133). */
export const sliceIds: number = 128 << 10

/** Bytes that one slice copies: 0.4 ms where the copy's memory must be had first, and 1.5 ms where it comes from a virtual machine's host. */
const sliceBytes = 512 << 10

/** An immediate that is set while the loop looks at its sockets still runs before its timers: it sets a second one. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(setImmediate, resolve))
}

/** For many steps of which each is short: lets others have their turn whenever this one has lasted long enough. */
export class Turn {
  #endsAt = performance.now() + turnMsMax

  get isOver(): boolean {
    return performance.now() > this.#endsAt
  }

  async next(): Promise<void> {
    await nextTurn()
    this.#endsAt = performance.now() + turnMsMax
  }
}

const turnMsMax = 2

/**
 * Memory that holds anything, to be written before it is read. `new Uint8Array` would write zeros to all of it at once, and most of what a
 * long array costs is its memory when it is first written to (docs/decisions/0264).
 */
export function unwritten(byteLength: number): ArrayBuffer {
  return Buffer.allocUnsafeSlow(byteLength).buffer
}

/** A copy that has its memory for itself, and so may be given to a thread; with room for more behind it. */
export async function copyInSlices(bytes: Uint8Array, moreBytes = 0): Promise<Uint8Array<ArrayBuffer>> {
  const copy = new Uint8Array(unwritten(bytes.length + moreBytes))
  for (let at = 0; at < bytes.length; at += sliceBytes) {
    if (at > 0) await nextTurn()
    copy.set(bytes.subarray(at, Math.min(bytes.length, at + sliceBytes)), at)
  }
  return copy
}

/** Ids of several arrays, one behind the other. */
export async function joinInSlices(...parts: readonly Uint32Array[]): Promise<Uint32Array> {
  const total = parts.reduce((sum, part) => sum + part.length, 0)
  const joined = new Uint32Array(unwritten(4 * total))
  let written = 0
  for (const part of parts)
    for (let at = 0; at < part.length; at += sliceIds) {
      if (at > 0) await nextTurn()
      const slice = part.subarray(at, at + sliceIds)
      joined.set(slice, written)
      written += slice.length
    }
  return joined
}

/** UTF-16 units that one slice encodes: about half a millisecond. */
const sliceUnits = 256 << 10
const utf8 = new TextEncoder()
const noBytes: Uint8Array = new Uint8Array(0)

/** A text's bytes, behind others where they are given. A thread that is given a long text itself has it copied to it in one go. */
export async function encodeInSlices(
  text: string,
  before: Uint8Array = noBytes,
  slice = sliceUnits,
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = await copyInSlices(before, Buffer.byteLength(text))
  let written = before.length
  for (let at = 0, end = 0; at < text.length; at = end) {
    if (at > 0) await nextTurn()
    end = Math.min(text.length, at + slice)
    if (end < text.length && isFirstHalf(text.charCodeAt(end - 1))) end-- // the two halves of a character stay together
    written += utf8.encodeInto(text.slice(at, end), bytes.subarray(written)).written
  }
  return bytes
}

/** A text of its bytes, all of them: a mark of their order is a character, too. */
export async function decodeInSlices(bytes: Uint8Array, slice = sliceUnits): Promise<string> {
  const utf16 = new TextDecoder('utf-8', { ignoreBOM: true })
  let text = ''
  for (let at = 0; at < bytes.length; at += slice) {
    if (at > 0) await nextTurn()
    text += utf16.decode(bytes.subarray(at, at + slice), { stream: true })
  }
  return text + utf16.decode()
}

/** Of a character of two UTF-16 units. */
export function isFirstHalf(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00
}
