/**
 * One request from its first byte to its last: read, understand, route, dispatch, relay, and free whatever was booked on
 * every path. Streams and whole answers take the same way; only the relay knows the difference.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { WarmrouteError } from '../core/protocol/index.js'
import type { LegEdit } from '../engines/index.js'
import type { PromptHashes, RequestGuard, RouteAnswer, RouteRequest, SessionUse } from '../routing/index.js'
import type { GatewayContext } from './context.js'
import { answerError } from './http/answer.js'
import { answerRefusal, isHidden, refusal } from './http/engine-refusal.js'
import type { ErrorShape } from './http/error-body.js'
import { errorFrames } from './http/error-body.js'
import { statusOf } from './http/error-status.js'
import { readBody } from './http/read-body.js'
import type { RelayOutcome } from './relay/answer-relay.js'
import { AnswerRelay } from './relay/answer-relay.js'
import { commentWhileWaiting } from './relay/early-head.js'
import { editsFor, ownHeaders } from './relay/own-marks.js'
import type { Timed } from './request/deadlines.js'
import type { EndpointRow } from './request/endpoints.js'
import { engineRequest } from './request/engine-request.js'
import type { Prepared } from './request/prepare.js'
import { prepare, promptOf } from './request/prepare.js'
import type { PromptTokens } from './request/prompt.js'
import { answerDryRun } from './request/nvext-answer.js'
import type { Place } from './request/route-request.js'
import { placeOf, routeRequestOf } from './request/route-request.js'
import { guardOf } from './request/guard-of.js'
import type { PrefillAnswer } from './pairs/index.js'
import { PairedRequest } from './pairs/index.js'
import { RequestRecord } from './telemetry/request-record.js'
import {
  asReusable,
  clientRequestId,
  endInTime,
  isFault,
  isRetriable,
  mayMove,
  requireJson,
  requireReady,
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
  readonly #context: GatewayContext
  readonly #row: EndpointRow
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #record: RequestRecord
  readonly #abort = new AbortController()
  #relay: AnswerRelay | undefined
  #guard: RequestGuard | undefined
  #worker: Worker | undefined
  #givenUp: WarmrouteError | undefined
  #session: SessionUse | undefined
  #tie: SessionTie | undefined
  /** Where the model has prefill workers: the other half of this request. */
  #pair: PairedRequest | undefined
  /** Lent for the body, and for a prompt that is compared by its bytes. */
  #bytes: Buffer | undefined
  #tokens: Uint32Array | undefined
  answerBeforeMs: number | undefined
  countsFromMs: number
  dispatchedAtMs = 0
  byteAtMs = 0
  silentSinceMs: number
  /** The client asked for a stream, and a comment may open it before a worker is known. */
  #mayOpen = false

  constructor(context: GatewayContext, row: EndpointRow, request: IncomingMessage, response: ServerResponse) {
    this.#context = context
    this.#row = row
    this.#request = request
    this.#response = response
    this.countsFromMs = this.silentSinceMs = context.now()
    this.id = context.nextRequestId()
    this.publicId = clientRequestId(request) ?? this.id
    this.#record = new RequestRecord(context, row, request.headers, this.publicId)
  }

  get shape(): ErrorShape {
    return this.#row.isAnthropic ? 'anthropic' : this.#context.shape
  }

  get isStream(): boolean {
    return this.#record.isStream
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
    this.silentSinceMs = this.#context.now()
    if (this.dispatchedAtMs > 0) this.#relay?.keepAlive()
    else if (this.#mayOpen) commentWhileWaiting(this.#response, this.publicId)
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
    this.countsFromMs = this.silentSinceMs = now()
    clock.add(this)
    const turn = turns.enter()
    if (turn) await turn
    this.#abort.signal.throwIfAborted()
    const prepared = prepare(this.#context, this.#row, this.#request, bytes)
    this.#record.understood(prepared)
    this.#mayOpen = prepared.isStream && !prepared.hints.isDryRun
    requireReady(this.#context, prepared)
    const prompt = await this.#preprocess(prepared)
    this.#record.prompt(prompt)
    this.#tie = await tieOf(prepared, this.#abort.signal)
    try {
      return await this.#attempt(prepared, prompt)
    } finally {
      this.#tie?.end()
    }
  }

  /** The prompt as routing compares it, where it has any. */
  async #preprocess(prepared: Prepared): Promise<PromptTokens | undefined> {
    const { stages, buffers } = this.#context
    const find = (): ReturnType<typeof promptOf> => promptOf(prepared, this.#abort.signal, buffers)
    const known = await this.#record.during(stages.preprocess, find)
    this.#tokens = known?.tokens
    return known && known.tokens.length > 0 ? known : undefined
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
      this.#record.chosen(answer)
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
      this.dispatchedAtMs = 0
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
    const { blockSize, router } = prepared.model.spec
    const answer = await this.#record.during(this.#context.stages.route, () => router.route(request))
    this.#record.routed(prepared, prompt, answer)
    return asReusable(answer, prompt, blockSize)
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
      headers: this.#record.headersFor(this.#request.headers),
      signal: this.#abort.signal,
      countsFromMs: this.countsFromMs,
    })
  }

  #watchTransfer(pair: PairedRequest): void {
    const { transferMs } = this.#context.deadlines
    const isWatched = pair.isRemote && this.isStream && transferMs > 0 // a whole answer shows nothing before its end
    this.answerBeforeMs = isWatched ? this.dispatchedAtMs + transferMs : undefined
  }

  /** The prefill worker says that the request is wrong: so would every other. */
  #passRefusal(said: PrefillAnswer): number {
    const { isStrict, overloadStatus } = this.#context
    if (this.#response.headersSent) throw refusal(said.head.status, overloadStatus)
    return answerRefusal(this.#response, said, { isFlat: isStrict && !this.#row.isAnthropic, requestId: this.publicId })
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
    const guard = guardOf(this.#context, prepared, prompt, {
      requestId: this.id,
      startedAtMs: this.#record.startedAtMs,
      closeSession: () => this.#session?.afterwards?.(),
    })
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
    const { now, allowedEngineFields, passesAuthorization, isStrict } = this.#context
    const isRemote = this.#pair?.isRemote ?? false
    const asksForUsage = wantsUsageSample(this.#context, prepared)
    const request = engineRequest({
      prepared,
      worker,
      rank: answer,
      requestId: this.publicId,
      headers: this.#record.headersFor(this.#request.headers),
      allowedEngineFields,
      passesAuthorization,
      asksForUsage,
      leg,
      mayStillSend: this.#pair?.mayStillSend,
      sessionId: this.#session?.isInside ? prepared.hints.sessionControl?.sessionId : undefined,
    })
    this.#worker = worker
    this.dispatchedAtMs = this.byteAtMs = now()
    if (!this.#response.headersSent) this.silentSinceMs = this.dispatchedAtMs // this worker's answer may still have a status
    const sending = this.#record.dispatched(worker, answer.dpRank, routedAtMs)
    if (this.#pair) {
      prepared.model.meters.pairs.decodeSent(worker.label, this.#pair.skipped)
      this.#watchTransfer(this.#pair)
    }
    worker.enter()
    return new Promise<RelayOutcome>((resolve) => {
      const relay = new AnswerRelay(
        {
          response: this.#response,
          endpoint: this.#row.endpoint,
          headers: ownHeaders(this.#context, this.publicId, answer, this.#pair),
          wantsStream: prepared.isStream,
          isWithheld: (status) => (!isLast && isRetriable(status, isRemote)) || (isStrict && isHidden(status)),
          ...editsFor(this.#context, {
            prepared,
            answer,
            removesUsage: asksForUsage,
            sinceStartMs: () => this.#record.sinceStartMs,
            prefill: this.#pair?.prefillChoice,
          }),
        },
        {
          onSent: () => {
            sending.sent()
            this.#tie?.sent({ workerId: answer.workerId, dpRank: answer.dpRank })
          },
          onProgress: (tokens) => this.#progress(tokens),
          onCommit: () => this.#letGoOfBody(),
          onUnedited: () => prepared.model.meters.unedited(),
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

  #progress(tokens: number): void {
    const now = this.#context.now()
    this.byteAtMs = this.silentSinceMs = now
    this.#worker!.progressAtMs = now
    this.#guard!.item(tokens)
    const isFirstToken = this.#record.arrived(tokens, now)
    if (!isFirstToken) return
    this.answerBeforeMs = undefined
    if (this.#pair?.isRemote) this.#pair.firstToken(now - this.dispatchedAtMs, now)
  }

  #settle(outcome: RelayOutcome & { readonly kind: 'completed' }, guard: RequestGuard, answer: RouteAnswer): void {
    const { usage, status, hasError } = outcome
    if (!this.isStream && this.#row.generates && status < 400) this.#progress(usage?.outputTokens ?? 1)
    const { cachedTokens } = answer
    this.#record.settled(usage, this.#pair?.prefilled ?? { label: this.#worker!.label, cachedTokens })
    guard.end(hasError ? 'failed' : 'completed')
  }

  /** Tells the client, where there still is one, and answers with the status for the metrics. */
  #fail(error: unknown): number {
    const { overloadStatus } = this.#context
    this.#record.failed(error)
    if (!this.#response.destroyed && !this.#response.writableEnded) this.#tellFailure(error)
    return statusOf(error, overloadStatus)
  }

  /** In the stream where one has begun, be it with nothing but comments; else with a status. */
  #tellFailure(error: unknown): void {
    const { shape, publicId: requestId } = this
    const { overloadStatus } = this.#context
    if (this.#relay?.isCommitted) this.#relay.endWithFrames(errorFrames(error, shape, overloadStatus))
    else if (this.#response.headersSent) this.#response.end(errorFrames(error, shape, overloadStatus))
    else answerError(this.#request, this.#response, error, { shape, overloadStatus, requestId })
  }

  /** Nobody can be asked again, so the memory of a long body is the next request's. Not while a prefill may still be sent. */
  #letGoOfBody(): void {
    if (!this.#bytes || this.#pair || !this.#relay?.isSent) return
    this.#context.buffers.give(this.#bytes)
    this.#bytes = undefined
  }

  #finish(status: number): void {
    const { deadlines, buffers } = this.#context
    endInTime(this.#response, deadlines.noProgressMs)
    this.#record.tellEnded(status, this.#tokens)
    if (this.#tokens) buffers.give(this.#tokens)
    this.#guard?.end('dropped')
    this.#pair?.end()
    this.#record.finished(status)
  }
}
