/**
 * The prefill half of one request, under the same abort as its decode half.
 *
 *   before ──► (prefill answered, or a prefill worker chosen) ──► the caller chooses a decode worker
 *          ──► decodeLeg ──► what the decode body says ──► the caller sends it ──► decodeSent ──► decodeEnded ──► end
 *
 * A prefill that fails goes to another worker once, then to the decode worker alone where that is allowed, else the request
 * fails and says which leg did. The right to read a prefill's KV is single use and ends before the lease does: a decode
 * that would be late gets a new prefill. KV that nobody was sent for is let go of by a small decode of our own.
 */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { Appointment, Connector, LegEdit } from '../../engines/index.js'
import {
  canDecodeAlone,
  canPair,
  connectorOf,
  isSequential,
  readTransferParams,
  sequentialDecode,
  sequentialPrefill,
  unpairable,
} from '../../engines/index.js'
import type { RouteAnswer } from '../../routing/index.js'
import { decodeOverride } from '../../routing/index.js'
import type { RouteTerms } from '../request/route-request.js'
import { backendOf } from '../request/route-request.js'
import { scanFields } from '../scan-fields.js'
import type { Worker } from '../workers/worker.js'
import { bypassReason } from './bypass.js'
import { HeldKv } from './held-kv.js'
import { isBackPressure, namingDecode, prefillFailure, reasonOf } from './leg-errors.js'
import type { Meeting } from './meeting.js'
import { agree } from './meeting.js'
import type { PrefillAnswer } from './prefill-leg.js'
import { prefillPin, topologyTerms } from './prefill-route.js'
import type { PairOptions } from './prefill-runner.js'
import { PrefillRunner, transferFields } from './prefill-runner.js'
import { releaseHeld } from './release.js'
import type { SkipReason } from './skip-reason.js'
import { terminalAnswer } from './terminal-answer.js'

/** A worker that was chosen and cannot do it; more than this is a pin on it. */
const misfitsMax = 3
/** A lease that is missed this often is too short for this fleet. */
const leaseMissesMax = 2

export class PairedRequest {
  readonly #options: PairOptions
  readonly #runner: PrefillRunner
  #connector: Connector = 'nixl'
  #held: HeldKv | undefined
  #meeting: Meeting | undefined
  #leaseMisses = 0
  #misfits = 0
  /** Of the decode that runs. */
  #hasToken = false
  /** The error with which the prefill ended the decode. */
  #fault: WarmrouteError | undefined
  #skipped: SkipReason | undefined
  /** A prefill worker's answer that is the client's: its request is wrong, and every worker would say so. */
  refusal: PrefillAnswer | undefined
  /** The prefill ended the answer: this is all of it. */
  terminal: Buffer | undefined

  constructor(options: PairOptions) {
    this.#options = options
    this.#runner = new PrefillRunner(options)
  }

  // ---- what it says of itself

  /** Why the decode worker does everything; undefined when it does not. */
  get skipped(): SkipReason | undefined {
    return this.#skipped
  }

  get isRemote(): boolean {
    return this.#skipped === undefined
  }

  get prefillChoice(): RouteAnswer | undefined {
    return this.isRemote ? this.#runner.chosen : undefined
  }

  /** Who computed the prompt elsewhere, and how much of it was expected there already. */
  get prefilled(): { readonly label: string; readonly cachedTokens: number } | undefined {
    const choice = this.prefillChoice
    return choice && { label: String(choice.workerId), cachedTokens: choice.cachedTokens }
  }

