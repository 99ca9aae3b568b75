/**
 * What must be awaited before a decision: an index that somebody else keeps, and a shared cache, both at once. The index
 * failing fails the request; the shared cache failing is logged and counted, and the decision is made without its hits.
 */
import type { Tracer } from '@opentelemetry/api'
import type { MatchColumns } from '../core/protocol/index.js'
import { newMatchColumns, resetMatchColumns } from '../core/protocol/index.js'
import type { RouterCore } from '../core/router/index.js'
import type { SharedCacheHits } from '../core/selection/index.js'
import type { FindBestMatch } from './best-match.js'
import type { WaitEnd } from './deadline.js'
import { withDeadline } from './deadline.js'
import type { KvRouterOptions } from './kv-router-options.js'
import type { Prompt } from './prompt.js'
import type { RemoteIndexPort, RemoteMatch, RouterClock, RouterLog, RouterObserver } from './router-ports.js'
import { inSpan } from './spans.js'
import { signalOf } from './wait-signal.js'

export interface Found {
  /** Absent where the index is here: it is asked right before the decision, and so is up to date. */
  readonly matches: (() => MatchColumns) | undefined
  readonly findMatchesMs: number | undefined
  readonly sharedHits: SharedCacheHits | undefined
  readonly sharedCacheMs: number | undefined
  /** Why the shared cache has no answer. */
  readonly sharedError: string | undefined
}

type Settled<T> = { readonly kind: 'answer'; readonly value: T } | { readonly kind: 'failure'; readonly error: unknown }

export class Lookups {
  readonly #core: RouterCore
  readonly #options: KvRouterOptions<unknown>
  readonly #clock: RouterClock
  readonly #tracer: Tracer
  readonly #log: RouterLog
  readonly #observer: RouterObserver

  constructor(
    core: RouterCore,
    options: KvRouterOptions<unknown>,
    clock: RouterClock,
    tracer: Tracer,
    log: RouterLog,
    observer: RouterObserver,
  ) {
    this.#core = core
    this.#options = options
    this.#clock = clock
    this.#tracer = tracer
    this.#log = log
    this.#observer = observer
  }

  mustAwait(input: FindBestMatch): boolean {
    return this.#core.index === undefined || (this.#options.sharedCache !== undefined && input.tokens !== undefined)
  }

  async ask(input: FindBestMatch, prompt: Prompt, stop: AbortSignal): Promise<Found> {
    const startedMs = this.#clock.nowMs()
    const ends = endsOf(stop, signalOf(input.signal))
    let findMatchesMs: number | undefined
    let sharedCacheMs: number | undefined
    const [index, shared] = await Promise.all([
      this.#core.index
        ? undefined
        : settled(this.#askIndex(prompt, ends)).finally(() => (findMatchesMs = this.#clock.nowMs() - startedMs)),
      this.#options.sharedCache && input.tokens
        ? settled(this.#askShared(input.tokens, ends)).finally(() => (sharedCacheMs = this.#clock.nowMs() - startedMs))
        : undefined,
    ])
    if (index?.kind === 'failure') throw index.error
    if (shared?.kind === 'failure' && !ends.some(({ signal }) => signal.aborted)) {
      this.#log.warn({ error: shared.error }, 'shared cache query failed, ignoring')
      this.#observer.sharedCacheFailed?.()
    }
    return {
      matches: index && (() => this.#toColumns(index.value)),
      findMatchesMs,
      sharedHits: shared?.kind === 'answer' ? shared.value : undefined,
      sharedCacheMs,
      sharedError: shared?.kind === 'failure' ? String(shared.error) : undefined,
    }
  }

  /** For a request that waited long; nothing where the lookup fails. */
  async refresh(prompt: Prompt, stop: AbortSignal): Promise<(() => MatchColumns) | undefined> {
    const answer = await settled(this.#askIndex(prompt, endsOf(stop, undefined)))
    return answer.kind === 'answer' ? () => this.#toColumns(answer.value) : undefined
  }

  /** Anything else that is asked of the remote index, with its deadline; ends with the router. */
  askRemote<T>(
    stop: AbortSignal,
    work: (remote: RemoteIndexPort, signal: AbortSignal) => Promise<T>,
  ): Promise<T | undefined> {
    const { remoteIndex, remoteIndexTimeoutMs = 5000 } = this.#options
    if (!remoteIndex) return Promise.resolve(undefined)
    return withDeadline(this.#clock, remoteIndexTimeoutMs, endsOf(stop, undefined), (inner) => work(remoteIndex, inner))
  }

  #askIndex(prompt: Prompt, ends: readonly WaitEnd[]): Promise<Iterable<RemoteMatch>> {
    const { remoteIndex, remoteIndexTimeoutMs = 5000 } = this.#options
    const { local, blockCount } = prompt
    if (!remoteIndex || !local || blockCount === 0) return Promise.resolve([])
    const column = local.slice(0, 2 * blockCount)
    return inSpan(this.#tracer, 'kv_router.find_matches', () =>
      withDeadline(this.#clock, remoteIndexTimeoutMs, ends, (inner) => remoteIndex.findMatches(column, inner)),
    )
  }

  #askShared(tokens: Uint32Array, ends: readonly WaitEnd[]): Promise<SharedCacheHits> {
    const { sharedCache, sharedCacheTimeoutMs = 1000, blockSize } = this.#options
    return inSpan(this.#tracer, 'kv_router.shared_cache_check', () =>
      withDeadline(this.#clock, sharedCacheTimeoutMs, ends, (inner) =>
        sharedCache!.checkBlocks(tokens, blockSize, inner),
      ),
    )
  }

  /** When they are used, not when they arrive: ranks may have come and gone since. */
  #toColumns(rows: Iterable<RemoteMatch>): MatchColumns {
    const columns = newMatchColumns()
    const { ranks } = this.#core
    resetMatchColumns(columns, ranks.size)
    for (const row of rows) {
      const rank = ranks.find(row.workerId, row.dpRank)
      if (rank === undefined) continue
      columns.device[rank] = row.device
      columns.hostPinned[rank] = row.hostPinned ?? 0
      columns.disk[rank] = row.disk ?? 0
      columns.external[rank] = row.external ?? 0
      if ((row.hostPinned ?? 0) + (row.disk ?? 0) + (row.external ?? 0) > 0) columns.hasLowerTiers = true
    }
    return columns
  }
}

/** The router's end, and the caller's own where it has one. */
function endsOf(stop: AbortSignal, own: AbortSignal | undefined): readonly WaitEnd[] {
  const ofRouter: WaitEnd = { signal: stop, code: 'WR_ROUTER_CLOSED' }
  return own ? [ofRouter, { signal: own, code: 'WR_REQUEST_CANCELLED' }] : [ofRouter]
}

function settled<T>(work: Promise<T>): Promise<Settled<T>> {
  return work.then(
    (value) => ({ kind: 'answer', value }) as const,
    (error: unknown) => ({ kind: 'failure', error }) as const,
  )
}
