/**
 * The figures of one request and when each of them is observed: its prompt, its choice, its tokens, its end. Told by whoever
 * serves the request; decides nothing and ends nothing.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { RouteAnswer } from '../../routing/index.js'
import type { GatewayContext } from '../context.js'
import { isOverload } from '../http/error-status.js'
import type { EndedRequest } from '../options.js'
import type { Usage } from '../relay/usage.js'
import type { EndpointRow } from '../request/endpoints.js'
import type { Prepared } from '../request/prepare.js'
import type { HowKnown, PromptTokens } from '../request/prompt.js'
import { howKnownOn, totalTokensOf, howKnownWords } from '../request/prompt.js'
import type { Worker } from '../workers/worker.js'
import type { ModelMeters, RequestType, ShedReason } from './request-meters.js'
import { errorTypeOf, shedReasonOf } from './request-meters.js'
import type { LegSpan } from './request-span.js'
import { RequestSpan } from './request-span.js'
import type { DispatchMeter, Stage } from './stage-meters.js'

/** What one prompt was expected to find cached, and where. */
export interface Foretold {
  readonly label: string
  /** Undefined: nobody looked. */
  readonly cachedTokens: number | undefined
}

export class RequestRecord {
  readonly startedAtMs: number
  readonly #context: GatewayContext
  readonly #row: EndpointRow
  readonly #publicId: string
  readonly #span: RequestSpan | undefined
  #meters: ModelMeters | undefined
  #sharing: Pick<EndedRequest, 'loraName' | 'cacheSalt'> = { loraName: undefined, cacheSalt: undefined }
  #type: RequestType = 'unary'
  #isQueued = true
  #promptTokens = 0
  #known: Pick<PromptTokens, 'howKnown' | 'howOthersKnown'> | undefined
  #howKnown: HowKnown | undefined
  #counted: PromptTokens['counted']
  #outputTokens = 0
  #firstTokenAtMs: number | undefined
  #lastTokenAtMs = 0
  #shed: ShedReason | undefined
  /** For want of room; undefined where nothing failed here, and the engine's status says it. */
  #isRejected: boolean | undefined
  /** The decision that stands, and its worker once that was asked. */
  #answer: RouteAnswer | undefined
  #worker: Worker | undefined
  #rank = 0
  #sending: DispatchMeter | undefined

  constructor(context: GatewayContext, row: EndpointRow, headers: IncomingHttpHeaders, publicId: string) {
    this.#context = context
    this.#row = row
    this.#publicId = publicId
    this.startedAtMs = context.now()
    this.#span = context.tracer && new RequestSpan(context.tracer, headers, row.endpoint, publicId)
  }

  get isStream(): boolean {
    return this.#type === 'stream'
  }

  /** How the tokens of the prompt are known, by the worker that was chosen last; undefined where nobody looked. */
  get howKnown(): HowKnown | undefined {
    return this.#howKnown
  }

  get sinceStartMs(): number {
    return this.#context.now() - this.startedAtMs
  }

  /** The client's headers, in our span where there is one. */
  headersFor(headers: IncomingHttpHeaders): IncomingHttpHeaders {
    return this.#span?.headersFor(headers) ?? headers
  }

  /** Spans of the router hang below the request's. */
  inSpan<T>(work: () => T): T {
    return this.#span ? this.#span.around(work) : work()
  }

