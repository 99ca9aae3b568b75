/** When the metrics of a request are observed. Labels come from configuration; an unknown model is `unknown_model`. */
import type { ErrorCode } from '../../core/protocol/index.js'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { Counter, Gauge, Histogram, Metrics } from '../../telemetry/index.js'
import { workerLabels } from '../../telemetry/index.js'
import type { LoadOnlyReason } from '../../tokens/index.js'
import type { Endpoint } from '../request/endpoints.js'
import type { PromptTokens } from '../request/prompt.js'
import { PairMeters } from './pair-meters.js'

export type RequestType = 'stream' | 'unary'
export type ErrorType =
  | ''
  | 'validation'
  | 'not_found'
  | 'overload'
  | 'cancelled'
  | 'internal'
  | 'not_implemented'
  | 'response_timeout'
  | 'unavailable'

/** Why a request was refused before it reached a worker. */
export type ShedReason = 'busy' | 'limit' | 'not_ready' | 'draining' | 'queue'

export function shedReasonOf(error: unknown): ShedReason | undefined {
  if (!(error instanceof WarmrouteError)) return undefined
  return shedReasons[error.code]
}

const shedReasons: Readonly<Partial<Record<ErrorCode, ShedReason>>> = {
  WR_ALL_WORKERS_OVERLOADED: 'busy',
  WR_MODEL_NOT_READY: 'not_ready',
  WR_NO_ENDPOINTS: 'not_ready',
  WR_PINNED_WORKER_OVERLOADED: 'busy',
  WR_PREFILL_UNAVAILABLE: 'not_ready',
  WR_QUEUE_REJECTED: 'queue',
  WR_SHUTTING_DOWN: 'draining',
  WR_TRACKER_FULL: 'limit',
}

/** `error_type` by status (spec/serving.md 4.2). */
export function errorTypeOf(status: number, overloadStatus: number): ErrorType {
  if (status < 400) return ''
  if (status === overloadStatus || status === 429 || status === 529) return 'overload'
  if (status === 404) return 'not_found'
  if (status === 501) return 'not_implemented'
  if (status === 503) return 'unavailable'
  if (status === 504) return 'response_timeout'
  if (status === 499) return 'cancelled'
  return status < 500 ? 'validation' : 'internal'
}

export class Meters {
  readonly metrics: Metrics
  readonly #models = new Map<string, ModelMeters>()
  readonly #disconnected: Gauge
  #disconnectedCount = 0

  constructor(metrics: Metrics) {
    this.metrics = metrics
    this.#disconnected = metrics.disconnectedClients.with({})
  }

  of(model: string): ModelMeters {
    let meters = this.#models.get(model)
    if (!meters) this.#models.set(model, (meters = new ModelMeters(this.metrics, model)))
    return meters
  }

  get unknown(): ModelMeters {
    return this.of('unknown_model')
  }

  disconnected(): void {
    this.#disconnected.set(++this.#disconnectedCount)
  }
}

/** Handles of one model: a label lookup costs more than the observation. */
export class ModelMeters {
  readonly model: string
  readonly #metrics: Metrics
  readonly #counters = new Map<string, Counter>()
  readonly #inflight: Gauge
  readonly #active: Gauge
  readonly #queued: Gauge
  readonly #duration: Histogram
  readonly #inputTokens: Histogram
  readonly #outputTokens: Histogram
  readonly #cachedTokens: Histogram
  readonly #outputTotal: Counter
  readonly #firstToken: Histogram
  readonly #tokenGap: Histogram
  readonly #templateSeconds: Histogram
  readonly #tokenizeSeconds: Histogram
  readonly #tokenizerLatency: Histogram
  /** Who may have series of its own: what is heard of a worker after it left must not bring them back. */
  readonly #workers = new Set<string>()
  #pairs: PairMeters | undefined
  #inflightCount = 0
  #queuedCount = 0

