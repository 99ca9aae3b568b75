/** How much memory the bodies of requests under way have, and whether there is room for more. Counts what has arrived: who only declares a long body takes nothing. */
import { WarmrouteError } from '../../core/protocol/index.js'

export class BodyBudget {
  readonly #bytesMax: number
  #heldBytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  get heldBytes(): number {
    return this.#heldBytes
  }

  /** Throws `WR_ALL_WORKERS_OVERLOADED` where these would be too many. */
  requireRoom(bytes: number): void {
    if (this.#heldBytes + bytes > this.#bytesMax)
      throw new WarmrouteError('WR_ALL_WORKERS_OVERLOADED', {
        reason: 'there is no memory for more request bodies',
        limit: this.#bytesMax,
      })
  }

  /** Throws as `requireRoom` does, and then nothing is held. */
  hold(bytes: number): void {
    this.requireRoom(bytes)
    this.#heldBytes += bytes
  }

  release(bytes: number): void {
    this.#heldBytes -= bytes
  }
}
