/**
 * One request from its first byte to its last: read, understand, route, dispatch, relay, and free whatever was booked on
 * every path. Streams and whole answers take the same way; only the relay knows the difference.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { WarmrouteError } from '../core/protocol/index.js'
import type { LegEdit } from '../engines/index.js'
import type { PromptHashes, RouteAnswer, RouteRequest, SessionUse } from '../routing/index.js'
import { RequestGuard } from '../routing/index.js'
import type { GatewayContext } from './context.js'
import { answerError } from './http/answer.js'
import { flatError, isHidden, refusal } from './http/engine-refusal.js'
import type { ErrorShape } from './http/error-body.js'
import { errorFrames } from './http/error-body.js'
import { statusOf } from './http/error-status.js'
import { readBody } from './http/read-body.js'
import type { RelayOutcome } from './relay/answer-relay.js'
import { AnswerRelay } from './relay/answer-relay.js'
import type { Timed } from './request/deadlines.js'
import type { EndpointRow } from './request/endpoints.js'
import { engineRequest } from './request/engine-request.js'
import type { Prepared } from './request/prepare.js'
import { prepare, promptOf } from './request/prepare.js'
import type { PromptTokens } from './request/prompt.js'
import type { AnswerEdits } from './request/nvext-answer.js'
import { answerDryRun, editsOf } from './request/nvext-answer.js'
import type { Place } from './request/route-request.js'
import { placeOf, routeRequestOf } from './request/route-request.js'
import type { PrefillAnswer } from './pairs/index.js'
import { PairedRequest } from './pairs/index.js'
import { RequestSpan } from './telemetry/request-span.js'
import type { ModelMeters, RequestType, ShedReason } from './telemetry/request-meters.js'
import { errorTypeOf, shedReasonOf } from './telemetry/request-meters.js'
import type { DispatchMeter } from './telemetry/stage-meters.js'
import {
  asReusable,
  clientRequestId,
  endInTime,
  isFault,
  isRetriable,
  mayMove,
  requireJson,
  wantsUsageSample,
  wasNeverSent,
} from './request/verdicts.js'
import type { SessionTie } from './sessions/session-affinity.js'
import { tieOf } from './sessions/tie-of.js'
import { attemptsMax } from './options.js'
import type { Worker } from './workers/worker.js'

export class Inference implements Timed {
  /** Unique among running requests: what is booked is booked under it. */
  readonly id: string
  /** What client and engine call the request. */
  readonly publicId: string
  readonly startedAtMs: number
  readonly #context: GatewayContext
  readonly #row: EndpointRow
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #abort = new AbortController()
  #meters: ModelMeters | undefined
  #type: RequestType = 'unary'
  #relay: AnswerRelay | undefined
  #guard: RequestGuard | undefined
  #worker: Worker | undefined
  #outputTokens = 0
  #firstTokenAtMs: number | undefined
  #lastTokenAtMs = 0
  #isQueued = true
  #givenUp: WarmrouteError | undefined
  #span: RequestSpan | undefined
  #session: SessionUse | undefined
  #tie: SessionTie | undefined
  #sending: DispatchMeter | undefined
  /** Where the model has prefill workers: the other half of this request. */
  #pair: PairedRequest | undefined
  #shed: ShedReason | undefined
  #rank = 0
  #promptTokens = 0
  /** The decision that stands; absent before anything was sent. */
  #answer: RouteAnswer | undefined
  /** Lent for the body, and for a prompt that is compared by its bytes. */
  #bytes: Buffer | undefined
  #tokens: Uint32Array | undefined
  answerBeforeMs: number | undefined
  countsFromMs: number
  dispatchedAtMs = 0
  byteAtMs = 0
  lastCommentAtMs = 0

  constructor(context: GatewayContext, row: EndpointRow, request: IncomingMessage, response: ServerResponse) {
    this.#context = context
    this.#row = row
    this.#request = request
    this.#response = response
    this.startedAtMs = this.countsFromMs = context.now()
    this.id = context.nextRequestId()
    this.publicId = clientRequestId(request) ?? this.id
    if (context.tracer) this.#span = new RequestSpan(context.tracer, request.headers, row.endpoint, this.publicId)
  }

  get shape(): ErrorShape {
    return this.#row.isAnthropic ? 'anthropic' : this.#context.shape
  }

  get isStream(): boolean {
    return this.#type === 'stream'
  }

  get workerProgressAtMs(): number {
    return this.#worker?.progressAtMs ?? this.dispatchedAtMs
  }

  get isHeldUp(): boolean {
    return this.#relay?.isHeldUp ?? false
  }

  /** Never rejects. */
  async run(): Promise<void> {
    const { running, callers, clock } = this.#context
    const { socket } = this.#request
    running.add(this)
    callers.add(socket, this)
    let status = 500
    try {
      status = await this.#serve()
    } catch (error) {
      status = this.#fail(this.#givenUp ?? error)
    } finally {
      clock.delete(this)
      callers.delete(socket, this)
      running.delete(this)
      this.#finish(status)
    }
  }

  left(): void {
    this.giveUp(new WarmrouteError('WR_REQUEST_CANCELLED', {}))
  }

  /** The client left, or the gateway closes: everything of this request ends in this turn of the loop. */
  giveUp(error: WarmrouteError): void {
    this.#givenUp ??= error
    this.#abort.abort(error)
    this.#pair?.abort(error)
    this.#relay?.abort(error)
  }

  comment(): void {
    this.lastCommentAtMs = this.#context.now()
    this.#relay?.keepAlive()
  }

  /** A worker that was too slow may be replaced; a wait for a worker is over. */
  expire(error: WarmrouteError): void {
    if (this.dispatchedAtMs > 0) this.#relay?.abort(error)
    else this.giveUp(error)
  }

  async #serve(): Promise<number> {
    const { limits, deadlines, buffers, clock, turns, now } = this.#context
    requireJson(this.#request)
    const bytes = await readBody(this.#request, this.#response, {
      bytesMax: limits.bodyBytesMax,
      timeoutMs: deadlines.bodyMs,
      buffers,
    })
    this.#bytes = bytes
    this.countsFromMs = now()
    clock.add(this)
    const turn = turns.enter()
    if (turn) await turn
    this.#abort.signal.throwIfAborted()
    const prepared = prepare(this.#context, this.#row, this.#request, bytes)
    this.#type = prepared.isStream ? 'stream' : 'unary'
    this.#meters = prepared.model.meters
    this.#meters.started(this.#row.endpoint, this.#type)
    this.#checkReady(prepared)
    const prompt = await this.#preprocess(prepared)
    this.#promptTokens = prompt?.totalTokens ?? prompt?.tokens.length ?? 0
    if (prompt) this.#meters.promptTokens(this.#promptTokens, prompt)
    this.#tie = await tieOf(prepared, this.#abort.signal)
    try {
      return await this.#attempt(prepared, prompt)
    } finally {
      this.#tie?.end()
    }
  }

  /** The prompt as routing compares it, where it has any. */
  async #preprocess(prepared: Prepared): Promise<PromptTokens | undefined> {
    const { stages, now, buffers } = this.#context
    const startedMs = now()
    stages.preprocess.enter()
    try {
      const found = promptOf(prepared, this.#abort.signal, buffers)
      const known = found instanceof Promise ? await found : found
      this.#tokens = known?.tokens
      return known && known.tokens.length > 0 ? known : undefined
    } finally {
      stages.preprocess.leave(now() - startedMs)
    }
  }

  #checkReady({ model, hints }: Prepared): void {
    if (this.#context.isDraining) throw new WarmrouteError('WR_SHUTTING_DOWN', {})
    const isPinned = hints.backendWorkerId !== undefined || hints.decodeWorkerId !== undefined
    if (isPinned) return
    if (!model.isReady)
      throw new WarmrouteError('WR_MODEL_NOT_READY', {
        message: `Model \`${model.name}\` is not ready to serve requests yet. The deployment may still be starting up or is not fully provisioned. Please retry shortly.`,
      })
    if (model.isEveryoneBusy) throw new WarmrouteError('WR_ALL_WORKERS_OVERLOADED', { reason: 'busy_threshold' })
  }

  /** Routes and dispatches; a worker that fails before the first byte is replaced, once. */
  async #attempt(prepared: Prepared, prompt: PromptTokens | undefined): Promise<number> {
    const { model, hints } = prepared
    const hashes = prompt?.hash && model.hashesOf(prompt.hash, hints.cacheSalt, prepared.loraName)
    const failed = new Set<bigint>()
    const pair = (this.#pair = this.#openPair(prepared, prompt, hashes))
    let firstError: WarmrouteError | undefined
    for (let attempt = 1; ; attempt++) {
      this.dispatchedAtMs = 0
      const terms = pair && (hints.isDryRun ? await pair.query() : await pair.before())
      if (pair?.refusal) return this.#passRefusal(pair.refusal)
      const place = placeOf(prepared, this.#tie?.target, failed, terms?.excluded)
      const request = routeRequestOf(this.id, prepared, prompt, hashes, place, this.#abort.signal, terms)
      let answer: RouteAnswer
      try {
        answer = await this.#route(prepared, prompt, request)
      } catch (error) {
        if (!(await this.#leavesSession(place, error))) throw firstError ?? error
        attempt-- // no worker was asked
        continue
      }
      if (hints.isDryRun)
        return answerDryRun(this.#response, prepared, prompt, answer, this.publicId, pair?.prefillChoice)
      this.#answer = answer
      const isLast = attempt === attemptsMax || place.isFixed
      const outcome = await this.#dispatch(prepared, prompt, answer, isLast)
      if (outcome.kind === 'completed') return outcome.hasError && outcome.status < 400 ? 500 : outcome.status
      if (this.#givenUp) throw this.#givenUp
      if (pair?.refusal) return this.#passRefusal(pair.refusal)
      const error = outcome.kind === 'failed' ? outcome.error : refusal(outcome.status, this.#context.overloadStatus)
      if (pair?.isPrefillFault(error) && !this.#relay?.isCommitted) {
        attempt-- // the decode worker is not to blame; `before` says when enough was tried
        continue
      }
      firstError ??= error
      this.#tie?.lost()
      if (isLast || !mayMove(outcome, error, pair?.isRemote ?? false)) throw pair ? pair.naming(error) : error
      failed.add(answer.workerId)
      model.meters.retried()
      await this.#tie?.again()
    }
  }

  /** The conversation's rank is not there any more: the request chooses another. */
  async #leavesSession({ isFixed, pin }: Place, error: unknown): Promise<boolean> {
    const isGone = error instanceof WarmrouteError && error.code === 'WR_NO_ENDPOINTS'
    if (!this.#tie || isFixed || !pin || !isGone) return false
    this.#tie.lost()
    await this.#tie.again()
    return true
  }

  async #route(prepared: Prepared, prompt: PromptTokens | undefined, request: RouteRequest): Promise<RouteAnswer> {
    const { stages, now } = this.#context
    const { model, hints } = prepared
    const { blockSize, router } = model.spec
    const startedMs = now()
    stages.route.enter()
    try {
      const answer = await router.route(request)
      const promptTokens = prompt?.tokens.length ?? 0
      if (model.looksAtPrompts && !hints.isDryRun)
        model.routerMetrics.requestRouted(
          promptTokens,
          answer.effectiveOverlapBlocks,
          Math.ceil(promptTokens / blockSize),
        )
      this.#span?.routed(model.name, answer)
      return asReusable(answer, prompt, blockSize)
    } finally {
      stages.route.leave(now() - startedMs)
    }
  }

  /** Undefined for almost every model: nobody there only prefills. */
  #openPair(
    prepared: Prepared,
    prompt: PromptTokens | undefined,
    hashes: PromptHashes | undefined,
  ): PairedRequest | undefined {
    const side = prepared.model.prefill
    if (!side?.isUsed || !this.#row.generates) return undefined
    return new PairedRequest({
      context: this.#context,
      side,
      prepared,
      prompt,
      hashes,
      id: this.id,
      publicId: this.publicId,
      headers: this.#span?.headersFor(this.#request.headers) ?? this.#request.headers,
      signal: this.#abort.signal,
      countsFromMs: this.countsFromMs,
    })
  }

  #decodeSent(pair: PairedRequest, worker: Worker): void {
    const { transferMs } = this.#context.deadlines
    this.#meters!.pairs.decodeSent(worker.label, pair.skipped)
    const isWatched = pair.isRemote && this.isStream && transferMs > 0 // a whole answer shows nothing before its end
    this.answerBeforeMs = isWatched ? this.dispatchedAtMs + transferMs : undefined
  }

  /** The prefill worker says that the request is wrong: so would every other. */
  #passRefusal({ head, body: said }: PrefillAnswer): number {
    const body = this.#context.isStrict && !this.#row.isAnthropic ? flatError(said, head.status) : said
    const type = head.headers.find(([name]) => name === 'content-type')?.[1] ?? 'application/json'
    if (!this.#response.headersSent && !this.#response.destroyed) {
      this.#response.writeHead(head.status, {
        'content-type': type,
        'content-length': body.length,
        'x-request-id': this.publicId,
      })
      this.#response.end(body)
    }
    return head.status
  }

  async #dispatch(
    prepared: Prepared,
    prompt: PromptTokens | undefined,
    answer: RouteAnswer,
    isLast: boolean,
  ): Promise<RelayOutcome> {
    const { model } = prepared
    const routedAtMs = this.#context.now()
    const worker = model.fleet.get(answer.workerId)
    const guard = this.#createGuard(prepared, prompt)
    this.#guard = guard
    try {
      if (this.#givenUp) throw this.#givenUp
      if (!worker) throw new WarmrouteError('WR_ENGINE_UNREACHABLE', { reason: 'the worker just left' })
      if (prepared.hints.sessionControl) {
        this.#session = await model.agents.begin(prepared.hints.sessionControl, worker.id)
        this.#abort.signal.throwIfAborted()
      }
      const leg = this.#pair && (await this.#pair.decodeLeg(worker))
      this.#abort.signal.throwIfAborted()
      if (this.#pair?.isRemote !== true)
        model.meters.routed(worker.label, prompt?.tokens.length ?? 0, answer.cachedTokens)
      const outcome = await this.#relayFrom(worker, prepared, answer, isLast, leg, routedAtMs)
      if (outcome.kind === 'completed') this.#settle(outcome, guard, answer)
      else guard.end(this.#givenUp ? 'stopped' : 'failed')
      if (outcome.kind === 'failed' && !this.#givenUp && isFault(outcome.error))
        model.fleet.fault(worker, outcome.error)
      if (outcome.kind === 'failed' && wasNeverSent(outcome)) this.#pair?.decodeUnsent()
      return outcome
    } catch (error) {
      if (!(error instanceof WarmrouteError)) throw error
      return { kind: 'failed', error, isCommitted: false, isUntouched: true }
    } finally {
      guard.end('failed')
      this.#pair?.decodeEnded()
    }
  }

  #relayFrom(
    worker: Worker,
    prepared: Prepared,
    answer: RouteAnswer,
    isLast: boolean,
    leg: LegEdit | undefined,
    routedAtMs: number,
  ): Promise<RelayOutcome> {
    const { now, stages, allowedEngineFields, passesAuthorization, isStrict } = this.#context
    const isRemote = this.#pair?.isRemote ?? false
    const asksForUsage = wantsUsageSample(this.#context, prepared)
    const request = engineRequest({
      prepared,
      worker,
      rank: answer,
      requestId: this.publicId,
      headers: this.#span?.headersFor(this.#request.headers) ?? this.#request.headers,
      allowedEngineFields,
      passesAuthorization,
      asksForUsage,
      leg,
      mayStillSend: this.#pair?.mayStillSend,
      sessionId: this.#session?.isInside ? prepared.hints.sessionControl?.sessionId : undefined,
    })
    this.#worker = worker
    this.#rank = answer.dpRank
    this.dispatchedAtMs = this.byteAtMs = now()
    const sending = (this.#sending = stages.dispatch(routedAtMs, now))
    this.lastCommentAtMs = this.dispatchedAtMs
    if (this.#pair) this.#decodeSent(this.#pair, worker)
    worker.enter()
    return new Promise<RelayOutcome>((resolve) => {
      const relay = new AnswerRelay(
        {
          response: this.#response,
          endpoint: this.#row.endpoint,
          headers: this.#ownHeaders(answer),
          wantsStream: prepared.isStream,
          isWithheld: (status) => (!isLast && isRetriable(status, isRemote)) || (isStrict && isHidden(status)),
          ...this.#edits(prepared, answer, asksForUsage),
        },
        {
          onSent: () => {
            sending.sent()
            this.#tie?.sent({ workerId: answer.workerId, dpRank: answer.dpRank })
          },
          onProgress: (tokens) => this.#progress(tokens),
          onCommit: () => this.#letGoOfBody(),
          onOutcome: (outcome) => {
            worker.leave()
            sending.end()
            resolve(outcome)
          },
        },
      )
      this.#relay = relay
      relay.attach(worker.link.call(request, relay))
      this.#guard!.dispatched()
      this.#pair?.decodeSent((error) => {
        if (!relay.isCommitted) relay.abort(error)
      })
    })
  }

  #edits(prepared: Prepared, answer: RouteAnswer, removesUsage: boolean): AnswerEdits {
    const edits = editsOf(
      prepared,
      answer,
      removesUsage,
      () => this.#context.now() - this.startedAtMs,
      this.#pair?.prefillChoice,
    )
    const { editBody } = edits
    if (!this.#context.isStrict || this.#row.isAnthropic) return edits
    return {
      ...edits,
      editBody: (body, status) => (editBody ? editBody(flatError(body, status), status) : flatError(body, status)),
    }
  }

  #progress(tokens: number): void {
    const now = this.#context.now()
    this.byteAtMs = now
    this.#sending!.firstByte(now)
    this.#worker!.progressAtMs = now
    this.#guard!.item(tokens)
    if (tokens === 0) return
    if (this.#outputTokens === 0) this.#firstToken(now)
    this.#meters!.tokens(tokens, this.#outputTokens === 0 ? undefined : now - this.#lastTokenAtMs)
    this.#outputTokens += tokens
    this.#lastTokenAtMs = now
  }

  #firstToken(now: number): void {
    this.#firstTokenAtMs = now
    this.#meters!.firstToken(now - this.startedAtMs)
    this.#span?.firstToken()
    this.answerBeforeMs = undefined
    if (this.#pair?.isRemote) this.#pair.firstToken(now - this.dispatchedAtMs, now)
    this.#meters!.workerFirstToken(this.#worker!.id, this.#rank, now - this.startedAtMs, this.#promptTokens)
    this.#leaveQueue()
  }

  #leaveQueue(): void {
    if (!this.#isQueued) return
    this.#isQueued = false
    this.#meters!.leftQueue()
  }

  /** The answer is whole: what the engine reported beats what was counted. */
  #settle(outcome: RelayOutcome & { readonly kind: 'completed' }, guard: RequestGuard, answer: RouteAnswer): void {
    const { usage } = outcome
    if (this.#type === 'unary' && this.#row.generates && outcome.status < 400) this.#progress(usage?.outputTokens ?? 1)
    if (usage?.outputTokens !== undefined) this.#outputTokens = usage.outputTokens
    if (usage?.cachedTokens !== undefined) {
      this.#meters!.cachedTokens(usage.cachedTokens)
      const { label, cachedTokens } = this.#pair?.prefilled ?? { label: this.#worker!.label, ...answer }
      this.#meters!.reported(label, cachedTokens, usage.cachedTokens)
    }
    const first = this.#firstTokenAtMs
    if (first !== undefined && this.#outputTokens > 1)
      this.#meters!.workerTokenGap(
        this.#worker!.id,
        this.#rank,
        (this.#lastTokenAtMs - first) / (this.#outputTokens - 1),
      )
    guard.end(outcome.hasError ? 'failed' : 'completed')
  }

  #createGuard(prepared: Prepared, prompt: PromptTokens | undefined): RequestGuard {
    const { model, hints } = prepared
    return new RequestGuard(
      model.spec.router,
      {
        requestId: this.id,
        isTracked: true,
        promptTokens: prompt?.tokens.length ?? Math.ceil(prepared.bytes.length / 4),
        blockSize: model.spec.blockSize,
        tracksOutput: model.spec.tracksOutputBlocks ?? false,
        expectedOutputTokens: hints.expectedOutputTokens,
        startedAtMs: this.startedAtMs,
      },
      {
        ...(model.looksAtPrompts ? model.guardHooks : {}),
        closeSession: () => this.#session?.afterwards?.(),
      },
      this.#context.now,
    )
  }

  #ownHeaders(answer: RouteAnswer): readonly (readonly [string, string])[] {
    if (!this.#context.showsWorker) return [['x-request-id', this.publicId]]
    return [
      ['x-request-id', this.publicId],
      ['x-warmroute-worker-id', String(answer.workerId)],
      ['x-warmroute-dp-rank', String(answer.dpRank)],
      ['x-warmroute-cached-tokens', String((this.#pair?.prefilled ?? answer).cachedTokens)],
      ...(this.#pair?.headers() ?? []),
    ]
  }

  /** Tells the client, where there still is one, and answers with the status for the metrics. */
  #fail(error: unknown): number {
    const { overloadStatus, log } = this.#context
    const status = statusOf(error, overloadStatus)
    this.#shed = shedReasonOf(error)
    if (!(error instanceof WarmrouteError))
      log.warn({ request_id: this.publicId, error: String(error) }, 'a request failed inside the gateway')
    if (this.#relay?.isCommitted) {
      if (!this.#response.writableEnded) this.#relay.endWithFrames(errorFrames(error, this.shape, overloadStatus))
    } else if (!this.#response.headersSent && !this.#response.destroyed)
      answerError(this.#request, this.#response, error, {
        shape: this.shape,
        overloadStatus,
        requestId: this.publicId,
      })
    return status
  }

  /** Nobody can be asked again, so the memory of a long body is the next request's. Not while a prefill may still be sent. */
  #letGoOfBody(): void {
    if (!this.#bytes || this.#pair || !this.#relay?.isSent) return
    this.#context.buffers.give(this.#bytes)
    this.#bytes = undefined
  }

  #tellEnded(status: number): void {
    const { onEnded, now } = this.#context
    const answer = this.#answer
    if (!onEnded || !answer || !this.#meters) return
    const { workerId, dpRank, cachedTokens, waitedMs } = answer
    onEnded({
      model: this.#meters.model,
      startedAtMs: this.startedAtMs,
      endedAtMs: now(),
      firstTokenAtMs: this.#firstTokenAtMs,
      status,
      tokens: this.#tokens && this.#tokens.length > 0 ? this.#tokens : undefined,
      promptTokens: this.#promptTokens,
      outputTokens: this.#outputTokens,
      workerId,
      dpRank,
      cachedTokens,
      waitedMs,
    })
  }

  #finish(status: number): void {
    endInTime(this.#response, this.#context.deadlines.noProgressMs)
    this.#tellEnded(status)
    if (this.#tokens) this.#context.buffers.give(this.#tokens)
    const { meters, overloadStatus, now, log } = this.#context
    this.#guard?.end('dropped')
    this.#pair?.end()
    const own = this.#meters ?? meters.unknown
    if (!this.#meters) own.started(this.#row.endpoint, this.#type)
    this.#meters = own
    this.#leaveQueue()
    this.#span?.end(status, this.#outputTokens)
    if (this.#shed && !this.#worker) own.shed(this.#shed)
    if (status === overloadStatus) own.rejected(this.#row.endpoint)
    if (status === 499) {
      meters.disconnected()
      own.cancelled(this.#row.endpoint, this.#type)
    }
    const durationMs = now() - this.startedAtMs
    own.finished(this.#row.endpoint, this.#type, errorTypeOf(status, overloadStatus), durationMs, this.#outputTokens)
    log.debug(
      { request_id: this.publicId, model: own.model, worker: this.#worker?.label, status, duration_ms: durationMs },
      'a request ended',
    )
  }
}
