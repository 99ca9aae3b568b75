/**
 * One address and the worker behind it, for as long as the router runs.
 *
 *   waiting ──answers──► joined ──silent for `missesMax` looks──► waiting (asked ever more rarely)
 *      └──────taken away by an admin──┴──────► dismissed
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { EngineFacts, TransferFacts } from '../../engines/index.js'
import type { WorkerLabels, WorkerRole } from '../../server/index.js'
import { HttpProbe, Sighting } from '../../engines/index.js'
import { phaseOf, Turns } from '../../server/index.js'
import { LookGate } from './look-gate.js'

export interface WorkerAddress {
  readonly url: string
  /** The engine's own key. */
  readonly apiKey?: string | undefined
  /** ZeroMQ addresses, for an engine that does not say them itself. */
  readonly events?: string | undefined
  readonly replay?: string | undefined
  /** What its owner says of its half of disaggregated requests; otherwise what the engine says. */
  readonly role?: WorkerRole | undefined
  /** As its deployment labels it; says the role where its owner does not. */
  readonly labels?: WorkerLabels | undefined
  readonly transfer?: TransferFacts | undefined
  readonly taints?: readonly string[] | undefined
  readonly topologyDomains?: Readonly<Record<string, string>> | undefined
  readonly kvTransferDomain?: string | undefined
  readonly kvTransferEnforcement?: 'required' | 'preferred' | undefined
  readonly kvTransferPreferredWeight?: number | undefined
}

export interface KeeperTimes {
  /** Between two looks at a worker that is there: each has its own moment in it. */
  readonly watchMs: number
  /** Between two looks at one that is not: first, and at most. */
  readonly retryMs: readonly [first: number, last: number]
  readonly missesMax: number
  readonly probeMs: number
}

export const keeperTimes: KeeperTimes = { watchMs: 5_000, retryMs: [250, 5_000], missesMax: 3, probeMs: 3_000 }

/** What a keeper tells the house of its worker. */
export interface KeeperHouse {
  /** It answers for the first time, or again after it left. */
  join(keeper: WorkerKeeper, facts: EngineFacts): Promise<void>
  /** It still answers; `before` are the facts of the last look. */
  seen(keeper: WorkerKeeper, facts: EngineFacts, before: EngineFacts): Promise<void>
  leave(keeper: WorkerKeeper): void
  /** Whether the house has it, in whatever part. */
  isIn(keeper: WorkerKeeper): boolean
  /** Its requests make progress: an engine that streams and is slow to say so is not down. */
  isAnswering(keeper: WorkerKeeper): boolean
  failed(keeper: WorkerKeeper, error: unknown): void
}

export type KeeperState = 'waiting' | 'joined' | 'dismissed'

export class WorkerKeeper {
  readonly id: bigint
  readonly address: WorkerAddress
  /** Settles when the address was looked at once, whatever was there. */
  readonly firstLook: Promise<void>
  readonly #house: KeeperHouse
  readonly #times: KeeperTimes
  readonly #gate: LookGate
  readonly #turns: Turns
  readonly #sighting = new Sighting()
  readonly #stop = new AbortController()
  readonly #finished: Promise<void>
  #state: KeeperState = 'waiting'
  #trouble: string | undefined
  #facts: EngineFacts | undefined
  #misses = 0
  /** Looks at one that has never joined, in which questions went unanswered. */
  #partialLooks = 0
  #restarts = 0

  /** `gate` is that of all keepers of the house. */
  constructor(id: bigint, address: WorkerAddress, house: KeeperHouse, times: KeeperTimes, gate = new LookGate()) {
    this.id = id
    this.address = address
    this.#house = house
    this.#times = times
    this.#gate = gate
    this.#turns = new Turns(phaseOf(id), times.watchMs)
    let looked: () => void = () => {}
    this.firstLook = new Promise((resolve) => (looked = resolve))
    this.#finished = this.#run(looked)
  }

  /** Why it was not met at the last look. */
  get trouble(): string | undefined {
    return this.#trouble
  }

  get state(): KeeperState {
    return this.#state
  }

  /** Of the last look that was answered. */
  get facts(): EngineFacts | undefined {
    return this.#facts
  }

  /** How often the engine was seen to be another process, whether or not it was missed meanwhile. */
  get restarts(): number {
    return this.#restarts
  }

  /** Somebody took the worker away on purpose: it is not brought back. */
  dismiss(): void {
    this.#state = 'dismissed'
    this.#stop.abort()
  }