  /** Lines for the client. */
  headers(): readonly (readonly [name: string, value: string])[] {
    if (this.#skipped !== undefined) return [['x-warmroute-prefill-skipped', this.#skipped]]
    const choice = this.#runner.chosen
    if (!choice) return []
    return [
      ['x-warmroute-prefill-worker-id', String(choice.workerId)],
      ['x-warmroute-prefill-dp-rank', String(choice.dpRank)],
    ]
  }

  /** Who has a token, or has answered, has read everything before it: the prefill worker may go. */
  hasRead(): void {
    this.#hasToken = true
    this.#held?.letGo()
    this.#meeting?.letGo?.()
  }

  /** The decode's first token is here. */
  firstToken(sinceDispatchMs: number, nowMs: number): void {
    const { endedAtMs } = this.#runner
    const { meters, routerMetrics } = this.#options.prepared.model
    const transferMs = endedAtMs === undefined ? undefined : nowMs - endedAtMs
    this.hasRead()
    meters.pairs.firstToken(sinceDispatchMs, transferMs)
    if (transferMs !== undefined) routerMetrics.requestKvTransfer(transferMs)
  }

  /** True when the decode ended because of the prefill: the decode worker is not to blame. */
  isPrefillFault(error: WarmrouteError): boolean {
    return this.#fault === error
  }

  naming(error: WarmrouteError): WarmrouteError {
    return this.isRemote ? namingDecode(error) : error
  }

  // ---- its way

  /** Before each choice of a decode worker. Throws when the request cannot be served; never serves against `enforce`. */
  async before(): Promise<RouteTerms> {
    this.#fault = undefined
    this.decodeEnded() // a prefill worker that was booked for a decode that found no worker
    const isWaiting = this.isRemote && this.#held?.params !== undefined
    if (isWaiting && this.#held!.ticket.isOpen(this.#options.context.now())) return this.#remoteTerms()
    this.#dropHeld()
    this.terminal = undefined
    this.#skipped = await this.#decide()
    if (this.#skipped) return this.#aggregatedTerms()
    try {
      if (isSequential(this.#connector)) await this.#prefill()
      else await this.#meet()
    } catch (error) {
      this.#skipped = this.#withoutPrefill(error)
      return this.#aggregatedTerms()
    }
    const holdsNothing = this.#held && this.#held.params === undefined && this.#connector === 'nixl'
    if (holdsNothing && !this.terminal) this.#skipped = 'no_params'
    return this.#skipped ? this.#aggregatedTerms() : this.#remoteTerms()
  }

  /** For a dry run: who would prefill, and on what terms a decode worker would be chosen. Books nothing. */
  async query(): Promise<RouteTerms> {
    this.#skipped = await this.#decide()
    if (this.#skipped) return this.#aggregatedTerms()
    await this.#runner.query()
    return this.#remoteTerms()
  }

  /** What the decode body must say. The decode is sent in the turn of the loop in which this settles. */
  async decodeLeg(worker: Worker): Promise<LegEdit> {
    this.#requireFit(worker)
    if (!this.isRemote) return { set: {}, remove: transferFields }
    const edit = this.#meeting ? this.#agree(this.#meeting).decode : await this.#takeHeld()
    return { ...edit, remove: [...transferFields, ...edit.remove] }
  }

  /** The decode is on its way; where both legs go together the prefill follows in the same turn. */
  decodeSent(abortDecode: (error: WarmrouteError) => void): void {
    this.#hasToken = false
    const meeting = this.#meeting
    if (!meeting?.agreed) return
    const end = (fault: WarmrouteError): void => {
      if (this.#meeting === meeting) abortDecode((this.#fault = fault))
    }
    void this.#runner.send(meeting.choice, meeting.agreed.prefill).then(
      (answer) => {
        if (this.#isRefusal(answer)) end(prefillFailure('it refused the request', meeting.choice.answer.workerId))
        else this.#keepForReader(meeting)
      },
      (error: unknown) => {
        if (this.#meeting === meeting) end(this.#runner.failed(error))
      },
    )
    meeting.letLeave?.()
  }

  /** Asked when a connection is there: opening one may take longer than a lease allows, and nothing is sent twice. */
  get mayStillSend(): (() => boolean) | undefined {
    const held = this.#held
    if (!this.isRemote || held?.params === undefined) return undefined
    return () => this.#options.context.now() < held.ticket.sendBeforeMs
  }

  /** The decode worker was never reached: what it would have read is still there for another. */
  decodeUnsent(): void {
    this.#held?.ticket.putBack()
  }

  /** The decode is over, however it ended. */
  decodeEnded(): void {
    this.#runner.stop()
    const meeting = this.#meeting
    this.#meeting = undefined
    if (this.#held?.isUsed || meeting?.letGo) this.#readerEnded()
    if (!meeting) return
    meeting.letGo?.()
    this.#runner.free(meeting.choice)
    meeting.letLeave?.()
  }

  /** A second reader might find another's blocks, so the engines are left to settle it: by their word, or by the lease. */
  #readerEnded(): void {
    if (!this.#hasToken) this.#options.prepared.model.meters.pairs.released('decode_failed')
    this.#held?.letGo()
    this.#held = undefined
  }

  /** The client left, or time is over: the prefill ends in this turn of the loop. */
  abort(error: WarmrouteError): void {
    this.#runner.abort(error)
  }

  /** After everything else: what is booked is freed, and held KV that nobody was sent for is let go of. */
  end(): void {
    this.decodeEnded()
    this.#runner.end()
    this.#dropHeld()
  }

  /** Held KV that nobody was sent for. */
  #dropHeld(): void {
    const held = this.#held
    this.#held = undefined
    if (held?.params === undefined) return
    const { context, prepared, id, record } = this.#options
    if (held.ticket.isOpen(context.now())) {
      const headers = record.headersFor(this.#options.headers)
      releaseHeld({ ...this.#options, headers, bookingId: `${id}.r`, params: held.params, held })
    } else {
      held.letGo()
      prepared.model.meters.pairs.released('lease')
    }
  }

  // ---- deciding

  async #decide(): Promise<SkipReason | undefined> {
    const { side, prepared } = this.#options
    if (this.#runner.isExhausted) return this.#withoutPrefill(this.#runner.failure!)
    const route = side.route()
    const { failure } = this.#runner
    if (route.kind !== 'remote' && failure) return this.#withoutPrefill(failure) // the last one left with this request
    if (route.kind === 'refused')
      throw new WarmrouteError('WR_PREFILL_UNAVAILABLE', {
        reason:
          route.reason === 'deactivated'
            ? 'no prefill worker takes requests any more'
            : 'no prefill worker has joined yet',
      })
    if (route.kind === 'aggregated') return route.reason === 'not-activated' ? 'not_activated' : route.reason
    this.#runner.use(route.inner)
    for (const { spec } of side.fleet.all()) this.#connector = connectorOf(spec.engine, spec.transfer)! // or it had not joined
    const reason = this.#cannotPair() ?? (await bypassReason({ ...this.#options, inner: route.inner }))
    if (reason && !side.hasAllRounder)
      throw new WarmrouteError('WR_NOT_IMPLEMENTED', {
        reason: `a pair cannot serve ${prepared.row.path} like this (${reason}) and no worker does both halves`,
      })
    return reason
  }

  #cannotPair(): SkipReason | undefined {
    const { side, prepared } = this.#options
    const { row, body, hints, model } = prepared
    if (!canPair(this.#connector, row.path)) return 'route'
    const shape = unpairable(this.#connector, body)
    if (shape) return shape
    const pinned = hints.decodeWorkerId ?? backendOf(prepared)
    const target = pinned === undefined ? undefined : model.fleet.get(pinned)
    if (target && target.spec.role !== 'decode') return 'pinned'
    return side.hasDecoder || target ? undefined : 'no_decode_worker'
  }

  /** A choice or a prefill failed for good: the decode worker does it alone, or the request fails. */
  #withoutPrefill(error: unknown): SkipReason {
    if (!(error instanceof WarmrouteError) || this.#runner.isAborted || isBackPressure(error)) throw error
    if (/^WR_(?:SESSION_|INVALID_(?:ARGUMENT|BODY|TOKEN_ID)$)/.test(error.code)) throw error // no worker is to blame
    const isNamed = prefillPin(this.#options) !== undefined // asked for by name, so nobody else will do
    const failure = error.details['leg'] === 'prefill' ? error : prefillFailure(reasonOf(error), undefined, error)
    this.#runner.giveUp(failure)
    if (!this.#mayFallBack || !this.#options.side.hasAllRounder || isNamed) throw failure
    return 'prefill_failed'
  }

  /** Whether a decode worker may compute a prompt for want of a prefill; upstream fails the request. */
  get #mayFallBack(): boolean {
    const { context, side } = this.#options
    const { enforce, fallsBack = true } = side.disagg
    return fallsBack && !enforce && !context.isStrict
  }

  // ---- the prefill comes first

  async #prefill(): Promise<void> {
    for (;;) {
      const choice = await this.#runner.choose(true)
      try {
        const edit = sequentialPrefill(this.#connector, this.#options.prepared.body)
        const answer = await this.#runner.send(choice, edit)
        this.#held = this.#hold(answer)
        return
      } catch (error) {
        const failure = this.#runner.failed(error)
        if (this.#runner.isAborted || this.#runner.isExhausted) throw failure
      }
    }
  }

  #hold(answer: PrefillAnswer): HeldKv {
    const worker = this.#runner.worker!
    const nothing = (): HeldKv => new HeldKv(worker, this.#connector, answer, undefined)
    if (this.#isRefusal(answer)) return nothing()
    const { body } = answer
    this.terminal = terminalAnswer(this.#options.prepared.body, body)
    if (this.#connector !== 'nixl') return nothing()
    const fields = scanFields(body)
    if (!fields)
      throw new WarmrouteError('WR_ENGINE_PROTOCOL', { reason: 'the answer of the prefill is no JSON object' })
    const span = fields.findLast((field) => field.name === 'kv_transfer_params')
    const text = span && body.toString('utf8', span.valueStart, span.valueEnd)
    const params = readTransferParams(text, this.#peerHost())
    if (params === undefined && !this.terminal && !this.#mayFallBack)
      throw new WarmrouteError('WR_ENGINE_PROTOCOL', { reason: 'it holds nothing for a decode worker' })
    return new HeldKv(worker, this.#connector, answer, params)
  }

  /** Single use and in time; the decode worker is booked and waits while a prefill that came too early is repeated. */
  async #takeHeld(): Promise<LegEdit> {
    while (this.#held!.ticket.take(this.#options.context.now()) !== 'taken') await this.#repeatPrefill()
    return sequentialDecode(this.#held!.params)
  }

  async #repeatPrefill(): Promise<void> {
    this.#options.prepared.model.meters.pairs.leaseMissed()
    try {
      if (++this.#leaseMisses > leaseMissesMax)
        throw this.#runner.giveUp(prefillFailure('its KV would be read after its lease, again and again', undefined))
      this.#dropHeld()
      await this.#prefill()
      if (this.#held!.params === undefined && this.#connector === 'nixl')
        throw this.#runner.giveUp(prefillFailure('a second prefill of the same request held nothing', undefined))
    } catch (error) {
      if (error instanceof WarmrouteError) this.#fault = error
      throw error
    }
  }

  // ---- both go together

  async #meet(): Promise<void> {
    // Its answer waits until the decode worker has fetched the KV, which may wait for room there.
    const choice = await this.#runner.choose(false)
    this.#meeting = { choice, agreed: undefined, letLeave: this.#runner.worker?.hold() }
  }

  #agree(meeting: Meeting): Appointment {
    const { workerId } = meeting.choice.answer
    const worker = this.#options.side.fleet.get(workerId)
    if (!worker) throw (this.#fault = this.#runner.failed(prefillFailure('the worker just left', workerId)))
    const { context, prepared } = this.#options
    const host = this.#peerHost()
    return agree(meeting, worker, { connector: this.#connector, body: prepared.body, host, draw: context.random() })
  }

  /** The prefill is answered, but another engine may still be reading what it left; SGLang answers when that is done. */
  #keepForReader(meeting: Meeting): void {
    if (this.#connector === 'sglang' || this.#hasToken) return
    if (this.#meeting === meeting) meeting.letGo = this.#runner.worker?.hold()
    else this.#options.prepared.model.meters.pairs.released('decode_failed') // its reader failed in this very turn
  }

  // ---- small things

  /** Who joins while a request waits for a worker was not there to be left out. Then it is decided anew. */
  #requireFit({ id, spec }: Worker): void {
    const fits = this.isRemote ? spec.role === 'decode' : spec.role !== 'decode' || canDecodeAlone(spec.engine)
    if (fits) return
    const reason = `worker ${id} cannot do ${this.isRemote ? 'the second half of' : 'all of'} a request`
    const error = new WarmrouteError('WR_PREFILL_UNAVAILABLE', { reason })
    if (++this.#misfits <= misfitsMax) this.#fault = error
    throw error
  }

  /** What the client did wrong is not a failure of the worker. */
  #isRefusal(answer: PrefillAnswer): boolean {
    if (answer.head.status < 400) return false
    this.refusal = answer
    return true
  }

  /** As decode workers reach it. */
  #peerHost(): string {
    const { spec } = this.#runner.worker!
    return spec.transfer?.host ?? new URL(spec.url).hostname.replace(/^\[|\]$/g, '')
  }

  #remoteTerms(): RouteTerms {
    const { side } = this.#options
    return {
      override: decodeOverride(undefined, side.disagg.conditional !== undefined),
      excluded: side.notForDecode,
      ...topologyTerms(this.#runner.worker?.config),
    }
  }

  #aggregatedTerms(): RouteTerms {
    return { excluded: this.#options.side.notForBoth }
  }
}
