/**
 * The prefill half of one request, under the same abort as its decode half.
 *
 *   before ──► (prefill answered, or a prefill worker chosen) ──► the caller chooses a decode worker
 *          ──► decodeLeg ──► what the decode body says ──► the caller sends it ──► decodeSent ──► end
 *
 * A prefill that fails goes to another worker once, then to the decode worker alone where that is allowed, else the request
 * fails and says which leg did. The right to read a prefill's KV is single use and ends before the lease does: a decode
 * that would be late gets a new prefill. KV that nobody was sent for is let go of by a small decode of our own.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { bootstrapRoom, TransferTicket } from '../../core/prefill/index.js'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { Appointment, Connector, LegEdit } from '../../engines/index.js'
import {
  appointment,
  canPair,
  connectorOf,
  isSequential,
  leaseMarginMs,
  leaseMsOf,
  readTransferParams,
  sequentialDecode,
  sequentialPrefill,
  unpairable,
} from '../../engines/index.js'
import type { PromptHashes, RouteAnswer, RouterPort } from '../../routing/index.js'
import { decodeOverride } from '../../routing/index.js'
import type { GatewayContext } from '../context.js'
import { engineControlFields } from '../request/engine-fields.js'
import { engineRequest } from '../request/engine-request.js'
import type { Prepared } from '../request/prepare.js'
import type { PromptTokens } from '../request/prompt.js'
import type { RouteTerms } from '../request/route-request.js'
import { scanFields } from '../splice-body.js'
import type { EngineRequest } from '../wire/engine-connection.js'
import type { Worker } from '../workers/worker.js'
import { bypassReason } from './bypass.js'
import type { PrefillAnswer } from './prefill-leg.js'
import { PrefillLeg } from './prefill-leg.js'
import { prefillPin, prefillRouteRequest, topologyTerms } from './prefill-route.js'
import type { PrefillSide } from './prefill-side.js'
import { releaseHeld } from './release.js'
import type { SkipReason } from './skip-reason.js'

export interface PairedRequestOptions {
  readonly context: GatewayContext
  readonly side: PrefillSide
  readonly prepared: Prepared
  readonly prompt: PromptTokens | undefined
  readonly hashes: PromptHashes | undefined
  /** Unique among running requests. */
  readonly id: string
  readonly publicId: string
  readonly headers: IncomingHttpHeaders
  readonly signal: AbortSignal
  /** From when the time of the whole request counts. */
  readonly countsFromMs: number
}

/** KV that waits at a prefill worker. */
interface Held {
  readonly ticket: TransferTicket
  /** Undefined: the prefill holds nothing, and the decode needs to be told nothing. */
  readonly params: string | undefined
}

/** A pair whose legs start together. */
interface Meeting {
  readonly bookingId: string
  readonly choice: RouteAnswer
  agreed: Appointment | undefined
}

/** A prefill goes to at most this many workers before the decode worker is asked to do it. */
const prefillTriesMax = 2
/** A lease that is missed this often is too short for this fleet. */
const leaseMissesMax = 2

const transferFields = engineControlFields.filter((name) => /transfer_params|^bootstrap|disagg/.test(name))

export class PairedRequest {
  readonly #options: PairedRequestOptions
  readonly #failedPrefills = new Set<bigint>()
  #inner: RouterPort | undefined
  #connector: Connector = 'nixl'
  #leg: PrefillLeg | undefined
  #held: Held | undefined
  #meeting: Meeting | undefined
  #prefillTries = 0
  #leaseMisses = 0
  #bookings = 0
  #failure: WarmrouteError | undefined
  #isAborted = false
  #prefillWorker: Worker | undefined
  #choice: RouteAnswer | undefined
  #prefillEndedAtMs: number | undefined
  #skipped: SkipReason | undefined
  /** A prefill worker's answer that is the client's: its request is wrong, and every worker would say so. */
  refusal: PrefillAnswer | undefined

  constructor(options: PairedRequestOptions) {
    this.#options = options
  }

  /** Why the decode worker does everything; undefined when it does not. */
  get skipped(): SkipReason | undefined {
    return this.#skipped
  }

