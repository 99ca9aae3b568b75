/**
 * A simulated engine server in this process: HTTP on one port, event sockets per rank. `startSimEngine` is what tests,
 * the demo and `warmroute sim` use.
 */
import { randomUUID } from 'node:crypto'
import type { Server } from 'node:http'
import type { Clock } from '../clock.js'
import { BootstrapServer } from './bootstrap.js'
import { EventFeed } from './event-feed.js'
import { engineModel } from './engine-models.js'
import type { Fault } from './faults.js'
import { Faults } from './faults.js'
import type { Generation } from './generation.js'
import type { KeptResponse } from './kept-response.js'
import { createHttpServer } from './http/http-server.js'
import { wireForm } from './kv-wire.js'
import { KvRank } from './kv-rank.js'
import { Latencies } from './latencies.js'
import { MeetingSide } from './meeting-side.js'
import { MooncakeBootstrap } from './mooncake.js'
import { NixlSide } from './nixl.js'
import { hostInUrl, KvPublisher } from './publisher.js'
import { sampleToken } from './sampler.js'
import { SglangSessions } from './sglang-sessions.js'
import { modelOptions, resolveOptions } from './sim-options.js'
import type { ResolvedOptions, SimEngineOptions } from './sim-options.js'
import type { SimWorld } from './sim-world.js'
import { realWorld, wait } from './sim-world.js'
import { TimedFaults } from './timed-faults.js'

export interface SimStats {
  readonly requests: number
  readonly in_flight: number
  readonly restarts: number
  /** Prefills that wait for the other half of their pair. */
  readonly held: number
  /** vLLM: reads that came after the lease, as its own `nixl_num_notifications_after_expiry` counts them. */
  readonly late_reads: number
  /** SGLang: sessions that are open, and requests that ran inside one. */
  readonly sessions: number
  readonly session_requests: number
  readonly ranks: readonly {
    readonly running: number
    readonly waiting: number
    readonly cached_blocks: number
    readonly active_blocks: number
    readonly host_blocks: number
    readonly preemptions: number
    readonly prompt_tokens: number
    readonly cached_tokens: number
    readonly generated_tokens: number
    readonly batches_numbered: number
    readonly batches_sent: number
    readonly batches_dropped: number
    readonly subscribers: number
  }[]
}

/**
 * The handle of a running server. `close` settles when its sockets are closed.
 *
 * @example
 * import { type SimEngine, startSimEngine } from 'warmroute/sim'
 *
 * const engine: SimEngine = await startSimEngine({ engine: 'sglang' })
 * console.log(engine.stats().requests) // => 0
 * await engine.close()
 */
export interface SimEngine {
  readonly url: string
  readonly port: number
  readonly eventPorts: readonly number[]
  readonly replayPorts: readonly number[]
  /** NIXL's side channel, Mooncake's or SGLang's bootstrap server; 0 where there is none. */
  readonly pairPort: number
  stats(): SimStats
  /** Digests of the blocks that a rank holds now, as hex, with their copies: what an index should know. */
  cached(rank: number): Map<string, number>
  arm(faults: readonly Fault[]): void
  clearFaults(): void
  /** Crashes and comes back after `downMs` on the same ports with an empty cache; its batches count from 0 again. */
  restart(downMs?: number): Promise<void>
  close(): Promise<void>
}

/**
 * An engine server in this process that clients and routers cannot tell from a real one: HTTP, KV events, replay, metrics.
 *
 * @example
 * import { startSimEngine } from 'warmroute/sim'
 *
 * const engine = await startSimEngine({ engine: 'vllm', speedup: 100 })
 * const { status } = await fetch(`${engine.url}/health`)
 * console.log(status) // => 200
 * await engine.close()
 */
export async function startSimEngine(options: SimEngineOptions): Promise<SimEngine> {
  return startSimEngineIn(realWorld(), options)
}

/** On another clock than the real one, without events. */
export async function startSimEngineIn(world: SimWorld, options: SimEngineOptions): Promise<SimEngine> {
  const server = new SimServer(resolveOptions(options), world)
  try {
    await server.open()
  } catch (error) {
    await server.close() // what was opened before: it would keep the process alive
    throw error
  }
  return server
}

interface Ports {
  readonly events: readonly number[]
  readonly replay: readonly number[]
  readonly pair: number
}

