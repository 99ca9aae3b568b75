/**
 * vLLM's NIXL pull between simulated engines: a prefill side that holds blocks under a lease, a decode side that reads them.
 * With the faults of the real one (0.32.0): a read after the lease is not refused, and reads whatever lies there by then.
 */
import type { Clock } from '../clock.js'
import type { KvRank, RankRequest } from './kv-rank.js'
import { ask, SideChannel } from './side-channel.js'

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

export interface ReadResult {
  /** False when other blocks lay where these had been. */
  readonly isIntact: boolean
}

/** Expired holds that are remembered, to tell whether a late read finds its blocks. */
const expiredMax = 10_000

export class NixlSide {
  readonly options: NixlOptions
  readonly engineId: string
  readonly #clock: Clock
  readonly #holds = new Map<string, Hold>()
  readonly #channel = new SideChannel((line, reply) => reply(this.#read(line)))
  #lateReads = 0

  constructor(options: NixlOptions, engineId: string, clock: Clock) {
    this.options = options
    this.engineId = engineId
    this.#clock = clock
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
    this.#clock.at(this.#clock.now() + this.options.leaseMs, () => this.#expire(hold))
    while (this.#holds.size > expiredMax) this.#holds.delete(this.#holds.keys().next().value!)
    return Array.from(request.slots.subarray(0, blocks), (slot) => slot + 1) // block 0 is the null block
  }

  /** Reads another engine's blocks; waits for as long as the transfer takes. Rejects when that engine cannot be reached. */
  async read(
    source: {
      readonly host: string
      readonly port: number
      readonly engineId: string
      readonly requestId: string
      readonly tokens: number
    },
    signal: AbortSignal,
  ): Promise<ReadResult> {
    const { host, port, engineId, requestId, tokens } = source
    const { connectMs, transferMsPerToken } = this.options
    const startedMs = this.#clock.now()
    try {
      const limit = AbortSignal.any([signal, AbortSignal.timeout(connectMs)])
      const answer = await ask(host, port, { engine: engineId, read: requestId }, limit)
      if (answer['error'] !== undefined) throw new Error(JSON.stringify(answer['error']))
      await this.#wait(tokens * transferMsPerToken)
      return { isIntact: answer['intact'] === true }
    } catch (error) {
      await this.#wait(Math.max(0, connectMs - (this.#clock.now() - startedMs))) // it keeps trying for that long
      throw error
    }
  }

  /** Tells another engine that its blocks are not needed; does not care whether it hears. */
  forget(source: {
    readonly host: string
    readonly port: number
    readonly engineId: string
    readonly requestId: string
  }): void {
    const line = { engine: source.engineId, read: source.requestId }
    void ask(source.host, source.port, line, AbortSignal.timeout(this.options.connectMs)).catch(() => {})
  }

  #read(line: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
    if (line['engine'] !== this.engineId) return { error: 'another engine' }
    const id = String(line['read'])
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

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => this.#clock.at(this.#clock.now() + ms, resolve))
  }
}
