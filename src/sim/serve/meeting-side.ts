/**
 * Transfers between simulated vLLM engines whose legs start together (NIXL push, Mooncake): the prefill side offers KV under
 * a name that both legs were told, the decode side asks for it, and either may come first. An offer that nobody asks for is
 * dropped when its lease ends; who asks in vain waits until its own patience does.
 */
import type { KvRank, RankRequest } from './kv-rank.js'
import type { Line } from './side-channel.js'
import { ask, SideChannel } from './side-channel.js'
import type { SimWorld } from './sim-world.js'
import { wait, within } from './sim-world.js'

export interface MeetingOptions {
  readonly host: string
  readonly leaseMs: number
  readonly transferMsPerToken: number
  readonly connectMs: number
  /** How long the decode side waits for the prefill side. */
  readonly rendezvousMs: number
}

interface Offer {
  readonly rank: KvRank
  readonly request: RankRequest
}

/** Askers that wait; beyond this a new one is refused. */
const waitingMax = 10_000

export class MeetingSide {
  readonly engineId: string
  readonly #options: MeetingOptions
  readonly #world: SimWorld
  readonly #offers = new Map<string, Offer>()
  readonly #waiting = new Map<string, (line: Line) => void>()
  readonly #channel: SideChannel

  constructor(options: MeetingOptions, engineId: string, world: SimWorld) {
    this.#options = options
    this.engineId = engineId
    this.#world = world
    this.#channel = new SideChannel(world.net, (line, reply, left) => this.#asked(line, reply, left))
  }

  get port(): number {
    return this.#channel.port
  }

  /** Offers that wait for the decode side. */
  get heldCount(): number {
    return this.#offers.size
  }

  open(port: number): Promise<void> {
    return this.#channel.open(this.#options.host, port)
  }

  close(): Promise<void> {
    this.#offers.clear()
    this.#waiting.clear()
    return this.#channel.close()
  }

  /** The prefill is computed: its blocks go to whoever asked, or wait. */
  offer(name: string, rank: KvRank, request: RankRequest): void {
    const waiting = this.#waiting.get(name)
    this.#waiting.delete(name)
    if (waiting) {
      rank.engine.release(request)
      waiting({ done: true })
      return
    }
    const offer: Offer = { rank, request }
    this.#offers.set(name, offer)
    const { clock } = this.#world
    clock.at(clock.now() + this.#options.leaseMs, () => {
      if (this.#offers.get(name) === offer) this.#take(name)
    })
  }

  /** The decode side; rejects when the prefill side cannot be reached, leaves, or does not offer it in time. */
  async fetch(
    from: { readonly host: string; readonly port: number; readonly engineId: string; readonly name: string },
    tokens: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { rendezvousMs, transferMsPerToken } = this.#options
    const { clock, net } = this.#world
    const line = { engine: from.engineId, take: from.name }
    const answer = await ask(net, from, line, within(clock, rendezvousMs, signal))
    if (answer['done'] !== true) throw new Error(String(answer['error']))
    await wait(clock, tokens * transferMsPerToken)
  }

  #asked(line: Line, reply: (line: Line) => void, left: Promise<void>): void {
    const name = String(line['take'])
    if (line['engine'] !== this.engineId) return reply({ error: 'another engine' })
    if (this.#take(name)) return reply({ done: true })
    if (this.#waiting.has(name) || this.#waiting.size >= waitingMax) return reply({ error: 'somebody waits for it' })
    this.#waiting.set(name, reply)
    void left.then(() => {
      if (this.#waiting.get(name) === reply) this.#waiting.delete(name)
    })
  }

  #take(name: string): boolean {
    const offer = this.#offers.get(name)
    this.#offers.delete(name)
    offer?.rank.engine.release(offer.request)
    return offer !== undefined
  }
}