  constructor(metrics: Metrics, model: string) {
    const labels = { model }
    this.model = model
    this.#metrics = metrics
    this.#inflight = metrics.inflightRequests.with(labels)
    this.#active = metrics.activeRequests.with(labels)
    this.#queued = metrics.queuedRequests.with(labels)
    this.#duration = metrics.requestDuration.with(labels)
    this.#inputTokens = metrics.inputSequenceTokens.with(labels)
    this.#outputTokens = metrics.outputSequenceTokens.with(labels)
    this.#cachedTokens = metrics.cachedTokens.with(labels)
    this.#outputTotal = metrics.outputTokens.with(labels)
    this.#firstToken = metrics.timeToFirstToken.with(labels)
    this.#tokenGap = metrics.interTokenLatency.with(labels)
    this.#templateSeconds = metrics.templateSeconds.with({})
    this.#tokenizeSeconds = metrics.tokenizeSeconds.with({})
    this.#tokenizerLatency = metrics.tokenizerLatency.with({ operation: 'tokenize' })
  }

  /** Of disaggregated requests; made when the first one comes. */
  get pairs(): PairMeters {
    return (this.#pairs ??= new PairMeters(this.#metrics, this.model, this.#workers))
  }

  get inFlight(): number {
    return this.#inflightCount
  }

  /** Only of models that are served: for the unknown one nobody is ever ready. */
  setReady(isReady: boolean): void {
    this.#metrics.modelReady.set({ model: this.model }, isReady ? 1 : 0)
  }

  started(endpoint: Endpoint, type: RequestType): void {
    this.#counter(`started/${endpoint}/${type}`, () =>
      this.#metrics.requestsStarted.with({ model: this.model, endpoint, request_type: type }),
    ).inc()
    this.#inflight.set(++this.#inflightCount)
    this.#active.set(this.#inflightCount)
    this.#queued.set(++this.#queuedCount)
  }

  /** From handler start to first token; ends with the request if none came. */
  leftQueue(): void {
    this.#queued.set(--this.#queuedCount)
  }

  /** A prompt's length, and how long its tokens took where a tokenizer made them. */
  promptTokens(tokens: number, { templateMs, tokenizeMs }: Pick<PromptTokens, 'templateMs' | 'tokenizeMs'>): void {
    this.#inputTokens.observe(tokens)
    if (templateMs !== undefined) this.#templateSeconds.observe(templateMs / 1000)
    if (tokenizeMs === undefined) return
    this.#tokenizeSeconds.observe(tokenizeMs / 1000)
    this.#tokenizerLatency.observe(tokenizeMs)
  }

  /** Nobody was asked for the tokens of a prompt, so that nobody else has counted it. */
  loadOnlyPrompt(reason: LoadOnlyReason): void {
    this.#counter(`load-only/${reason}`, () => this.#metrics.loadOnlyPrompts.with({ model: this.model, reason })).inc()
  }

  firstToken(sinceStartMs: number): void {
    this.#firstToken.observe(sinceStartMs / 1000)
  }

  /** `count` tokens arrived `gapMs` after the ones before. */
  tokens(count: number, gapMs: number | undefined): void {
    this.#outputTotal.inc(count)
    if (gapMs === undefined) return
    const each = gapMs / count / 1000
    for (let at = 0; at < count; at++) this.#tokenGap.observe(each)
  }

  cachedTokens(tokens: number): void {
    this.#cachedTokens.observe(tokens)
  }

  /** Where a prompt went, and how much of it should be cached there; undefined: nobody knows at which of its ranks. */
  routed(worker: string, promptTokens: number, cachedTokens: number | undefined): void {
    if (!this.#workers.has(worker)) return
    const labels = { model: this.model, worker }
    this.#counter(`routed/${worker}`, () => this.#metrics.routedPromptTokens.with(labels)).inc(promptTokens)
    if (cachedTokens === undefined) return
    this.#counter(`predicted/${worker}`, () =>
      this.#metrics.cachedTokensBySource.with({ ...labels, source: 'predicted' }),
    ).inc(cachedTokens)
  }