  close(): Promise<void> {
    this.#stop.abort()
    return this.#finished
  }

  async #run(looked: () => void): Promise<void> {
    const { signal } = this.#stop
    const { retryMs } = this.#times
    let missedMs = 0
    while (!signal.aborted) {
      const isThere = await this.#look()
      looked()
      missedMs = isThere ? 0 : pauseAfterMiss(this.#state === 'joined' ? 0 : missedMs, retryMs)
      const pauseMs = isThere ? this.#turns.waitMs(performance.now()) : missedMs
      await pause(pauseMs, undefined, { signal, ref: false }).catch(() => undefined)
    }
    looked()
  }

  async #look(): Promise<boolean> {
    const facts = this.#state === 'joined' ? await this.#ask() : await this.#askInTurn()
    if (this.#stop.signal.aborted) return false
    try {
      if (!facts) this.#missed()
      else await this.#met(facts)
    } catch (error) {
      if (this.#stop.signal.aborted) return false
      if (this.#state === 'joined' && !this.#house.isIn(this)) this.#state = 'waiting' // it joins anew, ever more rarely tried
      this.#house.failed(this, error)
      return false
    }
    return facts !== undefined
  }

  async #met(facts: EngineFacts): Promise<void> {
    this.#misses = 0
    const before = this.#facts
    this.#facts = facts
    if (isOtherProcess(facts, before)) this.#restarts++
    // One that is in stays in though the house failed at it: it is seen again, and missed like any other.
    if (this.#state === 'joined') return this.#house.seen(this, facts, before!)
    this.#state = 'joined'
    try {
      await this.#house.join(this, facts)
    } catch (error) {
      this.#house.leave(this) // whatever of it is in already
      throw error
    }
  }

  #missed(): void {
    if (this.#state === 'joined' && this.#house.isAnswering(this)) return
    if (this.#state !== 'joined' || ++this.#misses < this.#times.missesMax) return
    this.#state = 'waiting'
    this.#house.leave(this)
  }

  /** Of one that is not in: many of them would otherwise be asked in the same moment. */
  async #askInTurn(): Promise<EngineFacts | undefined> {
    const leave = await this.#gate.enter()
    try {
      return this.#stop.signal.aborted ? undefined : await this.#ask()
    } finally {
      leave()
    }
  }

  /** Undefined: nothing there serves a model. One question decides, so that a silent host costs one deadline. */
  async #ask(): Promise<EngineFacts | undefined> {
    const { signal } = this.#stop
    const { url: baseUrl, apiKey } = this.address
    const probe = new HttpProbe({ baseUrl, apiKey, signal, timeoutMs: this.#times.probeMs })
    const models = await probe.get('/v1/models')
    if (signal.aborted) return undefined // nobody asks any more, which is no trouble of the worker's
    this.#trouble = models ? statusTrouble(models.status) : probe.trouble
    if (models?.status !== 200) return undefined
    if (this.#facts && (await this.#sighting.isSame(probe, models))) return this.#facts
    const facts = await this.#sighting.detect(probe, models)
    if (!facts.models || facts.models.value.length === 0) return undefined
    if (probe.unanswered === 0) return facts
    // A worker without its block size would be routed by a wrong one: a slow answer is waited for, up to a point.
    if (!this.#facts) return ++this.#partialLooks < this.#times.missesMax ? undefined : facts
    return withAnswersOf(this.#facts, facts)
  }
}

function statusTrouble(status: number): string | undefined {
  if (status === 200) return undefined
  if (status === 401 || status === 403) return `it wants a key (status ${status}): --engine-api-key <key>`
  return `/v1/models answered ${status}`
}

export function isOtherProcess(facts: EngineFacts, before: EngineFacts | undefined): boolean {
  return facts.incarnation && before?.incarnation ? facts.incarnation.value !== before.incarnation.value : false
}

/** What a question said that is not answered this time, as by an engine whose `/metrics` takes its time: it still holds. */
function withAnswersOf(before: EngineFacts, facts: EngineFacts): EngineFacts {
  return facts.kind.value !== before.kind.value || isOtherProcess(facts, before) ? facts : { ...before, ...facts }
}

/** Ever longer, up to a last one; `lastMs` is 0 after a look that was answered. */
export function pauseAfterMiss(lastMs: number, [first, last]: KeeperTimes['retryMs']): number {
  return lastMs === 0 ? first : Math.min(2 * lastMs, last)
}
