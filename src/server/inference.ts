/**
 * One request from its first byte to its last: read, understand, route, dispatch, relay, and free whatever was booked on
 * every path. Streams and whole answers take the same way; only the relay knows the difference.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { WarmrouteError } from '../core/protocol/index.js'
import type { PromptHashes, RouteAnswer, RouteRequest } from '../routing/index.js'
import { Attempt } from './attempt.js'
import type { GatewayContext, UnderWay } from './context.js'
import { answerRefusal, refusal } from './http/engine-refusal.js'
import type { ErrorShape } from './http/error-body.js'
import { statusOf } from './http/error-status.js'
import { readBody } from './http/read-body.js'
import { commentWhileWaiting } from './relay/early-head.js'
import { tellFailure } from './relay/tell-failure.js'
import type { Timed } from './request/deadlines.js'
import type { EndpointRow } from './request/endpoints.js'
import type { Prepared } from './request/prepare.js'
import { choosesRankItself } from './request/engine-request.js'
import { checkHarmless } from './request/harmless.js'
import { prepare, promptOf } from './request/prepare.js'
import { hashAhead, hashesOf, withHashes } from './request/hash-prompt.js'
import type { PromptTokens } from './request/prompt.js'
import { promptOn } from './request/prompt.js'
import { answerDryRun } from './request/nvext-answer.js'
import type { Place } from './request/route-request.js'
import { placeOf, refusalFor, routeRequestOf } from './request/route-request.js'
import type { PrefillAnswer } from './pairs/index.js'
import { asStream, outputTokensOf, PairedRequest } from './pairs/index.js'
import { howKnownHeaders, ownHeaders } from './relay/own-marks.js'
import { RequestRecord } from './telemetry/request-record.js'
import {
  asReusable,
  clientRequestId,
  endInTime,
  mayMove,
  requireJson,
  requireFree,
  requireReady,
  requireRoute,
} from './request/verdicts.js'
import type { SessionTie } from './sessions/session-affinity.js'
import { tieOf } from './sessions/tie-of.js'
import { attemptsMax } from './options.js'
import { longBytes } from './scan-fields.js'
import { takeSteps } from './steps.js'
import { whileUnderWay } from './under-way.js'

export class Inference implements Timed, UnderWay {
  /** Unique among running requests: what is booked is booked under it. */
  readonly id: string
  /** What client and engine call the request. */
  readonly publicId: string
  readonly #context: GatewayContext
  readonly #row: EndpointRow
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #record: RequestRecord
  /** Made when somebody has to wait for something. */
  #abort: AbortController | undefined
  readonly #signal = (): AbortSignal => this.#signalNow()
  givenUp: WarmrouteError | undefined
  /** The worker that is being asked, or was asked last; undefined while the request waits for one. */
  #attempt: Attempt | undefined
  #tie: SessionTie | undefined
  /** Where the model has prefill workers: the other half of this request. */
  #pair: PairedRequest | undefined
  /** Lent for the body, and for a prompt that is compared by its bytes. */
  #bytes: Buffer | undefined
  #tokens: Uint32Array | undefined
  countsFromMs: number
  silentSinceMs: number
  /** Among those under way, and among those that the clock watches. */
  seat = -1
  clockSeat = -1
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

  get dispatchedAtMs(): number {
    return this.#attempt?.dispatchedAtMs ?? 0
  }

  get byteAtMs(): number {
    return this.#attempt?.byteAtMs ?? 0
  }

  get workerProgressAtMs(): number {
    return this.#attempt?.workerProgressAtMs ?? 0
  }

  get answerBeforeMs(): number | undefined {
    return this.#attempt?.answerBeforeMs
  }

  get isHeldUp(): boolean {
    return this.#attempt?.isHeldUp ?? false
  }

  get hasBegun(): boolean {
    return this.#response.headersSent
  }

  /** Never rejects. */
  run(): Promise<void> {
    return whileUnderWay(this.#context, this.#request, this, {
      serve: () => this.#serve(),
      fail: (error) => this.#fail(this.givenUp ?? error),
      finish: (status) => this.#finish(status),
    })
  }

  left(): void {
    this.giveUp(new WarmrouteError('WR_REQUEST_CANCELLED', {}))
  }

  /** The client left, or the gateway closes: what runs elsewhere for this request ends in this turn of the loop, and it itself when it has its next one. */
  giveUp(error: WarmrouteError): void {
    this.givenUp ??= error
    this.#abort?.abort(this.givenUp)
    this.#pair?.abort(error)
    this.#attempt?.abort(error)
  }

  comment(): void {
    this.silentSinceMs = this.#context.now()
    if (this.dispatchedAtMs > 0) this.#attempt!.keepAlive()
    else if (this.#mayOpen) commentWhileWaiting(this.#response, this.publicId)
  }

  /** A worker that was too slow may be replaced; a wait for a worker is over. */
  expire(error: WarmrouteError): void {
    if (this.dispatchedAtMs > 0) this.#attempt!.abort(error)
    else this.giveUp(error)
  }

  async #serve(): Promise<number> {
    const { limits, deadlines, clock, turns, now, isStrict } = this.#context
    requireJson(this.#request, isStrict)
    const bytes = await readBody(this.#request, this.#response, {
      bytesMax: limits.bodyBytesMax,
      timeoutMs: deadlines.bodyMs,
      memory: this.#context,
    })
    this.#bytes = bytes
    this.countsFromMs = this.silentSinceMs = now()
    clock.add(this)
    const turn = turns.enter()
    if (turn) await turn
    let prepared: Prepared
    try {
      this.#requireWanted()
      const reading = takeSteps(prepare(this.#context, this.#row, this.#request, bytes))
      prepared = reading instanceof Promise ? await reading : reading
      this.#requireWanted()
      if (prepared.bytes !== bytes) this.#holdInstead(prepared.bytes)
    } catch (error) {
      this.#letGoOfBody() // nobody else has seen it
      throw error
    }
    const rest = turns.rest()
    if (rest) await rest
    this.#requireWanted()
    this.#record.understood(prepared)
    this.#mayOpen = prepared.isStream && !prepared.hints.isDryRun
    requireReady(this.#context, prepared)
    if (isStrict) await takeSteps(prepared.checkStrictly())
    requireFree(prepared)
    requireRoute(this.#context, prepared)
    const checking = takeSteps(checkHarmless(prepared, this.#context))
    if (checking instanceof Promise) await checking
    const found = this.#preprocess(prepared)
    const known = found instanceof Promise ? await found : found
    const prompt = this.#promptIn(known)
    const routing = bytes.length > longBytes ? turns.ownTurn() : turns.rest()
    if (routing) await routing
    this.#requireWanted()
    this.#record.prompt(prompt, known)
    const tying = tieOf(prepared, this.#signal)
    if (tying) this.#tie = await tying
    try {
      return await this.#askWorkers(prepared, prompt)
    } finally {
      this.#tie?.end()
    }
  }

  #preprocess(prepared: Prepared): ReturnType<typeof promptOf> {
    const { stages } = this.#context
    return this.#record.during(stages.preprocess, () => promptOf(prepared, this.#signal, this.#context))
  }

  /** The prompt as routing compares it, where it has any. */
  #promptIn(known: PromptTokens | undefined): PromptTokens | undefined {
    this.#tokens = known?.tokens
    return known && known.tokens.length > 0 ? known : undefined
  }

  /** Routes and dispatches; a worker that fails before the first byte is replaced, once. */
  async #askWorkers(prepared: Prepared, known: PromptTokens | undefined): Promise<number> {
    const { model, hints } = prepared
    if (known?.hashAhead) await hashAhead(prepared, known)
    const hashes = hashesOf(prepared, known)
    const prompt = known?.encodings ? await withHashes(prepared, known) : known
    const failed = new Set<bigint>()
    const pair = (this.#pair = this.#openPair(prepared, prompt, hashes))
    let firstError: WarmrouteError | undefined
    for (let asked = 1; ; asked++) {
      this.#attempt = undefined
      const terms = pair && (hints.isDryRun ? await pair.query() : await pair.before())
      if (pair?.refusal) return this.#passRefusal(pair.refusal)
      if (pair?.terminal) return this.#passTerminal(prepared, pair, pair.terminal)
      this.#requireWanted() // a router that is given no signal yet takes it for wanted
      const place = placeOf(prepared, this.#tie?.target, failed, terms?.excluded)
      const request = routeRequestOf(this.id, prepared, prompt, hashes, place, this.#signal, terms)
      let answer: RouteAnswer
      try {
        answer = await this.#route(prepared, prompt, request)
      } catch (error) {
        if (!(await this.#leavesSession(place, error)))
          throw firstError ?? refusalFor(error, prepared, place, failed, terms)
        asked-- // no worker was asked
        continue
      }
      if (hints.isDryRun)
        return answerDryRun(this.#response, {
          prepared,
          prompt: promptOn(prompt, answer.workerId),
          answer,
          requestId: this.publicId,
          headers: this.#context.showsWorker ? howKnownHeaders(this.#record.howKnown) : [],
          prefill: pair?.prefillChoice,
        })
      this.#record.chosen(answer)
      const isLast = asked === attemptsMax || place.isFixed
      const own = promptOn(prompt, answer.workerId)
      const attempt = (this.#attempt = this.#attemptAt(answer, prepared, own, isLast))
      const outcome = await attempt.run()
      if (outcome.kind === 'completed') return outcome.hasError && outcome.status < 400 ? 500 : outcome.status
      this.#requireWanted()
      if (pair?.refusal) return this.#passRefusal(pair.refusal)
      const error = outcome.kind === 'failed' ? outcome.error : refusal(outcome.status, this.#context.overloadStatus)
      if (pair?.isPrefillFault(error) && !attempt.isCommitted) {
        asked-- // the decode worker is not to blame; `before` says when enough was tried
        continue
      }
      firstError ??= error
      this.#tie?.lost()
      if (isLast || !mayMove(outcome, error, pair?.isRemote ?? false)) throw pair ? pair.naming(error) : error
      failed.add(answer.workerId)
      model.meters.retried()
      this.#attempt = undefined
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
    const { fleet, spec } = prepared.model
    const choose = (): Promise<RouteAnswer> => this.#record.inSpan(() => spec.router.route(request))
    const answer = await this.#record.during(this.#context.stages.route, choose)
    const own = promptOn(prompt, answer.workerId)
    const worker = this.#pair?.isRemote ? undefined : fleet.get(answer.workerId)
    this.#record.routed(prepared, own, answer, worker !== undefined && choosesRankItself(worker, prepared))
    return asReusable(answer, own, spec.blockSize, fleet)
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
      headers: this.#request.headers,
      record: this.#record,
      signal: this.#signalNow(),
      countsFromMs: this.countsFromMs,
    })
  }

  /** The prefill worker says that the request is wrong: so would every other. */
  #passRefusal(said: PrefillAnswer): number {
    const { isStrict, overloadStatus } = this.#context
    if (this.#response.headersSent) throw refusal(said.head.status, overloadStatus)
    return answerRefusal(this.#response, said, { isFlat: isStrict && !this.#row.isAnthropic, requestId: this.publicId })
  }

  /** The prefill ended the answer: nobody has to decode. */
  #passTerminal({ body, isStream, model }: Prepared, pair: PairedRequest, whole: Buffer): number {
    const response = this.#response
    model.meters.pairs.answered()
    this.#record.answeredByPrefill(outputTokensOf(whole))
    const type = isStream ? 'text/event-stream; charset=utf-8' : 'application/json'
    const options = body['stream_options'] as { include_usage?: unknown } | null | undefined
    const bytes = isStream ? Buffer.from(asStream(whole, options?.include_usage === true)) : whole
    const headers = ownHeaders(this.#context, {
      publicId: this.publicId,
      model,
      answer: pair.prefillChoice!,
      pair,
      howKnown: this.#record.howKnown,
    })
    if (!response.headersSent) response.writeHead(200, [...headers.flat(), 'content-type', type])
    response.end(bytes)
    return 200
  }

  #attemptAt(answer: RouteAnswer, prepared: Prepared, prompt: PromptTokens | undefined, isLast: boolean): Attempt {
    return new Attempt({
      context: this.#context,
      request: this.#request,
      response: this.#response,
      id: this.id,
      publicId: this.publicId,
      prepared,
      prompt,
      answer,
      isLast,
      pair: this.#pair,
      tie: this.#tie,
      record: this.#record,
      caller: this,
      onMoved: (nowMs, what) => {
        // A worker that is only asked may still answer with a status of its own, unless a comment has gone out.
        if (what === 'arrived' || !this.#response.headersSent) this.silentSinceMs = nowMs
      },
      onBodyDone: () => this.#letGoOfBody(),
    })
  }

  #requireWanted(): void {
    if (this.givenUp) throw this.givenUp
  }

  #signalNow(): AbortSignal {
    if (!this.#abort) {
      this.#abort = new AbortController()
      if (this.givenUp) this.#abort.abort(this.givenUp)
    }
    return this.#abort.signal
  }

  /** Tells the client, where there still is one, and answers with the status for the metrics. */
  #fail(error: unknown): number {
    const { overloadStatus } = this.#context
    this.#record.failed(error)
    tellFailure(error, {
      request: this.#request,
      response: this.#response,
      speaker: this.#attempt,
      shape: this.shape,
      overloadStatus,
      requestId: this.publicId,
    })
    return statusOf(error, overloadStatus)
  }

  /** Nobody can be asked again, so the memory of a long body is the next request's. */
  #letGoOfBody(): void {
    if (!this.#bytes) return
    this.#context.buffers.give(this.#bytes)
    this.#stopHolding()
  }

  #stopHolding(): void {
    this.#context.budget.release(this.#bytes?.length ?? 0)
    this.#bytes = undefined
  }

  /** A body that was mended: of what the client sent nothing is needed any more. */
  #holdInstead(mended: Buffer): void {
    this.#letGoOfBody()
    this.#context.budget.hold(mended.length)
    this.#bytes = mended
  }

  #finish(status: number): void {
    const { deadlines, buffers } = this.#context
    this.#stopHolding()
    endInTime(this.#response, deadlines.noProgressMs)
    this.#record.tellEnded(status, this.#tokens)
    if (this.#tokens) buffers.give(this.#tokens)
    this.#pair?.end()
    this.#record.finished(status)
  }
}
