/**
 * vLLM's NIXL pull between simulated engines: a prefill side that holds blocks under a lease, a decode side that reads them.
 * With the faults of the real one (0.32.0): a read after the lease is not refused, and reads whatever lies there by then.
 */
import type { KvRank, RankRequest } from './kv-rank.js'
import type { Line } from './side-channel.js'
import { ask, SideChannel } from './side-channel.js'
import type { SimWorld } from './sim-world.js'
import { wait, within } from './sim-world.js'

export interface NixlOptions {
  readonly host: string
  /** Side-channel port; 0 takes a free one. */
  readonly port: number
  readonly leaseMs: number
  readonly transferMsPerToken: number
  /** How long a decode engine tries to reach a prefill engine. */
  readonly connectMs: number
}

interface Hold {
  readonly rank: KvRank
  readonly request: RankRequest
  readonly keys: readonly number[]
  isExpired: boolean
}

/** Where held blocks are, and what they are called there. */
export interface ReadSource {
  readonly host: string
  readonly port: number
  readonly engineId: string
  readonly requestId: string
}

export interface ReadResult {
  /** False when other blocks lay where these had been. */
  readonly isIntact: boolean
}

/** Expired holds that are remembered, to tell whether a late read finds its blocks. */
const expiredMax = 10_000

export class NixlSide {
  readonly options: NixlOptions
  readonly engineId: string
  readonly #world: SimWorld
  readonly #holds = new Map<string, Hold>()
  readonly #channel: SideChannel
  #lateReads = 0

  constructor(options: NixlOptions, engineId: string, world: SimWorld) {
    this.options = options
    this.engineId = engineId
    this.#world = world
    this.#channel = new SideChannel(world.net, (line, reply) => reply(this.#asked(line)))
  }

  get port(): number {
    return this.#channel.port
  }

  /** Requests whose blocks wait to be read. */
  get heldCount(): number {
    return [...this.#holds.values()].filter(({ isExpired }) => !isExpired).length
  }

  get lateReadCount(): number {
    return this.#lateReads
  }

  open(port: number): Promise<void> {
    return this.#channel.open(this.options.host, port)
  }

  close(): Promise<void> {
    this.#holds.clear()
    return this.#channel.close()
  }

  /** Keeps a finished request's blocks for a reader, until the lease ends. Answers the ids of the blocks. */
  hold(id: string, rank: KvRank, request: RankRequest): number[] {
    const blockTokens = rank.options.model.blockTokens
    const blocks = Math.ceil(request.promptTokens / blockTokens)
    const whole = Math.floor(request.promptTokens / blockTokens)
    const hold: Hold = {
      rank,
      request,
      keys: Array.from({ length: whole }, (_, index) => request.content.keyAt(index)),
      isExpired: false,
    }
    this.#holds.set(id, hold)
    const { clock } = this.#world
    clock.at(clock.now() + this.options.leaseMs, () => this.#expire(hold))
    while (this.#holds.size > expiredMax) this.#holds.delete(this.#holds.keys().next().value!)
    return Array.from(request.slots.subarray(0, blocks), (slot) => slot + 1) // block 0 is the null block
  }

  /** Reads another engine's blocks; waits for as long as the transfer takes. Rejects when that engine cannot be reached. */
  async read(source: ReadSource, tokens: number, signal: AbortSignal): Promise<ReadResult> {
    const { net, clock } = this.#world
    const { connectMs, transferMsPerToken } = this.options
    const startedMs = clock.now()
    try {
      const line = { engine: source.engineId, read: source.requestId }
      const answer = await ask(net, source, line, within(clock, connectMs, signal))
      if (answer['error'] !== undefined) throw new Error(JSON.stringify(answer['error']))
      await wait(clock, tokens * transferMsPerToken)
      return { isIntact: answer['intact'] === true }
    } catch (error) {
      await wait(clock, Math.max(0, connectMs - (clock.now() - startedMs))) // it keeps trying for that long
      throw error
    }
  }

  /** Tells another engine that its blocks are not needed; does not care whether it hears. */
  forget(source: ReadSource): void {
    const { net, clock } = this.#world
    const line = { engine: source.engineId, forget: source.requestId }
    void ask(net, source, line, within(clock, this.options.connectMs)).catch(() => {})
  }

  #asked(line: Line): Line {
    if (line['engine'] !== this.engineId) return { error: 'another engine' }
    const { read, forget } = line
    const forgotten = typeof forget === 'string' ? this.#holds.get(forget) : undefined
    if (forgotten) this.#expire(forgotten)
    return typeof read === 'string' ? this.#read(read) : {}
  }

  #read(id: string): Line {
    const hold = this.#holds.get(id)
    if (!hold) return { intact: false }
    if (hold.isExpired) this.#lateReads++
    const { pool } = hold.rank.engine.scheduler
    const isIntact = hold.keys.every((key) => pool.find(key) >= 0)
    this.#expire(hold)
    return { intact: isIntact }
  }

  #expire(hold: Hold): void {
    if (hold.isExpired) return
    hold.isExpired = true
    hold.rank.engine.release(hold.request)
  }
}