  /** A half of the request that goes to a worker of its own. */
  legSpan(name: string, { workerId, dpRank, cachedTokens, waitedMs }: RouteAnswer): LegSpan | undefined {
    return this.#span?.leg(name, {
      'warmroute.worker_id': String(workerId),
      'warmroute.dp_rank': dpRank,
      'warmroute.cached_tokens': cachedTokens,
      'warmroute.waited_ms': waitedMs,
    })
  }

  /** Who is asked for what is known now. */
  understood({ model, isStream, loraName, hints }: Pick<Prepared, 'model' | 'isStream' | 'loraName' | 'hints'>): void {
    this.#sharing = { loraName, cacheSalt: hints.cacheSalt }
    this.#type = isStream ? 'stream' : 'unary'
    this.#meters = model.meters
    this.#meters.started(this.#row.endpoint, this.#type)
  }

  /** Counts who is in a stage and how long it took, however it ended. Work that needs no wait is over when this returns. */
  during<T>(stage: Stage, work: () => T): T {
    const { now } = this.#context
    const startedMs = now()
    const leave = (): void => stage.leave(now() - startedMs)
    let isLater = false
    stage.enter()
    try {
      const result = work()
      if (!(result instanceof Promise)) return result
      isLater = true
      return result.finally(leave) as T
    } finally {
      if (!isLater) leave()
    }
  }

  /** `known` is all that is known of a prompt, also of one that has nothing to compare. */
  prompt(prompt: PromptTokens | undefined, known: PromptTokens | undefined): void {
    this.#known = known
    this.#howKnown = known?.howKnown
    if (!prompt) return
    this.#promptTokens = totalTokensOf(prompt)
    this.#counted = prompt.counted
    this.#meters!.promptTokens(this.#promptTokens, prompt)
  }

  /**
   * The router answered; `answer` as it was given, before it is made to fit what an engine reuses. `isRankUnknown`: the engine takes one of
   * its ranks by itself, so that nothing is told of the one that was chosen.
   */
  routed(
    { model, hints }: Prepared,
    prompt: PromptTokens | undefined,
    answer: RouteAnswer,
    isRankUnknown: boolean,
  ): void {
    const tokens = prompt?.tokens.length ?? 0
    this.#counted = prompt?.counted
    this.#howKnown = this.#known && howKnownOn(this.#known, answer.workerId)
    if (model.looksAtPrompts && !hints.isDryRun) {
      const blocks = Math.ceil(tokens / model.spec.blockSize)
      model.routerMetrics.requestRouted(tokens, answer.effectiveOverlapBlocks, blocks)
    }
    this.#span?.routed(model.name, answer, isRankUnknown, this.#howKnown)
  }

  /** The answer that will be acted on. */
  chosen(answer: RouteAnswer): void {
    this.#answer = answer
  }

  /** One try at one worker begins. */
  dispatched(worker: Worker, dpRank: number, routedAtMs: number): DispatchMeter {
    const { stages, now } = this.#context
    this.#worker = worker
    this.#rank = dpRank
    return (this.#sending = stages.dispatch(routedAtMs, now))
  }

  /**
   * Something of the answer arrived, with so many new tokens in it. True for the first token of the request: a whole answer has
   * none, since nobody saw when it was made.
   */
  arrived(tokens: number, nowMs: number): boolean {
    this.#sending!.firstItem(nowMs)
    if (tokens === 0) return false
    const isFirst = this.#outputTokens === 0
    if (isFirst && this.isStream) this.#firstToken(nowMs)
    if (isFirst) this.#meters!.workerInputTokens(this.#worker!.id, this.#rank, this.#promptTokens)
    this.#meters!.tokens(tokens, isFirst ? undefined : nowMs - this.#lastTokenAtMs)
    this.#outputTokens += tokens
    this.#lastTokenAtMs = nowMs
    return isFirst && this.isStream
  }

  /** The answer is whole: what the engine reported beats what was counted. */
  settled(usage: Usage | undefined, foretold: Foretold): void {
    const meters = this.#meters!
    if (usage?.promptTokens !== undefined) this.#counted?.(usage.promptTokens, this.#worker!.id)
    if (usage?.outputTokens !== undefined) {
      const uncounted = usage.outputTokens - this.#outputTokens
      if (uncounted > 0) meters.tokens(uncounted, undefined)
      this.#outputTokens = usage.outputTokens
    }
    if (usage?.cachedTokens !== undefined) {
      meters.cachedTokens(usage.cachedTokens)
      meters.reported(foretold.label, foretold.cachedTokens, usage.cachedTokens)
    }
    const first = this.#firstTokenAtMs
    if (first === undefined || this.#lastTokenAtMs === first || this.#outputTokens <= 1) return
    meters.workerTokenGap(this.#worker!.id, this.#rank, (this.#lastTokenAtMs - first) / (this.#outputTokens - 1))
  }

  /** The prefill ended the answer, so that nothing was decoded. */
  answeredByPrefill(outputTokens: number): void {
    const meters = this.#meters!
    meters.firstToken(this.sinceStartMs)
    meters.tokens(outputTokens, undefined)
    this.#span?.firstToken()
    this.#outputTokens = outputTokens
    this.#firstTokenAtMs = this.#context.now()
  }

  failed(error: unknown): void {
    this.#shed = shedReasonOf(error)
    this.#isRejected = isOverload(error)
    if (error instanceof WarmrouteError) return
    const fields = { request_id: this.#publicId, error: String(error) }
    this.#context.log.warn(fields, 'a request failed inside the gateway')
  }

  /** For whoever keeps a history. `tokens` are lent for the call. */
  tellEnded(status: number, tokens: Uint32Array | undefined): void {
    const { onEnded, now } = this.#context
    const answer = this.#answer
    if (!onEnded || !answer || !this.#meters) return
    const { workerId, dpRank, cachedTokens, waitedMs } = answer
    onEnded({
      model: this.#meters.model,
      ...this.#sharing,
      startedAtMs: this.startedAtMs,
      endedAtMs: now(),
      firstTokenAtMs: this.#firstTokenAtMs,
      status,
      tokens: tokens && tokens.length > 0 ? tokens : undefined,
      howKnown: this.#howKnown,
      promptTokens: this.#promptTokens,
      outputTokens: this.#outputTokens,
      workerId,
      workerUrl: this.#worker?.spec.url,
      dpRank,
      cachedTokens,
      waitedMs,
    })
  }

  /** Once, after everything else. A request that was never understood counts for the unknown model. */
  finished(status: number): void {
    const { meters, overloadStatus, log } = this.#context
    const { endpoint } = this.#row
    if (!this.#meters) meters.unknown.started(endpoint, this.#type)
    const own = (this.#meters ??= meters.unknown)
    this.#leaveQueue()
    this.#span?.end(status, this.#outputTokens)
    if (this.#shed && !this.#worker) own.shed(this.#shed)
    if (this.#isRejected ?? status === overloadStatus) own.rejected(endpoint)
    if (status === 499) {
      meters.disconnected()
      own.cancelled(endpoint, this.#type)
    }
    const durationMs = this.sinceStartMs
    own.finished(endpoint, this.#type, errorTypeOf(status, overloadStatus), durationMs, this.#outputTokens)
    log.debug(
      {
        request_id: this.#publicId,
        model: own.model,
        worker: this.#worker?.label,
        status,
        duration_ms: durationMs,
        ...howKnownWords(this.#howKnown),
      },
      'a request ended',
    )
  }

  #firstToken(nowMs: number): void {
    const sinceStartMs = nowMs - this.startedAtMs
    this.#firstTokenAtMs = nowMs
    this.#meters!.firstToken(sinceStartMs)
    this.#span?.firstToken()
    this.#meters!.workerFirstToken(this.#worker!.id, this.#rank, sinceStartMs)
    this.#leaveQueue()
  }

  #leaveQueue(): void {
    if (!this.#isQueued) return
    this.#isQueued = false
    this.#meters!.leftQueue()
  }
}
