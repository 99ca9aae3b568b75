/**
 * Remembers the last frames of a feed by number, time, length and a check over their ends: enough to tell a repeat from a
 * frame of a restarted engine that carries the same number. The newest one is the anchor: an engine that can replay it
 * unchanged is the incarnation that sent it.
 */
const capacity = 64
const checkedBytes = 48

export interface FrameAnchor {
  readonly sequence: number
  /** Unix seconds by the engine's clock; differs between incarnations even where the content does not. */
  readonly timestamp: number
  readonly length: number
  readonly check: number
}

export class RecentFrames {
  readonly #sequences = new Float64Array(capacity).fill(-1)
  readonly #timestamps = new Float64Array(capacity)
  readonly #lengths = new Uint32Array(capacity)
  readonly #checks = new Uint32Array(capacity)
  #newest = -1

  note(sequence: number, timestamp: number, payload: Uint8Array): void {
    const slot = sequence % capacity
    this.#sequences[slot] = sequence
    this.#timestamps[slot] = timestamp
    this.#lengths[slot] = payload.length
    this.#checks[slot] = checkOf(payload)
    this.#newest = sequence
  }

  has(sequence: number, timestamp: number, payload: Uint8Array): boolean {
    const slot = sequence % capacity
    return (
      this.#sequences[slot] === sequence &&
      Object.is(this.#timestamps[slot], timestamp) &&
      this.#lengths[slot] === payload.length &&
      this.#checks[slot] === checkOf(payload)
    )
  }

  /** Time of the newest frame; -Infinity when there is none. */
  get newestTimestamp(): number {
    return this.#newest < 0 ? Number.NEGATIVE_INFINITY : this.#timestamps[this.#newest % capacity]!
  }

  anchor(): FrameAnchor | undefined {
    if (this.#newest < 0) return undefined
    const slot = this.#newest % capacity
    return {
      sequence: this.#newest,
      timestamp: this.#timestamps[slot]!,
      length: this.#lengths[slot]!,
      check: this.#checks[slot]!,
    }
  }

  restore(anchor: FrameAnchor): void {
    this.clear()
    const slot = anchor.sequence % capacity
    this.#sequences[slot] = anchor.sequence
    this.#timestamps[slot] = anchor.timestamp
    this.#lengths[slot] = anchor.length
    this.#checks[slot] = anchor.check
    this.#newest = anchor.sequence
  }

  clear(): void {
    this.#sequences.fill(-1)
    this.#newest = -1
  }
}

/** FNV-1a over both ends: the middle of a large frame is token ids, and hashing all of it would cost what decoding costs. */
function checkOf(payload: Uint8Array): number {
  let check = 0x811c_9dc5
  const head = Math.min(checkedBytes, payload.length)
  for (let index = 0; index < head; index++) check = Math.imul(check ^ payload[index]!, 0x0100_0193)
  for (let index = Math.max(head, payload.length - checkedBytes); index < payload.length; index++) {
    check = Math.imul(check ^ payload[index]!, 0x0100_0193)
  }
  return check >>> 0
}
