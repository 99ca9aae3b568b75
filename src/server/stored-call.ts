/**
 * A response that a worker keeps is looked up, cancelled or deleted: its worker is asked, and what it says is relayed as it
 * comes. Nothing is booked, and nobody else is asked: nobody else has it.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { WarmrouteError } from '../core/protocol/index.js'
import type { GatewayContext, UnderWay } from './context.js'
import { flatError, isHidden, refusal } from './http/engine-refusal.js'
import type { ErrorShape } from './http/error-body.js'
import { statusOf } from './http/error-status.js'
import type { Model } from './model.js'
import type { RelayOutcome } from './relay/answer-relay.js'
import { AnswerRelay } from './relay/answer-relay.js'
import { tellFailure } from './relay/tell-failure.js'
import type { Timed } from './request/deadlines.js'
import { responsesRow, storedRow } from './request/endpoints.js'
import { clientLines } from './request/engine-request.js'
import { readHints } from './request/hints.js'
import { clientRequestId, endInTime, holderGone, requireNotDraining } from './request/verdicts.js'
import { RequestRecord } from './telemetry/request-record.js'
import { whileUnderWay } from './under-way.js'
import type { Worker } from './workers/worker.js'

export interface StoredPath {
  /** As it stands in the path. */
  readonly name: string
  readonly methods: readonly string[]
}

