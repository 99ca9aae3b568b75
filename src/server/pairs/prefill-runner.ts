/**
 * Chooses prefill workers for one request and sends it to them, one at a time. Keeps who failed it, so that nobody is asked
 * twice. Each booking has a guard of its own, as a decode's has: freed exactly once, however its leg ends.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { AffinityTarget } from '../../core/sessions/index.js'
import type { LegEdit } from '../../engines/index.js'
import type { BookingPort, PromptHashes, RouteAnswer, RouterPort } from '../../routing/index.js'
import { RequestGuard } from '../../routing/index.js'
import type { GatewayContext } from '../context.js'
import { engineControlFields } from '../request/engine-fields.js'
import { engineRequest } from '../request/engine-request.js'
import type { Prepared } from '../request/prepare.js'
import type { PromptTokens } from '../request/prompt.js'
import { promptOn } from '../request/prompt.js'
import { lookHarmless } from '../request/harmless.js'
import { asReusable } from '../request/verdicts.js'
import type { RequestRecord } from '../telemetry/request-record.js'
import type { LegSpan } from '../telemetry/request-span.js'
import { PrefillTie } from '../sessions/prefill-tie.js'
import type { Worker } from '../workers/worker.js'
import { cancelled, prefillFailure, reasonOf } from './leg-errors.js'
import type { PrefillAnswer } from './prefill-leg.js'
import { PrefillLeg } from './prefill-leg.js'
import { prefillPin, prefillRouteRequest } from './prefill-route.js'
import type { PrefillSide } from './prefill-side.js'

export interface PairOptions {
  readonly context: GatewayContext
  readonly side: PrefillSide
  readonly prepared: Prepared
  readonly prompt: PromptTokens | undefined
  readonly hashes: PromptHashes | undefined
  /** Unique among running requests. */
  readonly id: string
  readonly publicId: string
  /** The client's. */
  readonly headers: IncomingHttpHeaders
  readonly record: RequestRecord
  readonly signal: AbortSignal
  /** From when the time of the whole request counts. */
  readonly countsFromMs: number
}

/** A prefill worker that was chosen and is booked. */
export interface Choice {
  readonly bookingId: string
  /** Of its booking. */
  readonly guard: RequestGuard
  readonly answer: RouteAnswer
}

/** A prefill goes to at most this many workers before the decode worker is asked to do it. */
const triesMax = 2

/** What a client may never say to an engine of a pair, whatever configuration allows it otherwise. */
export const transferFields: readonly string[] = engineControlFields.filter((name) =>
  /transfer_params|^bootstrap|^disagg/.test(name),
)

export class PrefillRunner {
  readonly #options: PairOptions
  readonly #failed = new Set<bigint>()
  #inner: RouterPort | undefined
  #leg: PrefillLeg | undefined
  /** Of the last booking; the one before has ended. */
  #guard: RequestGuard | undefined
  #tries = 0
  #bookings = 0
  #isAborted = false
  #endedAtMs: number | undefined
  #chosen: RouteAnswer | undefined
  #worker: Worker | undefined
  readonly #tie: PrefillTie
  /** Of the last prefill that failed. */
  failure: WarmrouteError | undefined

  constructor(options: PairOptions) {
    this.#options = options
    this.#tie = new PrefillTie(options, this.#failed)
  }

  get isAborted(): boolean {
    return this.#isAborted
  }

  /** Nobody else is to be tried. */
  get isExhausted(): boolean {
    return this.#tries >= triesMax
  }

  /** Who was chosen last. */
  get chosen(): RouteAnswer | undefined {
    return this.#chosen
  }

  get worker(): Worker | undefined {
    return this.#worker
  }

  /** When the last prefill was answered. */
  get endedAtMs(): number | undefined {
    return this.#endedAtMs
  }

  /** Before anybody is chosen: the router that stands now. */
  use(inner: RouterPort): void {
    this.#inner = inner
  }

