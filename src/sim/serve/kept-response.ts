/** A response that a server keeps: what it says of it, what a later request goes on with, and who listens to it. */
import type { Generation } from './generation.js'

export interface KeptResponse {
  /** The response object as it stands. */
  answer: Readonly<Record<string, unknown>>
  conversation: readonly unknown[]
  /** Of a stream in the background: everything it said. */
  readonly events: EventLog | undefined
  /** Of an answer in the background. */
  generation?: Generation
}

type Listener = (type: string, json: string) => void

/** Events that are kept, and told again from any of them on. */
export class EventLog {
  readonly #events: (readonly [type: string, json: string])[] = []
  readonly #listeners = new Set<Listener>()

  add(type: string, json: string): void {
    this.#events.push([type, json])
    for (const listener of this.#listeners) listener(type, json)
  }

  /** Returns the way to stop. */
  follow(from: number, listener: Listener): () => void {
    for (const [type, json] of this.#events.slice(from)) listener(type, json)
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }
}