  /** What the engine says about the same prompt. */
  reported(worker: string, predicted: number | undefined, reported: number): void {
    if (!this.#workers.has(worker)) return
    const labels = { model: this.model, worker }
    this.#counter(`reported/${worker}`, () =>
      this.#metrics.cachedTokensBySource.with({ ...labels, source: 'reported' }),
    ).inc(reported)
    if (predicted === undefined) return
    this.#counter(`compared-p/${worker}`, () =>
      this.#metrics.comparedTokens.with({ ...labels, source: 'predicted' }),
    ).inc(predicted)
    this.#counter(`compared-r/${worker}`, () =>
      this.#metrics.comparedTokens.with({ ...labels, source: 'reported' }),
    ).inc(reported)
  }

  /** A worker is there: from now on it may have series. */
  know(worker: string): void {
    this.#workers.add(worker)
  }

  /** A worker left: its series end. */
  forget(worker: string): void {
    this.#workers.delete(worker)
    const labels = { model: this.model, worker }
    this.#metrics.routedPromptTokens.remove(labels)
    for (const source of ['predicted', 'reported']) {
      this.#metrics.cachedTokensBySource.remove({ ...labels, source })
      this.#metrics.comparedTokens.remove({ ...labels, source })
    }
    for (const key of this.#counters.keys()) if (key.endsWith(`/${worker}`)) this.#counters.delete(key)
    this.#pairs?.forget(worker)
  }

  /** Last seen of a worker; the series end with it. Aggregated workers count as decode workers, as upstream does. */
  workerFirstToken(workerId: bigint, dpRank: number, sinceStartMs: number): void {
    if (!this.#workers.has(String(workerId))) return
    const labels = workerLabels(workerId, String(dpRank), 'decode')
    this.#metrics.workerLastTimeToFirstToken.set(labels, sinceStartMs / 1000)
  }

  workerInputTokens(workerId: bigint, dpRank: number, promptTokens: number): void {
    if (!this.#workers.has(String(workerId))) return
    this.#metrics.workerLastInputSequenceTokens.set(workerLabels(workerId, String(dpRank), 'decode'), promptTokens)
  }

  workerTokenGap(workerId: bigint, dpRank: number, gapMs: number): void {
    if (!this.#workers.has(String(workerId))) return
    this.#metrics.workerLastInterTokenLatency.set(workerLabels(workerId, String(dpRank), 'decode'), gapMs / 1000)
  }

  shed(reason: ShedReason): void {
    this.#counter(`shed/${reason}`, () => this.#metrics.requestsShed.with({ model: this.model, reason })).inc()
  }

  retried(): void {
    const { model } = this
    this.#counter('retried', () => this.#metrics.requestsRetried.with({ model })).inc()
    this.#counter('migrated', () => this.#metrics.modelMigrations.with({ model, migration_type: 'new_request' })).inc()
  }

  unedited(): void {
    this.#counter('unedited', () => this.#metrics.answersUnedited.with({ model: this.model })).inc()
  }

  responseForgotten(): void {
    this.#counter('responseForgotten', () => this.#metrics.responsesForgotten.with({ model: this.model })).inc()
  }

  rejected(endpoint: Endpoint): void {
    this.#counter(`rejected/${endpoint}`, () =>
      this.#metrics.modelRejection.with({ model: this.model, endpoint }),
    ).inc()
  }

  cancelled(endpoint: Endpoint, type: RequestType): void {
    this.#counter(`cancelled/${endpoint}/${type}`, () =>
      this.#metrics.modelCancellation.with({ model: this.model, endpoint, request_type: type }),
    ).inc()
  }

  finished(
    endpoint: Endpoint,
    type: RequestType,
    errorType: ErrorType,
    durationMs: number,
    outputTokens: number,
  ): void {
    this.#inflight.set(--this.#inflightCount)
    this.#active.set(this.#inflightCount)
    this.#duration.observe(durationMs / 1000)
    if (endpoint === 'embeddings') this.#metrics.embeddingLatency.observe({ model: this.model }, durationMs / 1000)
    if (outputTokens > 0) this.#outputTokens.observe(outputTokens)
    this.#counter(`finished/${endpoint}/${type}/${errorType}`, () =>
      this.#metrics.requests.with({
        model: this.model,
        endpoint,
        request_type: type,
        status: errorType === '' ? 'success' : 'error',
        error_type: errorType,
      }),
    ).inc()
  }

  #counter(key: string, make: () => Counter): Counter {
    let counter = this.#counters.get(key)
    if (!counter) this.#counters.set(key, (counter = make()))
    return counter
  }
}
