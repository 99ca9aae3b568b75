/**
 * One try at one worker: books, sends, relays and settles. What it booked is freed on every path; whether another worker is
 * tried after it is its caller's to say.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { WarmrouteError } from '../core/protocol/index.js'
import type { LegEdit } from '../engines/index.js'
import type { RequestGuard, RouteAnswer, SessionUse } from '../routing/index.js'
import type { GatewayContext } from './context.js'
import { isHidden } from './http/engine-refusal.js'
import type { PairedRequest } from './pairs/index.js'
import { firstTokenMsMax } from './pairs/index.js'
import type { RelayHooks, RelayOutcome, RelayRequest } from './relay/answer-relay.js'
import { AnswerRelay } from './relay/answer-relay.js'
import { editsFor, ownHeaders } from './relay/own-marks.js'
import { choosesRankItself, engineRequest } from './request/engine-request.js'
import { guardOf } from './request/guard-of.js'
import { lookHarmless } from './request/harmless.js'
import type { Prepared } from './request/prepare.js'
import type { PromptTokens } from './request/prompt.js'
import { totalTokensOf } from './request/prompt.js'
import { isUsageUnasked, wantsUsageSample } from './request/usage-sample.js'
import { isFault, isInBackground, isRetriable, mayBeStored, wasNeverSent } from './request/verdicts.js'
import { longBytes } from './scan-fields.js'
import type { SessionTie } from './sessions/session-affinity.js'
import type { RequestRecord } from './telemetry/request-record.js'
import type { EngineRequest } from './wire/engine-connection.js'
import type { Worker } from './workers/worker.js'

export interface AttemptOptions {
  readonly context: GatewayContext
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly id: string
  readonly publicId: string
  readonly prepared: Prepared
  readonly prompt: PromptTokens | undefined
  readonly answer: RouteAnswer
  /** Nobody is asked after this worker: what it refuses is the client's answer. */
  readonly isLast: boolean
  readonly pair: PairedRequest | undefined
  readonly tie: SessionTie | undefined
  readonly record: RequestRecord
  /** Says why the request as a whole is given up, once it is. */
  readonly caller: { readonly givenUp: WarmrouteError | undefined }
  /** The worker was asked, or said something. */
  readonly onMoved: (nowMs: number, what: 'asked' | 'arrived') => void
  /** Nobody can be asked again, and the body is sent. */
  readonly onBodyDone: () => void
}

export class Attempt {
  readonly #options: AttemptOptions
  readonly #guard: RequestGuard
  readonly #worker: Worker | undefined
  readonly #routedAtMs: number
  #relay: AnswerRelay | undefined
  #session: SessionUse | undefined
  #asksForUsage = false
  /** Its engine takes a rank by itself: what was foretold of the one that is booked means nothing. */
  readonly #isRankUnknown: boolean
  /** 0 until the worker is asked. */
  dispatchedAtMs = 0
  byteAtMs = 0
  /** The first token after a prefill elsewhere must be there by then. */
  answerBeforeMs: number | undefined

