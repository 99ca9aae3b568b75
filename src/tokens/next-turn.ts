/** Lets everybody else have a turn of the loop: work on a long array is done in slices, with this between them. */
/** Ids that one slice takes: under a millisecond where the code is warm, about three where it is not (docs/decisions/0133). */
export const sliceIds: number = 128 << 10

/** Bytes that one slice copies: under a millisecond. */
const sliceBytes = 2 << 20

/** An immediate that is set while the loop looks at its sockets still runs before its timers: it sets a second one. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(setImmediate, resolve))
}

/** A copy that has its memory for itself, and so may be given to a thread; with room for more behind it. */
export async function copyInSlices(bytes: Uint8Array, moreBytes = 0): Promise<Uint8Array<ArrayBuffer>> {
  const copy = new Uint8Array(bytes.length + moreBytes)
  for (let at = 0; at < bytes.length; at += sliceBytes) {
    if (at > 0) await nextTurn()
    copy.set(bytes.subarray(at, Math.min(bytes.length, at + sliceBytes)), at)
  }
  return copy
}

/** UTF-16 units that one slice encodes: about a millisecond. */
const sliceUnits = 512 << 10
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

function isFirstHalf(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00
}