/** What the routes see of the server. */
export class SimServer implements SimEngine {
  readonly options: ResolvedOptions
  readonly faults: Faults
  readonly world: SimWorld
  readonly clock: Clock
  readonly latencies = new Latencies()
  startedSeconds = Date.now() / 1000
  ranks: KvRank[] = []
  publishers: KvPublisher[] = []
  nixl: NixlSide | undefined
  bootstrap: BootstrapServer | undefined
  meeting: MeetingSide | undefined
  mooncake: MooncakeBootstrap | undefined
  readonly sessions = new SglangSessions(() => this.clock.now())
  /** Generations that run, by the id their client knows. */
  readonly live = new Map<string, Generation>()
  /** By id, for as long as the process lives: nothing is ever taken out, as in the real one. */
  readonly responses = new Map<string, KeptResponse>()
  requests = 0
  inFlight = 0
  isPaused = false
  isAsleep = false
  readonly #timed = new TimedFaults(this)
  #restarts = 0
  #restarting: Promise<void> | undefined
  #turn = 0
  #ids: number
  #http: Server | undefined
  #lastPorts: Ports | undefined
  #port = 0
  #isClosed = false

  constructor(options: ResolvedOptions, world: SimWorld) {
    this.options = options
    this.world = world
    this.clock = world.clock
    this.#ids = options.seed
    this.faults = new Faults(() => this.clock.now(), options.seed, options.worker)
  }

  get url(): string {
    return `http://${hostInUrl(this.options.host)}:${this.#port}`
  }

  get port(): number {
    return this.#port
  }

  get eventPorts(): number[] {
    return this.publishers.map(({ port }) => port)
  }

  get replayPorts(): number[] {
    return this.publishers.map(({ replayPort }) => replayPort)
  }

  get pairPort(): number {
    return (this.mooncake ?? this.meeting ?? this.nixl ?? this.bootstrap)?.port ?? 0
  }

  async open(): Promise<void> {
    await this.#openRanks(undefined)
    await this.#listen(this.options.port)
    this.arm(this.options.faults)
  }

  stats(): SimStats {
    return {
      requests: this.requests,
      in_flight: this.inFlight,
      restarts: this.#restarts,
      sessions: this.sessions.size,
      session_requests: this.sessions.requests,
      late_reads: this.nixl?.lateReadCount ?? 0,
      held: (this.nixl ?? this.meeting)?.heldCount ?? this.bootstrap?.roomCount ?? 0,
      ranks: this.ranks.map(({ engine: { scheduler }, totals }, rank) => {
        const counts = this.publishers[rank]?.counts
        return {
          running: scheduler.runningCount,
          waiting: scheduler.waitingCount,
          cached_blocks: scheduler.pool.cachedCount,
          active_blocks: scheduler.pool.activeCount,
          host_blocks: scheduler.host.size,
          preemptions: scheduler.preemptionCount,
          prompt_tokens: totals.promptTokens,
          cached_tokens: totals.cachedTokens,
          generated_tokens: totals.generatedTokens,
          batches_numbered: Number(counts?.numbered ?? 0n),
          batches_sent: counts?.sent ?? 0,
          batches_dropped: counts?.dropped ?? 0,
          subscribers: counts?.subscribers ?? 0,
        }
      }),
    }
  }

  cached(rank: number): Map<string, number> {
    return this.ranks[rank]?.cachedDigests() ?? new Map<string, number>()
  }

  arm(faults: readonly Fault[]): void {
    for (const armed of this.faults.arm(faults)) this.#timed.arm(armed)
  }

  clearFaults(): void {
    this.faults.clear()
    this.#timed.end()
  }