  get isRemote(): boolean {
    return this.#skipped === undefined
  }

  get prefillChoice(): RouteAnswer | undefined {
    return this.isRemote ? this.#choice : undefined
  }

  /** Who computed the prompt elsewhere, and how much of it was expected there already. */
  get prefilled(): { readonly label: string; readonly cachedTokens: number } | undefined {
    if (!this.isRemote || !this.#choice) return undefined
    return { label: String(this.#choice.workerId), cachedTokens: this.#choice.cachedTokens }
  }

  /** Lines for the client. */
  headers(): readonly (readonly [name: string, value: string])[] {
    if (this.#skipped !== undefined) return [['x-warmroute-prefill-skipped', this.#skipped]]
    if (!this.#choice) return []
    return [
      ['x-warmroute-prefill-worker-id', String(this.#choice.workerId)],
      ['x-warmroute-prefill-dp-rank', String(this.#choice.dpRank)],
    ]
  }

  /** The decode's first token is here. */
  firstToken(sinceDispatchMs: number, nowMs: number): void {
    const { pairs } = this.#options.prepared.model.meters
    pairs.firstToken(sinceDispatchMs, this.#prefillEndedAtMs === undefined ? undefined : nowMs - this.#prefillEndedAtMs)
  }

  /** An error that the decode leg ended with, saying so. */
  naming(error: WarmrouteError): WarmrouteError {
    if (!this.isRemote || error.details['leg'] !== undefined || !error.code.startsWith('WR_ENGINE_')) return error
    const reason = `decode leg: ${reasonOf(error)}`
    return new WarmrouteError(error.code, { ...error.details, reason, leg: 'decode' }, { cause: error })
  }

  /** Before each choice of a decode worker. Throws when the request cannot be served; never serves against `enforce`. */
  async before(): Promise<RouteTerms> {
    this.#failure = undefined
    const now = this.#options.context.now()
    if (this.#held?.ticket.isOpen(now)) return this.#remoteTerms() // the decode worker left before it was sent anything
    const skip = await this.#decide()
    if (skip) return this.#aggregatedTerms(skip)
    try {
      if (isSequential(this.#connector)) this.#held = await this.#prefill()
      else await this.#meet()
    } catch (error) {
      return this.#afterFailure(error)
    }
    if (this.refusal) return {}
    if (this.#held && this.#held.params === undefined && this.#connector === 'nixl')
      return this.#aggregatedTerms('no_params')
    this.#skipped = undefined
    return this.#remoteTerms()
  }

  /** For a dry run: who would prefill, and on what terms a decode worker would be chosen. Books nothing. */
  async query(): Promise<RouteTerms> {
    const skip = await this.#decide()
    if (skip) return this.#aggregatedTerms(skip)
    this.#choice = await this.#inner!.route(this.#routeRequest(this.#options.id, true))
    this.#prefillWorker = this.#options.side.fleet.get(this.#choice.workerId)
    return this.#remoteTerms()
  }

  /** What the decode body must say, asked in the turn of the loop in which it is sent. */
  async decodeLeg(): Promise<LegEdit> {
    if (!this.isRemote) return { set: {}, remove: transferFields }
    if (this.#meeting) return this.#agree(this.#meeting).decode
    while (this.#held!.ticket.take(this.#options.context.now()) !== 'taken') await this.#repeatPrefill()
    return sequentialDecode(this.#held!.params)
  }

  /** The decode is on its way; where both legs go together the prefill follows in the same turn. */
  decodeSent(abortDecode: (error: WarmrouteError) => void): void {
    const meeting = this.#meeting
    if (!meeting?.agreed) return
    const { agreed } = meeting
    const end = (failure: WarmrouteError): void => {
      this.#failure = failure
      abortDecode(failure)
    }
    void this.#run(meeting.bookingId, meeting.choice, agreed.prefill).then(
      (answer) => {
        this.#prefillEnded(answer)
        if (this.refusal) end(failedLeg('it refused the request', meeting.choice.workerId))
      },
      (error: unknown) => {
        if (!this.#isAborted && this.#meeting === meeting) end(this.#prefillFailed(error))
      },
    )
  }

  /** True when the decode ended because of the prefill: the decode worker is not to blame. */
  isPrefillFault(error: WarmrouteError): boolean {
    return this.#failure !== undefined && this.#failure === error
  }

  /** The decode is over, however it ended. */
  decodeEnded(): void {
    this.#leg?.abort(new WarmrouteError('WR_REQUEST_CANCELLED', {}))
    this.#leg = undefined
    this.#forgetMeeting()
  }

  /** The client left, or time is over: the prefill ends in this turn of the loop. */
  abort(error: WarmrouteError): void {
    this.#isAborted = true
    this.#leg?.abort(error)
  }

  /** After everything else: what is booked is freed, and held KV that nobody was sent for is let go of. */
  end(): void {
    this.decodeEnded()
    const held = this.#held
    this.#held = undefined
    const { context, prepared, side, id, headers, publicId } = this.#options
    if (held?.params !== undefined && held.ticket.isOpen(context.now()))
      releaseHeld({
        context,
        prepared,
        side,
        bookingId: `${id}.r`,
        headers,
        publicId,
        params: held.params,
        ticket: held.ticket,
      })
  }

  // ---- deciding

  async #decide(): Promise<SkipReason | undefined> {
    const { side, prepared } = this.#options
    if (this.#prefillTries >= prefillTriesMax) return this.#giveUpPrefill()
    const route = side.route()
    if (route.kind === 'refused')
      throw new WarmrouteError('WR_PREFILL_UNAVAILABLE', {
        reason: route.reason === 'deactivated' ? 'every prefill worker has left' : 'no prefill worker has joined yet',
      })
    if (route.kind === 'aggregated') return route.reason === 'not-activated' ? 'not_activated' : route.reason
    this.#inner = route.inner
    this.#connector = this.#poolConnector()
    const reason = this.#cannotPair() ?? (await bypassReason({ ...this.#options, inner: route.inner }))
    if (reason && !side.hasAllRounder)
      throw new WarmrouteError('WR_NOT_IMPLEMENTED', {
        reason: `a pair cannot serve ${prepared.row.path} and no worker does both halves`,
      })
    return reason
  }

  #cannotPair(): SkipReason | undefined {
    const { side, prepared } = this.#options
    const { row, body, hints, model } = prepared
    if (!canPair(this.#connector, row.path)) return 'route'
    const shape = unpairable(this.#connector, body)
    if (shape) return shape
    const pinned = hints.decodeWorkerId ?? hints.backendWorkerId
    const target = pinned === undefined ? undefined : model.fleet.get(pinned)
    if (target && target.spec.role !== 'decode') return 'pinned'
    return side.hasDecoder || target ? undefined : 'no_decode_worker'
  }

  #poolConnector(): Connector {
    for (const { spec } of this.#options.side.fleet.all()) return connectorOf(spec.engine, spec.transfer) ?? 'nixl'
    return 'nixl'
  }

  #giveUpPrefill(): SkipReason {
    const { side } = this.#options
    const { enforce, fallsBack = true } = side.disagg
    if (enforce || !fallsBack || !side.hasAllRounder) throw this.#lastFailure()
    return 'prefill_failed'
  }

  #lastFailure(): WarmrouteError {
    return this.#lastError ?? failedLeg('no prefill worker could do it', undefined)
  }

  #lastError: WarmrouteError | undefined

  // ---- the legs

  /** Chooses, sends and waits: for connectors where the prefill comes first. */
  async #prefill(): Promise<Held> {
    const { context, prepared } = this.#options
    for (;;) {
      const { bookingId, choice } = await this.#choose()
      try {
        const answer = await this.#run(bookingId, choice, sequentialPrefill(this.#connector, prepared.body))
        this.#prefillEnded(answer)
        return this.refusal ? heldNothing : this.#take(answer)
      } catch (error) {
        const failure = this.#prefillFailed(error)
        if (this.#isAborted || this.#prefillTries >= prefillTriesMax) throw failure
        context.log.debug(
          { request_id: this.#options.publicId, reason: failure.details['reason'] },
          'a prefill is tried elsewhere',
        )
      }
    }
  }

  /** The decode worker is booked and waits: the KV that was meant for it is about to be let go of. */
  async #repeatPrefill(): Promise<void> {
    this.#options.prepared.model.meters.pairs.leaseMissed()
    try {
      if (++this.#leaseMisses > leaseMissesMax) {
        this.#prefillTries = prefillTriesMax
        throw (this.#lastError = failedLeg('its KV would be read after its lease, again and again', undefined))
      }
      this.#held = await this.#prefill()
      if (this.refusal || this.#held.params === undefined)
        throw failedLeg('a second prefill of the same request held nothing', this.#prefillWorker?.id)
    } catch (error) {
      if (error instanceof WarmrouteError) this.#failure = error
      throw error
    }
  }

  #take({ body, atMs }: PrefillAnswer): Held {
    const { spec } = this.#prefillWorker!
    const leaseMs = spec.transfer?.leaseMs ?? leaseMsOf(this.#connector, undefined)
    const ticket = new TransferTicket({
      heldFromMs: atMs,
      leaseMs,
      marginMs: leaseMs === undefined ? 0 : leaseMarginMs(leaseMs),
    })
    if (this.#connector !== 'nixl') return { ticket, params: undefined }
    const span = scanFields(body)?.findLast((field) => field.name === 'kv_transfer_params')
    const text = span && body.toString('utf8', span.valueStart, span.valueEnd)
    return { ticket, params: readTransferParams(text, this.#peerHost()) }
  }

  /** Chooses a prefill worker for legs that go together. */
  async #meet(): Promise<void> {
    this.#forgetMeeting()
    this.#meeting = { ...(await this.#choose()), agreed: undefined }
  }

  #agree(meeting: Meeting): Appointment {
    const { context, prepared, side, id } = this.#options
    const worker = side.fleet.get(meeting.choice.workerId)
    if (!worker) throw failedLeg('the worker just left', meeting.choice.workerId)
    const { dataParallelSize: size, dataParallelStartRank: start } = worker.config
    const dpRank = meeting.choice.dpRank - start
    // Below 2^53: whoever reads the number as a double must read the same one.
    const draw = BigInt(Math.floor(context.random() * (2 ** 53 / Math.max(1, size))))
    meeting.agreed = appointment({
      connector: this.#connector,
      body: prepared.body,
      host: this.#peerHost(),
      facts: worker.spec.transfer,
      dpRank,
      transferId: meeting.bookingId || id,
      room: bootstrapRoom(draw, dpRank, size),
    })
    return meeting.agreed
  }

  async #choose(): Promise<{ bookingId: string; choice: RouteAnswer }> {
    const { id, side, signal } = this.#options
    const bookingId = `${id}.p${++this.#bookings}`
    const choice = await this.#inner!.route(this.#routeRequest(bookingId, false))
    if (signal.aborted) {
      this.#inner!.free(bookingId)
      throw new WarmrouteError('WR_REQUEST_CANCELLED', {})
    }
    this.#choice = choice
    this.#prefillWorker = side.fleet.get(choice.workerId)
    return { bookingId, choice }
  }

  async #run(bookingId: string, choice: RouteAnswer, edit: LegEdit): Promise<PrefillAnswer> {
    const { context, side, prepared, prompt } = this.#options
    const { clock, deadlines, now } = context
    const leg = new PrefillLeg({
      router: this.#inner!,
      fleet: side.fleet,
      bookingId,
      choice,
      clock,
      deadlines,
      now,
      countsFromMs: this.#options.countsFromMs,
    })
    this.#leg = leg
    const { meters } = prepared.model
    meters.routed(leg.worker.label, prompt?.tokens.length ?? 0, choice.cachedTokens)
    const answer = await leg.send(this.#requestFor(leg.worker, choice, edit)).catch((error: unknown) => {
      if (error instanceof WarmrouteError && !this.#isAborted) side.fleet.fault(leg.worker, error)
      throw error
    })
    const { status } = answer.head
    if (status >= 500 || status === 429)
      throw new WarmrouteError('WR_ENGINE_UNREACHABLE', { reason: `it answered with status ${status}` })
    this.#prefillEndedAtMs = answer.atMs
    meters.pairs.prefillEnded(leg.worker.label, answer.atMs - leg.dispatchedAtMs)
    return answer
  }

  #requestFor(worker: Worker, choice: RouteAnswer, leg: LegEdit): EngineRequest {
    const { context, prepared, publicId, headers } = this.#options
    return engineRequest({
      prepared,
      worker,
      rank: choice,
      requestId: publicId,
      headers,
      allowedEngineFields: context.allowedEngineFields,
      passesAuthorization: context.passesAuthorization,
      asksForUsage: false,
      leg: { ...leg, remove: [...transferFields, ...leg.remove] },
    })
  }

  #routeRequest(bookingId: string, isQueryOnly: boolean): Parameters<RouterPort['route']>[0] {
    return prefillRouteRequest({ ...this.#options, bookingId, isQueryOnly, failed: this.#failedPrefills })
  }

  #prefillEnded(answer: PrefillAnswer): void {
    const { status } = answer.head
    if (status >= 400) this.refusal = answer
  }

  /** Counts it, blames the worker where it is to blame, and names the leg. */
  #prefillFailed(error: unknown): WarmrouteError {
    if (!(error instanceof WarmrouteError)) throw error
    const worker = this.#prefillWorker
    this.#prefillTries++
    if (worker && !this.#isAborted) {
      const { prepared } = this.#options
      this.#failedPrefills.add(worker.id)
      prepared.model.meters.pairs.prefillFailed(worker.label)
    }
    if (this.#isAborted) return error
    this.#lastError = failedLeg(reasonOf(error), worker?.id, error)
    return this.#lastError
  }

  /** A choice or a prefill failed for good: the decode worker does it alone, or the request fails. */
  #afterFailure(error: unknown): RouteTerms {
    if (!(error instanceof WarmrouteError) || this.#isAborted || isBackPressure(error)) throw error
    this.#lastError ??= failedLeg(reasonOf(error), undefined, error)
    if (prefillPin(this.#options) !== undefined) throw error // asked for by name, so nobody else will do
    this.#prefillTries = prefillTriesMax
    return this.#aggregatedTerms(this.#giveUpPrefill())
  }

  #forgetMeeting(): void {
    const meeting = this.#meeting
    this.#meeting = undefined
    if (meeting) this.#inner!.free(meeting.bookingId) // safe to repeat: the leg frees it as well
  }

  /** As decode workers reach it. */
  #peerHost(): string {
    const { spec } = this.#prefillWorker!
    return spec.transfer?.host ?? new URL(spec.url).hostname.replace(/^\[|\]$/g, '')
  }

  // ---- the terms of the decode

  #remoteTerms(): RouteTerms {
    const { side } = this.#options
    return {
      override: decodeOverride(undefined, side.disagg.conditional !== undefined),
      excluded: side.notForDecode,
      ...topologyTerms(this.#prefillWorker?.config),
    }
  }

  #aggregatedTerms(reason: SkipReason): RouteTerms {
    this.#skipped = reason
    return { excluded: this.#options.side.notForBoth }
  }
}

const heldNothing: Held = {
  ticket: new TransferTicket({ heldFromMs: 0, leaseMs: undefined, marginMs: 0 }),
  params: undefined,
}

/** The prefill stage is full: others wait there too, and passing it on would only move the queue. */
function isBackPressure({ code }: WarmrouteError): boolean {
  return (
    code === 'WR_QUEUE_REJECTED' ||
    code === 'WR_ALL_WORKERS_OVERLOADED' ||
    code === 'WR_TRACKER_FULL' ||
    code === 'WR_SHUTTING_DOWN' ||
    code === 'WR_ROUTER_CLOSED'
  )
}

function reasonOf({ details, message }: WarmrouteError): string {
  return typeof details['reason'] === 'string' ? details['reason'] : message
}

function failedLeg(reason: string, workerId: bigint | undefined, cause?: WarmrouteError): WarmrouteError {
  const where = workerId === undefined ? 'prefill leg' : `prefill leg on worker ${workerId}`
  const details = { reason: `${where}: ${reason}`, leg: 'prefill', cause: cause?.code }
  return new WarmrouteError('WR_PREFILL_FAILED', details, cause === undefined ? undefined : { cause })
}
