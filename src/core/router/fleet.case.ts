/** A router with workers and no index: tests say what is cached. One helper knows how the core is called. */
import type { MatchColumns, RouterConfigInput, WorkerConfig } from '../protocol/index.js'
import { completeRouterConfig, newMatchColumns, resetMatchColumns, toHashColumn } from '../protocol/index.js'
import type { PolicyConfig } from '../queue/index.js'
import { profileFor } from '../queue/index.js'
import type { Decision, Dispatch } from './decision.js'
import type { RouterCoreOptions } from './router-core.js'
import { RouterCore } from './router-core.js'
import type { SchedulingRequest } from './scheduling-request.js'

export interface FleetOptions extends Partial<Omit<RouterCoreOptions, 'config' | 'profile'>> {
  readonly config?: RouterConfigInput
  readonly policies?: PolicyConfig
  /** How many workers of one rank, ids from 0, or what each says of itself. */
  readonly workers?: number | ReadonlyMap<bigint, Partial<WorkerConfig>>
}

export interface Ask extends Partial<SchedulingRequest> {
  /** Cached blocks by worker id, rank 0. */
  readonly device?: Readonly<Record<number, number>>
  readonly host?: Readonly<Record<number, number>>
  /** Sequence hashes of the prompt; distinct ones for each request unless told. */
  readonly blocks?: readonly bigint[]
}

export class Fleet {
  readonly core: RouterCore
  nowMs = 0
  nextDraw: number | undefined
  #random = 1
  #requests = 0

  constructor(options: FleetOptions = {}) {
    const config = completeRouterConfig(options.config)
    const profile = profileFor(options.policies, undefined, config)
    const given = { blockSize: 16, label: 'decode', ...options } as const
    this.core = new RouterCore({ ...given, config, profile })
    const { workers = 2 } = options
    const configs =
      typeof workers === 'number' ? Array.from({ length: workers }, (_, id) => [BigInt(id), {}] as const) : [...workers]
    for (const [id, config] of configs)
      this.core.setWorker(
        id,
        { dataParallelStartRank: 0, dataParallelSize: 1, maxNumBatchedTokens: 100, ...config },
        this.moment,
      )
  }

  get moment(): { nowMs: number; draw: () => number } {
    return { nowMs: this.nowMs, draw: () => this.nextDraw ?? this.#draw() }
  }

  /** 64 tokens of 16 in their own blocks, unless told. */
  ask(requestId: string | undefined, ask: Ask = {}): Decision {
    const { device = {}, host = {}, blocks, ...rest } = ask
    const promptTokens = rest.promptTokens ?? (blocks ? 16 * blocks.length : 64)
    const base = BigInt(++this.#requests) << 32n
    const hashes =
      blocks ??
      Array.from({ length: Math.max(0, Math.min(1000, Math.floor(promptTokens / 16))) }, (_, at) => base + BigInt(at))
    return this.core.decide(
      {
        requestId,
        promptTokens,
        sequenceHashes: toHashColumn(hashes),
        localHashes: toHashColumn(hashes),
        blockCount: hashes.length,
        isQueryOnly: false,
        ...rest,
      },
      this.moment,
      this.matches(device, host),
    )
  }

  matches(device: Readonly<Record<number, number>>, host: Readonly<Record<number, number>> = {}): MatchColumns {
    const columns = newMatchColumns()
    resetMatchColumns(columns, this.core.ranks.size)
    for (const [id, blocks] of Object.entries(device)) columns.device[this.rank(id)] = blocks
    for (const [id, blocks] of Object.entries(host)) {
      columns.hostPinned[this.rank(id)] = blocks
      columns.hasLowerTiers = true
    }
    return columns
  }

  rank(id: string | number | bigint, dpRank = 0): number {
    return this.core.ranks.find(BigInt(id), dpRank)!
  }

  mark(requestId: string): string[] {
    this.core.markPrefillCompleted(requestId, this.moment)
    return this.left()
  }

  free(requestId: string): string[] {
    this.core.free(requestId, this.moment)
    return this.left()
  }

  recheck(): string[] {
    this.core.recheck(this.moment)
    return this.left()
  }

  /** Who left the queue since the last call: `id@worker`, or `id!CODE`. */
  left(): string[] {
    return this.core.takeDispatched().map(describeDispatch)
  }

  activeTokens(id: number): number {
    return this.core.sequences.activeTokens(this.rank(id), this.nowMs)
  }

  #draw(): number {
    this.#random = (Math.imul(this.#random, 1103515245) + 12345) & 0x7fffffff
    return this.#random / 0x80000000
  }
}

export function outcome(decision: Decision | Dispatch['decision']): string {
  switch (decision.kind) {
    case 'picked':
      return `${decision.worker.workerId}${decision.worker.dpRank === 0 ? '' : `/${decision.worker.dpRank}`}`
    case 'refused':
      return decision.error.code
    case 'parked':
    case 'refresh':
      return decision.kind
  }
}

function describeDispatch({ parked, decision }: Dispatch): string {
  const sign = decision.kind === 'picked' ? '@' : '!'
  return `${parked.request.requestId}${sign}${outcome(decision)}`
}

export const pin = (id: number): Ask => ({ pin: { workerId: BigInt(id), dpRank: 0 } })
export const only = (...ids: number[]): Ask => ({ allowedWorkerIds: new Set(ids.map(BigInt)) })
export const tight = { routerQueueThreshold: 0 }

/** A fleet with every worker busy: one request of 64 tokens on each. */
export function busyFleet(options: FleetOptions = {}): Fleet {
  const fleet = new Fleet({ ...options, config: { ...tight, ...options.config } })
  for (const id of fleet.core.workers.workerIds()) fleet.ask(`busy${id}`, pin(Number(id)))
  return fleet
}