  constructor(options: AttemptOptions) {
    const { context, prepared, prompt, answer, id, record } = options
    this.#options = options
    this.#routedAtMs = context.now()
    this.#worker = prepared.model.fleet.get(answer.workerId)
    this.#isRankUnknown = !!this.#worker && !options.pair?.isRemote && choosesRankItself(this.#worker, prepared)
    this.#guard = guardOf(context, prepared, prompt, {
      requestId: id,
      startedAtMs: record.startedAtMs,
      closeSession: () => this.#session?.afterwards?.(),
    })
  }

  get isCommitted(): boolean {
    return this.#relay?.isCommitted ?? false
  }

  get isHeldUp(): boolean {
    return this.#relay?.isHeldUp ?? false
  }

  get workerProgressAtMs(): number {
    return this.#worker?.progressAtMs ?? this.dispatchedAtMs
  }

  keepAlive(): void {
    this.#relay?.keepAlive()
  }

  abort(error: WarmrouteError): void {
    this.#relay?.abort(error)
  }

  endWithFrames(frames: string): void {
    this.#relay?.endWithFrames(frames)
  }

  /** Rejects for errors of our own only; whatever happens to the worker is an outcome. */
  async run(): Promise<RelayOutcome> {
    const { prepared, pair, caller, context } = this.#options
    const { fleet } = prepared.model
    const worker = this.#worker
    worker?.enter() // from here on: one that drains does not leave before the request was sent
    try {
      const sending = prepared.bytes.length > longBytes ? context.turns.ownTurn() : context.turns.rest()
      if (sending) await sending
      this.#requireWanted()
      if (!worker) throw new WarmrouteError('WR_ENGINE_UNREACHABLE', { reason: 'the worker just left' })
      const looking = lookHarmless(worker.spec.engine, prepared, context, () => this.#requireWanted())
      if (looking) await looking
      const leg = prepared.hints.sessionControl || pair ? await this.#makeReady(worker) : undefined
      this.#countRouted(worker)
      const outcome = await this.#relayFrom(worker, leg)
      if (outcome.kind === 'completed') this.#settle(outcome, worker)
      else this.#guard.end(caller.givenUp ? 'stopped' : 'failed')
      if (outcome.kind === 'failed' && !caller.givenUp && isFault(outcome.error)) fleet.fault(worker, outcome.error)
      if (outcome.kind === 'failed' && wasNeverSent(outcome)) pair?.decodeUnsent()
      return outcome
    } catch (error) {
      if (!(error instanceof WarmrouteError)) throw error
      return { kind: 'failed', error, isCommitted: false, isUntouched: true }
    } finally {
      this.#guard.end('failed')
      pair?.decodeEnded()
      worker?.leave()
    }
  }

  /** What must be there before the worker is asked: its session, and the KV of a prefill elsewhere. */
  async #makeReady(worker: Worker): Promise<LegEdit | undefined> {
    const { prepared, pair } = this.#options
    const { model, hints } = prepared
    if (hints.sessionControl) {
      this.#session = await model.agents.begin(hints.sessionControl, worker.id)
      this.#requireWanted()
    }
    const leg = pair && (await pair.decodeLeg(worker))
    this.#requireWanted()
    return leg
  }

  #requireWanted(): void {
    const { givenUp } = this.#options.caller
    if (givenUp) throw givenUp
  }

  #countRouted(worker: Worker): void {
    const { prepared, prompt, answer, pair } = this.#options
    const { model } = prepared
    if (pair?.isRemote === true || !model.looksAtPrompts) return
    model.meters.routed(
      worker.label,
      prompt ? totalTokensOf(prompt) : 0,
      this.#isRankUnknown ? undefined : answer.cachedTokens,
    )
    model.routerMetrics.requestSent(answer.cachedTokens)
  }

  #relayFrom(worker: Worker, leg: LegEdit | undefined): Promise<RelayOutcome> {
    const { context, prepared, pair } = this.#options
    this.#asksForUsage = wantsUsageSample(context, worker, prepared)
    const request = this.#engineRequest(worker, leg)
    this.#asked(worker)
    return new Promise<RelayOutcome>((resolve) => {
      const relay = new AnswerRelay(this.#relayRequest(), this.#relayHooks(worker, resolve))
      this.#relay = relay
      relay.attach(worker.link.call(request, relay))
      this.#guard.dispatched()
      pair?.decodeSent((error) => {
        if (!relay.isCommitted) relay.abort(error)
      })
    })
  }

  #engineRequest(worker: Worker, leg: LegEdit | undefined): EngineRequest {
    const { context, request, prepared, answer, pair, record, publicId } = this.#options
    return engineRequest({
      context,
      prepared,
      worker,
      rank: answer,
      requestId: publicId,
      headers: record.headersFor(request.headers),
      asksForUsage: this.#asksForUsage,
      leg,
      mayStillSend: pair?.mayStillSend,
      sessionId: this.#session?.isInside ? prepared.hints.sessionControl?.sessionId : undefined,
    })
  }

  #asked(worker: Worker): void {
    const { context, prepared, prompt, pair, onMoved } = this.#options
    this.dispatchedAtMs = this.byteAtMs = context.now()
    onMoved(this.dispatchedAtMs, 'asked')
    if (!pair) return
    prepared.model.meters.pairs.decodeSent(worker.label, pair.skipped)
    const firstTokenMs = pair.isRemote ? firstTokenMsMax(context.deadlines, prepared, prompt) : undefined
    this.answerBeforeMs = firstTokenMs === undefined ? undefined : this.dispatchedAtMs + firstTokenMs
  }

  #relayRequest(): RelayRequest {
    const { context, response, prepared, prompt, answer, isLast, pair, record, publicId } = this.#options
    const isRemote = pair?.isRemote ?? false
    const sinceStartMs = (): number => record.sinceStartMs
    const removesUsage = this.#asksForUsage
    const prefill = pair?.prefillChoice
    const { editEvent, bodyEdit } = editsFor(context, { prepared, prompt, answer, removesUsage, sinceStartMs, prefill })
    return {
      response,
      requestId: publicId,
      endpoint: prepared.row.endpoint,
      headers: ownHeaders(context, {
        publicId,
        model: prepared.model,
        answer,
        pair,
        howKnown: record.howKnown,
        isRankUnknown: this.#isRankUnknown,
      }),
      wantsStream: prepared.isStream,
      editedBytesMax: context.limits.editedBytesMax,
      isWithheld: (status) => (!isLast && isRetriable(status, isRemote)) || (context.isStrict && isHidden(status)),
      canMove: () =>
        !isLast && !pair && prepared.model.fleet.hasOther(answer.workerId, prepared.row, prepared.loraName),
      editEvent,
      bodyEdit,
    }
  }

  #relayHooks(worker: Worker, resolve: (outcome: RelayOutcome) => void): RelayHooks {
    const { prepared, answer, pair, tie, record, onBodyDone } = this.#options
    const sending = record.dispatched(worker, answer.dpRank, this.#routedAtMs)
    return {
      onSent() {
        sending.sent()
        tie?.sent({ workerId: answer.workerId, dpRank: answer.dpRank })
      },
      onHead: () => void this.#moved(worker),
      onProgress: (tokens) => this.#progress(worker, tokens),
      // Not while a prefill may still be sent.
      onCommit: () => {
        if (!pair && this.#relay?.isSent) onBodyDone()
      },
      onUnedited: () => prepared.model.meters.unedited(),
      onResponseId: mayBeStored(prepared) ? (id) => prepared.model.responses.keep(id, worker.id) : undefined,
      onOutcome(outcome) {
        sending.end()
        resolve(outcome)
      },
    }
  }

  /** When it was. */
  #moved(worker: Worker): number {
    const { context, onMoved } = this.#options
    const now = context.now()
    this.byteAtMs = worker.progressAtMs = now
    onMoved(now, 'arrived')
    return now
  }

  #progress(worker: Worker, tokens: number): void {
    const { pair, record } = this.#options
    const now = this.#moved(worker)
    this.#guard.item(tokens, now)
    const isFirstToken = record.arrived(tokens, now)
    if (!isFirstToken) return
    this.answerBeforeMs = undefined
    if (pair?.isRemote) pair.firstToken(now - this.dispatchedAtMs, now)
  }

  #settle({ usage, status, hasError }: RelayOutcome & { readonly kind: 'completed' }, worker: Worker): void {
    const { prepared, prompt, answer, pair, record } = this.#options
    const isWhole = !prepared.isStream && !this.#relay!.isStream // engines read a yes in `stream: 1`, too
    if (isWhole && prepared.row.generates && status < 400 && !isInBackground(prepared))
      this.#progress(worker, usage?.outputTokens ?? 1)
    if (status < 400 && !hasError) pair?.hasRead()
    if (!hasError && !this.#asksForUsage && isUsageUnasked(prepared)) worker.tellsUsageUnasked = usage !== undefined
    const isForetold = prepared.model.looksAtPrompts && !this.#isRankUnknown && mayForetell(prompt, worker)
    const foretold = isForetold ? (pair?.prefilled ?? answer).cachedTokens : undefined
    record.settled(usage, { label: pair?.prefilled?.label ?? worker.label, cachedTokens: foretold })
    const { routerMetrics, prefill } = prepared.model
    if (usage?.cachedTokens !== undefined)
      (pair?.prefilled ? prefill?.metrics : routerMetrics)?.requestReused(usage.cachedTokens)
    this.#guard.end(hasError ? 'failed' : 'completed')
  }
}

/**
 * What the router expected can be compared with what the engine reports. Of a batch the engine speaks of all prompts or of the last, and only
 * the first was looked up; and bytes are looked up among our own decisions, which are not remembered of an exact worker.
 */
function mayForetell(prompt: PromptTokens | undefined, { mode }: Worker): boolean {
  if (!prompt || totalTokensOf(prompt) > prompt.tokens.length) return false
  return prompt.isExact || mode !== 'exact'
}