const storedPath = /^\/v1\/responses\/([^/]+)(\/cancel)?$/
/** What may stand in the path of another request without changing it: printable, no separator, and no step to a parent. */
const plainId = /^(?!\.{1,2}$)[\w.:~@!$&'()*+,;=-]{1,256}$/

/** Undefined: the path is another route's. */
export function storedPathOf(path: string): StoredPath | undefined {
  const [, name, cancel] = storedPath.exec(path) ?? []
  return name === undefined ? undefined : { name, methods: cancel ? ['POST'] : ['GET', 'DELETE'] }
}

export interface StoredCallOptions {
  readonly context: GatewayContext
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** As it stands in the path. */
  readonly name: string
  readonly query: string
}

const nothing = new Uint8Array(0)

export class StoredCall implements Timed, UnderWay {
  readonly #options: StoredCallOptions
  readonly #publicId: string
  readonly #record: RequestRecord
  /** Re-encoded: what a client wrote there may be anything. */
  readonly #query: URLSearchParams
  readonly isStream: boolean
  #relay: AnswerRelay | undefined
  #worker: Worker | undefined
  #givenUp: WarmrouteError | undefined
  readonly countsFromMs: number
  silentSinceMs: number
  dispatchedAtMs = 0
  byteAtMs = 0
  seat = -1
  clockSeat = -1

  constructor(options: StoredCallOptions) {
    const { context, request, query } = options
    this.#options = options
    this.countsFromMs = this.silentSinceMs = context.now()
    this.#publicId = clientRequestId(request) ?? context.nextRequestId()
    this.#record = new RequestRecord(context, storedRow, request.headers, this.#publicId)
    this.#query = new URLSearchParams(query)
    this.isStream = request.method === 'GET' && /^(?:true|1|yes|on|t|y)$/i.test(this.#query.get('stream') ?? '')
  }

  get hasBegun(): boolean {
    return this.#options.response.headersSent
  }

  get shape(): ErrorShape {
    return this.#options.context.shape
  }

  get workerProgressAtMs(): number {
    return this.#worker?.progressAtMs ?? 0
  }

  get isHeldUp(): boolean {
    return this.#relay?.isHeldUp ?? false
  }

  /** Never rejects. */
  run(): Promise<void> {
    const { context, request, response } = this.#options
    return whileUnderWay(context, request, this, {
      serve: () => this.#serve(),
      fail: (error) => this.#fail(this.#givenUp ?? error),
      finish: (status) => {
        endInTime(response, context.deadlines.noProgressMs)
        this.#record.finished(status)
      },
    })
  }

  left(): void {
    this.giveUp(new WarmrouteError('WR_REQUEST_CANCELLED', {}))
  }

  giveUp(error: WarmrouteError): void {
    this.#givenUp ??= error
    this.#relay?.abort(error)
  }

  comment(): void {
    this.silentSinceMs = this.#options.context.now()
    this.#relay?.keepAlive()
  }

  expire(error: WarmrouteError): void {
    this.#relay?.abort(error)
  }

  async #serve(): Promise<number> {
    const { context, request } = this.#options
    requireNotDraining(context)
    const id = idOf(this.#options.name)
    const hints = readHints(request.headers, {}, undefined, context.limits)
    const { model, worker } = keeperOf(context, id, hints.decodeWorkerId)
    this.#worker = worker
    this.#record.understood({ model, isStream: this.isStream, loraName: undefined, hints })
    context.clock.add(this)
    const outcome = await this.#relayFrom(worker, id)
    if (outcome.kind === 'refused') throw refusal(outcome.status, context.overloadStatus)
    if (outcome.kind === 'failed') {
      // Silence is no fault here: a stream of what ended long ago may never say another word.
      if (outcome.error.code === 'WR_ENGINE_UNREACHABLE') model.fleet.fault(worker, outcome.error)
      throw outcome.error
    }
    const { status, hasError } = outcome
    if (request.method === 'DELETE' && status < 300) model.responses.forget(id)
    return hasError && status < 400 ? 500 : status
  }

  #relayFrom(worker: Worker, id: string): Promise<RelayOutcome> {
    const { context, request, response } = this.#options
    const { isStrict, limits, showsWorker } = context
    const headers = this.#record.headersFor(request.headers)
    const path = `/v1/responses/${id}${request.method === 'POST' ? '/cancel' : ''}`
    const routedAtMs = context.now()
    const sending = this.#record.dispatched(worker, 0, routedAtMs)
    this.dispatchedAtMs = this.byteAtMs = routedAtMs
    worker.enter()
    return new Promise((resolve) => {
      const relay = new AnswerRelay(
        {
          response,
          requestId: this.#publicId,
          endpoint: 'responses',
          headers: [
            ['x-request-id', this.#publicId],
            ...(showsWorker ? [['x-warmroute-worker-id', worker.label] as const] : []),
          ],
          wantsStream: this.isStream,
          editedBytesMax: limits.editedBytesMax,
          bodyEdit: (status) => (isStrict && status >= 400 ? (body) => flatError(body, status) : undefined),
          isWithheld: (status) => isStrict && isHidden(status),
          canMove: () => false,
        },
        {
          onSent: () => sending.sent(),
          onHead: () => this.#moved(worker),
          onProgress: () => this.#record.arrived(0, this.#moved(worker)),
          onOutcome(outcome) {
            worker.leave()
            sending.end()
            resolve(outcome)
          },
        },
      )
      this.#relay = relay
      const call = {
        method: request.method!,
        path: this.#query.size === 0 ? path : `${path}?${this.#query.toString()}`,
        headers: clientLines({ context, headers, requestId: this.#publicId, worker }),
        body: request.method === 'POST' ? nothing : undefined,
      }
      relay.attach(worker.link.call(call, relay))
    })
  }

  #moved(worker: Worker): number {
    const now = this.#options.context.now()
    this.byteAtMs = this.silentSinceMs = worker.progressAtMs = now
    return now
  }

  #fail(error: unknown): number {
    const { context, request, response } = this.#options
    const { overloadStatus } = context
    const { shape } = this
    this.#record.failed(error)
    tellFailure(error, { request, response, speaker: this.#relay, shape, overloadStatus, requestId: this.#publicId })
    return statusOf(error, overloadStatus)
  }
}

function idOf(name: string): string {
  let id: string | undefined
  try {
    id = decodeURIComponent(name)
  } catch {
    // no text, and so no id
  }
  if (id !== undefined && plainId.test(id)) return id
  throw notFound('The response is not found: no worker gives such ids.')
}

/**
 * A worker that the request names, then the one that gave the response. An id that nobody gave here, or that was forgotten, is a
 * question for the only worker there is; among several nobody is asked at random.
 */
function keeperOf(
  { hub }: GatewayContext,
  id: string,
  namedId: bigint | undefined,
): { readonly model: Model; readonly worker: Worker } {
  const others: { readonly model: Model; readonly worker: Worker }[] = []
  for (const model of hub.all()) {
    const { fleet, responses } = model
    const holderId = namedId ?? responses.holderOf(id)
    const holder = holderId === undefined ? undefined : fleet.get(holderId)
    if (holder) return { model, worker: holder }
    if (namedId === undefined && holderId !== undefined) throw holderGone(holderId, 'response_id')
    const unfit = fleet.unfitFor(responsesRow)
    for (const worker of fleet.all()) if (!unfit.has(worker.id)) others.push({ model, worker })
  }
  if (namedId !== undefined) throw new WarmrouteError('WR_WORKER_NOT_FOUND', { worker_id: String(namedId) })
  if (others.length === 1) return others[0]!
  throw notFound(
    'The response is not found: no worker gave it through this gateway, or so long ago that it is forgotten.',
  )
}

function notFound(message: string): WarmrouteError {
  return new WarmrouteError('WR_RESPONSE_NOT_FOUND', { message, param: 'response_id' })
}
