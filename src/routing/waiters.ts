/** Parked requests as promises. One that its caller gives up is taken out of the queue at once. */
import { WarmrouteError } from '../core/protocol/index.js'
import type { ParkedRequest, Picked } from '../core/router/index.js'

interface Waiter {
  readonly resolve: (picked: Picked) => void
  readonly reject: (error: WarmrouteError) => void
}

export class Waiters {
  readonly #waiting = new Map<ParkedRequest, Waiter>()
  readonly #cancel: (parked: ParkedRequest) => boolean

  constructor(cancel: (parked: ParkedRequest) => boolean) {
    this.#cancel = cancel
  }

  get size(): number {
    return this.#waiting.size
  }

  /** Settles when the request is placed or refused, or its signal fires. */
  wait(parked: ParkedRequest, signal: AbortSignal | undefined): Promise<Picked> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => this.giveUp(parked)
      const end = (): void => {
        this.#waiting.delete(parked)
        signal?.removeEventListener('abort', onAbort)
      }
      this.#waiting.set(parked, {
        resolve: (picked) => {
          end()
          resolve(picked)
        },
        reject: (error) => {
          end()
          reject(error)
        },
      })
      signal?.addEventListener('abort', onAbort)
      if (signal?.aborted) onAbort() // one that was made for this wait may come too late to say so
    })
  }

  placed(parked: ParkedRequest, picked: Picked): void {
    this.#waiting.get(parked)?.resolve(picked)
  }

  refused(parked: ParkedRequest, error: WarmrouteError): void {
    this.#waiting.get(parked)?.reject(error)
  }

  /** Nothing is booked for it afterwards. */
  giveUp(parked: ParkedRequest): void {
    if (this.#cancel(parked)) this.refused(parked, new WarmrouteError('WR_REQUEST_CANCELLED'))
  }
}
