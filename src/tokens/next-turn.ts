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
