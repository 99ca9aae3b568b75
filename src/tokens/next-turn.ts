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

/** A text's bytes. A thread that is given a long text itself has it copied to it in one go. */
export async function encodeInSlices(text: string, slice = sliceUnits): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(Buffer.byteLength(text))
  let written = 0
  for (let at = 0, end = 0; at < text.length; at = end) {
    if (at > 0) await nextTurn()
    end = Math.min(text.length, at + slice)
    if (end < text.length && isFirstHalf(text.charCodeAt(end - 1))) end-- // the two halves of a character stay together
    written += utf8.encodeInto(text.slice(at, end), bytes.subarray(written)).written
  }
  return bytes
}

function isFirstHalf(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00
}
