/**
 * Replies of a replay socket, as a DEALER sees them. Read from the right, because older engines leave the topic out:
 * `[empty, topic?, sequence, payload]`, and an empty payload ends the replay.
 */
export type ReplayReply =
  | {
      readonly kind: 'batch'
      readonly sequence: number
      readonly payload: Uint8Array
      /** Undefined from engines that leave it out. */
      readonly topic: Uint8Array | undefined
    }
  | { readonly kind: 'end' }
  | { readonly kind: 'broken' }

export function readReplayReply(frames: readonly Uint8Array[]): ReplayReply {
  if (frames.length !== 3 && frames.length !== 4) return { kind: 'broken' }
  const payload = frames.at(-1)!
  if (payload.length === 0) return { kind: 'end' }
  const sequence = readSequence(frames.at(-2)!)
  const topic = frames.length === 4 ? frames[1] : undefined
  return sequence === undefined ? { kind: 'broken' } : { kind: 'batch', sequence, payload, topic }
}

/** Whether a stream that is subscribed by this prefix would have brought the topic. Engines append to it. */
export function isUnder(topic: Uint8Array | undefined, prefix: Uint8Array): boolean {
  return topic === undefined || prefix.every((byte, at) => topic[at] === byte)
}

/** What a DEALER sends: an empty frame in place of the identity, and the first batch wanted. */
export function replayRequest(from: number): [Uint8Array, Uint8Array] {
  const sequence = new Uint8Array(8)
  new DataView(sequence.buffer).setBigUint64(0, BigInt(from))
  return [new Uint8Array(0), sequence]
}

/** A batch number: exactly eight bytes, big-endian. Undefined: something else, or beyond what can be counted to. */
export function readSequence(frame: Uint8Array): number | undefined {
  if (frame.length !== 8) return undefined
  let high = 0
  let low = 0
  for (let index = 0; index < 4; index++) {
    high = high * 256 + frame[index]!
    low = low * 256 + frame[index + 4]!
  }
  return high < 2 ** 21 ? high * 2 ** 32 + low : undefined
}