  /** For a dry run. */
  async query(): Promise<void> {
    const { id, side } = this.#options
    this.#chosen = this.#asReusable(await this.#inner!.route(this.#question(id, true, this.#tie.peek())))
    this.#worker = side.fleet.get(this.#chosen.workerId)
  }

  /** `isTimed`: its answer will come when the prompt is computed, and wait for no reader: the router learns how long that took. */
  async choose(isTimed: boolean): Promise<Choice> {
    const tiedTo = await this.#tie.target()
    try {
      return await this.#chooseAt(tiedTo, isTimed)
    } catch (error) {
      // The session's rank is not there any more: the request chooses another.
      const isGone = error instanceof WarmrouteError && error.code === 'WR_NO_ENDPOINTS'
      if (!tiedTo || !isGone || prefillPin(this.#options)) throw error
      this.#tie.lost()
      return this.#chooseAt(await this.#tie.target(), isTimed)
    }
  }

  async #chooseAt(tiedTo: AffinityTarget | undefined, isTimed: boolean): Promise<Choice> {
    const { id, side, signal } = this.#options
    const bookingId = `${id}.p${++this.#bookings}`
    this.#guard?.end('dropped')
    const inner = this.#inner! // another may stand by the time this ends
    const found = await inner.route(this.#question(bookingId, false, tiedTo))
    const guard = (this.#guard = this.#guardOf(isTimed ? inner : unmarked(inner), bookingId))
    if (signal.aborted) guard.end('stopped')
    this.#requireWanted()
    const answer = this.#asReusable(found)
    this.#chosen = answer
    this.#worker = side.fleet.get(answer.workerId)
    const { context, prepared, prompt } = this.#options
    const kind = this.#worker?.spec.engine
    const looking = kind && lookHarmless(kind, prepared, context, () => this.#requireWanted())
    if (looking) await looking
    const tokens = prompt?.tokens.length ?? 0
    if (prepared.model.looksAtPrompts)
      side.metrics?.requestRouted(tokens, answer.effectiveOverlapBlocks, Math.ceil(tokens / side.blockSize))
    return { bookingId, guard, answer }
  }

  /** Not sent after all. Safe to repeat, and after it was sent. */
  free({ guard }: Choice): void {
    guard.end('dropped')
  }

  /** Sends in this turn of the loop. Rejects when the worker is to blame; what the client is to blame for is an answer. */
  async send(choice: Choice, edit: LegEdit): Promise<PrefillAnswer> {
    try {
      return await this.#send(choice, edit)
    } catch (error) {
      choice.guard.end('failed') // where it failed before there was anything to send
      throw error
    }
  }

  async #send({ guard, answer: choice }: Choice, edit: LegEdit): Promise<PrefillAnswer> {
    const { context, side, prepared, prompt } = this.#options
    const { clock, deadlines, now } = context
    const leg = new PrefillLeg({
      guard,
      fleet: side.fleet,
      choice,
      clock,
      deadlines,
      now,
      countsFromMs: this.#options.countsFromMs,
      onSent: () => this.#tie.sent({ workerId: choice.workerId, dpRank: choice.dpRank }),
    })
    this.#leg = leg
    const { meters, looksAtPrompts } = prepared.model
    if (looksAtPrompts) {
      meters.routed(leg.worker.label, prompt?.tokens.length ?? 0, choice.cachedTokens)
      side.metrics?.requestSent(choice.cachedTokens)
    }
    const span = this.#options.record.legSpan('warmroute.prefill', choice)
    try {
      const answer = await this.#answerOf(leg, edit, span)
      span?.end(answer.head.status)
      this.#endedAtMs = answer.atMs
      meters.pairs.prefillEnded(choice, answer.atMs - leg.dispatchedAtMs, prompt?.tokens.length ?? 0)
      return answer
    } catch (error) {
      span?.end(undefined, error instanceof WarmrouteError ? error.code : String(error))
      throw error
    }
  }

  async #answerOf(leg: PrefillLeg, edit: LegEdit, span: LegSpan | undefined): Promise<PrefillAnswer> {
    const { side } = this.#options
    const answer = await leg.send(this.#requestFor(leg.worker, leg.choice, edit, span)).catch((error: unknown) => {
      const isFault = error instanceof WarmrouteError && error.code.startsWith('WR_ENGINE_')
      if (isFault && !leg.isGivenUp) side.fleet.fault(leg.worker, error)
      throw error
    })
    const { status } = answer.head
    if (status >= 500 || status === 429)
      throw new WarmrouteError('WR_ENGINE_UNREACHABLE', { reason: `it answered with status ${status}` })
    return answer
  }

  /** Counts a failure of the worker that was chosen last, and gives it its name. An abort is nobody's failure. */
  failed(error: unknown): WarmrouteError {
    if (!(error instanceof WarmrouteError)) throw error
    if (this.#isAborted) return error
    this.#tries++
    const id = this.#chosen?.workerId
    if (id !== undefined) {
      this.#failed.add(id)
      this.#options.prepared.model.meters.pairs.prefillFailed(String(id))
    }
    this.#tie.lost()
    return (this.failure = error.details['leg'] === 'prefill' ? error : prefillFailure(reasonOf(error), id, error))
  }

  /** Whatever failed before, nobody else is tried. */
  giveUp(failure: WarmrouteError): WarmrouteError {
    this.#tries = triesMax
    this.#tie.end() // whoever waits for this request to choose waits for nothing
    return (this.failure ??= failure)
  }

  /** In this turn of the loop. */
  stop(): void {
    this.#leg?.giveUp(cancelled())
    this.#leg = undefined
  }

  abort(error: WarmrouteError): void {
    this.#isAborted = true
    this.#leg?.giveUp(error)
  }

  /** After everything else. */
  end(): void {
    this.#guard?.end('dropped')
    this.#tie.end()
  }

  #requireWanted(): void {
    if (this.#options.signal.aborted) throw cancelled()
  }

  #guardOf(port: BookingPort, requestId: string): RequestGuard {
    const { context, side, prepared, prompt, countsFromMs } = this.#options
    return new RequestGuard(
      port,
      {
        requestId,
        isTracked: true,
        promptTokens: prompt?.tokens.length ?? Math.ceil(prepared.bytes.length / 4),
        blockSize: side.blockSize,
        tracksOutput: false, // its router tracks none
        startedAtMs: countsFromMs,
      },
      side.guardHooks,
      context.now,
    )
  }

  #asReusable(answer: RouteAnswer): RouteAnswer {
    const { prompt, side } = this.#options
    return asReusable(answer, promptOn(prompt, answer.workerId), side.blockSize, side.fleet)
  }

  #question(
    bookingId: string,
    isQueryOnly: boolean,
    tiedTo: AffinityTarget | undefined,
  ): Parameters<RouterPort['route']>[0] {
    return prefillRouteRequest({ ...this.#options, bookingId, isQueryOnly, failed: this.#failed, tiedTo })
  }

  #requestFor(
    worker: Worker,
    rank: RouteAnswer,
    edit: LegEdit,
    span: LegSpan | undefined,
  ): Parameters<PrefillLeg['send']>[0] {
    const { context, prepared, publicId, headers } = this.#options
    return engineRequest({
      context,
      prepared,
      worker,
      rank,
      requestId: publicId,
      headers: span?.headersFor(headers) ?? headers,
      asksForUsage: false,
      leg: { ...edit, remove: [...transferFields, ...edit.remove] },
    })
  }
}

function unmarked(inner: RouterPort): BookingPort {
  return { prefillDone() {}, outputBlock: (id, left) => inner.outputBlock(id, left), free: (id) => inner.free(id) }
}
