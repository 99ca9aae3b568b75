/**
 * How routers tell each other where sessions live (`session_affinity_events` of 1.5.0-dev): best effort, since the first
 * live binding wins wherever it is known, and whoever missed the news chooses for itself. What an event means is decided by
 * `AffinityCoordinator.applyRemote`; a carrier only carries. The one here joins routers of one process; one that crosses a
 * network is another implementation of the same interface.
 */
import type { AffinityEvent } from '../core/sessions/index.js'

/** Prefill and decode have sessions of their own. */
export type AffinityPhase = 'decode' | 'prefill'

export interface AffinityTopic {
  readonly model: string
  readonly phase: AffinityPhase
}

export interface AffinityCarrier {
  /** `onEvent` hears what the others of the topic publish, in another turn of the loop, until the link is closed. */
  join(topic: AffinityTopic, onEvent: (event: AffinityEvent) => void): AffinityLink
}

export interface AffinityLink {
  /** Never throws and never waits. False: somebody did not get it. */
  publish(event: AffinityEvent): boolean
  close(): void
}

export interface InProcessCarrierOptions {
  /** Events that wait for one member; further ones are dropped. */
  readonly queueMax?: number
  /** Runs it in another turn of the loop. */
  readonly soon?: (run: () => void) => void
}

class Member {
  readonly onEvent: (event: AffinityEvent) => void
  waiting: AffinityEvent[] = []

  constructor(onEvent: (event: AffinityEvent) => void) {
    this.onEvent = onEvent
  }
}

/** Joins the routers of one process. */
export class InProcessAffinityCarrier implements AffinityCarrier {
  readonly #members = new Map<string, Set<Member>>()
  readonly #queueMax: number
  readonly #soon: (run: () => void) => void
  #dropped = 0

  constructor(options: InProcessCarrierOptions = {}) {
    this.#queueMax = options.queueMax ?? 4096
    this.#soon = options.soon ?? ((run) => void setImmediate(run))
  }

  /** Events that a full queue had no room for. */
  get dropped(): number {
    return this.#dropped
  }

  join({ model, phase }: AffinityTopic, onEvent: (event: AffinityEvent) => void): AffinityLink {
    const key = `${phase}\0${model}`
    const members = this.#members.get(key) ?? new Set()
    this.#members.set(key, members)
    const member = new Member(onEvent)
    members.add(member)
    return {
      publish: (event) => this.#publish(members, member, event),
      close: () => {
        members.delete(member)
        member.waiting = []
        if (members.size === 0 && this.#members.get(key) === members) this.#members.delete(key)
      },
    }
  }

  #publish(members: ReadonlySet<Member>, from: Member, event: AffinityEvent): boolean {
    if (!members.has(from)) return false // its link is closed
    let isWhole = true
    for (const member of members) {
      if (member === from) continue
      if (member.waiting.length >= this.#queueMax) {
        this.#dropped++
        isWhole = false
        continue
      }
      member.waiting.push(event)
      if (member.waiting.length === 1) this.#soon(() => deliver(member))
    }
    return isWhole
  }
}

function deliver(member: Member): void {
  const events = member.waiting
  member.waiting = []
  for (const event of events) member.onEvent(event)
}