  /** Of one that is on its way back already: waits for that. */
  restart(downMs = 0): Promise<void> {
    this.#restarting ??= this.#restart(downMs).finally(() => {
      this.#restarting = undefined
    })
    return this.#restarting
  }

  async #restart(downMs: number): Promise<void> {
    if (this.#isClosed) return
    this.#restarts++
    if (this.#http) await this.crash()
    const ports = this.#lastPorts
    if (downMs > 0) await wait(this.clock, downMs)
    if (this.#isClosed) return
    this.startedSeconds = Date.now() / 1000
    this.latencies.clear()
    await this.#openRanks(ports)
    await this.#listen(this.#port)
  }

  /** Goes down and stays down until it is restarted: an engine core that died takes its server along. */
  async crash(): Promise<void> {
    const own = this.publishers.map((publisher) => publisher.ownPorts) // also while their sockets are closed
    this.#lastPorts = {
      events: own.map(([events]) => events),
      replay: own.map(([, replay]) => replay),
      pair: this.pairPort,
    }
    await this.#shut()
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#shut()
    this.world.leave?.()
  }

  /** The rank for a request that names none: the least loaded, in turn among equals. */
  pickRank(): number {
    const loads = this.ranks.map(({ engine: { scheduler } }) => scheduler.waitingCount * 4 + scheduler.runningCount)
    const least = Math.min(...loads)
    for (let step = 1; step <= loads.length; step++) {
      const rank = (this.#turn + step) % loads.length
      if (loads[rank] === least) {
        this.#turn = rank
        return rank
      }
    }
    return 0
  }

  /** 16 hex digits, by seed. */
  newId(): string {
    const next = (): string => {
      this.#ids = (Math.imul(this.#ids, 1664525) + 1013904223) >>> 0
      return this.#ids.toString(16).padStart(8, '0')
    }
    return next() + next()
  }

  unixSeconds(): number {
    return Date.now() / 1000 + (this.faults.strike('clock_skew')?.seconds ?? 0)
  }

  async #openRanks(ports: Ports | undefined): Promise<void> {
    const { options } = this
    this.publishers = options.events ? await this.#openPublishers(ports) : []
    await this.#openPair(ports?.pair)
    const loraIds = new Map(options.adapters.map((name, index) => [name, index + 1]))
    this.ranks = Array.from({ length: options.ranks }, (_, rank) => {
      const publisher = this.publishers[rank]
      const feed = publisher ? new EventFeed(publisher, rank, this.faults, this.clock) : undefined
      return new KvRank(
        {
          engine: options.engine,
          // SGLang's decode side keeps no prefix cache, and so publishes nothing.
          model: engineModel(options.engine, {
            ...modelOptions(options),
            isPrefixCaching: options.pair?.kind !== 'decode',
          }),
          hashSeed: options.hashSeed,
          decodeLogInterval: options.decodeLogInterval,
          loraIds,
          sample: (content, sampling) => sampleToken(content.tokens, options.tokenizer, sampling),
        },
        this.clock,
        (events) => feed?.publish(events),
      )
    })
  }

  async #openPair(before: number | undefined): Promise<void> {
    const { pair, host } = this.options
    if (!pair) return
    const port = before || pair.port
    const engineId = pair.engineId ?? randomUUID()
    if (pair.kind === 'nixl') {
      this.nixl = new NixlSide({ ...pair, host }, engineId, this.world)
      await this.nixl.open(port)
    } else if (pair.kind === 'nixl_push' || pair.kind === 'mooncake') {
      const meeting = (this.meeting = new MeetingSide({ ...pair, host }, engineId, this.world))
      await meeting.open(pair.kind === 'mooncake' ? 0 : port)
      if (pair.kind === 'nixl_push') return
      this.mooncake = new MooncakeBootstrap(this.world.net, () => ({
        '0': { engine_id: engineId, worker_addr: `${hostInUrl(host)}:${meeting.port}` },
      }))
      await this.mooncake.open(host, port)
    } else if (pair.kind === 'prefill') {
      this.bootstrap = new BootstrapServer(this.world)
      await this.bootstrap.open(host, port)
    }
  }

  /** Ranks listen on neighbouring ports, because SGLang names only the first; a taken neighbour means trying elsewhere. */
  async #openPublishers(ports: Ports | undefined): Promise<KvPublisher[]> {
    const { host, ranks, events, engine, version, hashes } = this.options
    const form = wireForm(engine, version, hashes)
    for (let attempt = 0; ; attempt++) {
      const opened: KvPublisher[] = []
      try {
        for (let rank = 0; rank < ranks; rank++) {
          const base = ports?.events[0] ?? (events!.port || opened[0]?.port)
          const replayBase = ports?.replay[0] ?? (events!.replayPort || opened[0]?.replayPort)
          opened.push(
            await KvPublisher.open({
              endpoint: `tcp://${hostInUrl(host)}:${base ? base + rank : '*'}`,
              replayEndpoint: `tcp://${hostInUrl(host)}:${replayBase ? replayBase + rank : '*'}`,
              topic: events!.topic,
              bufferSteps: events!.bufferSteps,
              form,
              replayWaitMs: () => this.#replayWaitMs(rank),
            }),
          )
        }
        return opened
      } catch (error) {
        for (const publisher of opened) publisher.unbind()
        if (attempt >= 50) throw error
        await wait(this.clock, 5)
      }
    }
  }

  #replayWaitMs(rank: number): number {
    const late = this.faults.strike('late_replay', rank)
    return late ? this.faults.drawn(late) : 0
  }

  async #listen(port: number): Promise<void> {
    const http = createHttpServer(this)
    this.#port = await this.world.net.listen(http, this.options.host, port)
    this.#http = http
  }

  /** As a killed process looks from outside: connections are cut, nothing is announced. */
  async #shut(): Promise<void> {
    for (const { engine } of this.ranks) engine.stop()
    this.#timed.close()
    for (const publisher of this.publishers) publisher.retire()
    const sides = [this.nixl, this.meeting, this.mooncake, this.bootstrap]
    for (const side of sides) await side?.close()
    this.inFlight = 0
    this.live.clear()
    this.sessions.clear()
    this.responses.clear()
    const http = this.#http
    this.#http = undefined
    if (http) await this.world.net.close(http)
  }
}
