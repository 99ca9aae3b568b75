/** Small judgements about a request and its worker: may it be served, whom to blame, whether another may try. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { WarmrouteError } from '../../core/protocol/index.js'
import { reusableTokens } from '../../engines/index.js'
import type { RouteAnswer } from '../../routing/index.js'
import type { GatewayContext } from '../context.js'
import type { RelayOutcome } from '../relay/answer-relay.js'
import type { Fleet } from '../workers/fleet.js'
import type { Prepared } from './prepare.js'
import type { PromptTokens } from './prompt.js'

/**
 * What the engine will say it had, not what it holds: a prompt of exactly k blocks reuses k - 1 of them at most, a partial
 * block is none, and some workers give a block up.
 */
export function asReusable(
  answer: RouteAnswer,
  prompt: PromptTokens | undefined,
  blockSize: number,
  fleet: Fleet,
): RouteAnswer {
  if (!prompt || answer.cachedTokens === 0) return answer
  const givesBlockUp = fleet.get(answer.workerId)?.spec.givesBlockUp
  const cachedTokens = reusableTokens(answer.cachedTokens, prompt.tokens.length, blockSize, givesBlockUp)
  return { ...answer, cachedTokens }
}

/** The worker, not the request, is to blame; another worker may do better. */
export function isFault(error: WarmrouteError): boolean {
  return (
    error.code === 'WR_ENGINE_UNREACHABLE' ||
    error.code === 'WR_ENGINE_DISCONNECTED' ||
    error.code === 'WR_ENGINE_PROTOCOL' ||
    error.code === 'WR_ENGINE_TIMEOUT'
  )
}

export function mayMove(outcome: RelayOutcome, error: WarmrouteError, isRemote: boolean): boolean {
  if (outcome.kind === 'refused') return isRetriable(outcome.status, isRemote)
  return outcome.kind === 'failed' && !outcome.isCommitted && isFault(error)
}

/** No connection came about, so that the worker cannot have read a word. */
export function wasNeverSent(outcome: RelayOutcome & { readonly kind: 'failed' }): boolean {
  return outcome.isUntouched && outcome.error.code === 'WR_ENGINE_UNREACHABLE'
}

/** Another worker may do better, a router that leads back to us (508) included; a decode that could not get its prompt's KV may have it from another prefill. */
export function isRetriable(status: number, isRemote: boolean): boolean {
  return status === 502 || status === 503 || status === 508 || (isRemote && status === 500)
}

/** Engines keep responses unless they are asked not to; whether this one keeps any is its own affair. */
export function mayBeStored({ row, body }: Prepared): boolean {
  return row.endpoint === 'responses' && body['store'] !== false
}

/** Answered at once with a response that is yet to be generated: nobody is told when that begins or ends. */
export function isInBackground({ row, body }: Prepared): boolean {
  return row.endpoint === 'responses' && body['background'] === true
}

/** The answer is on its way; a client that does not take it is not waited for. Once it has, Node sets a time of its own. */
export function endInTime(response: ServerResponse, ms: number): void {
  if (ms > 0 && !response.writableFinished) response.socket?.setTimeout(ms)
}

/** Who says nothing of the type is believed to send JSON, except where upstream's strictness is asked for. */
export function requireJson(request: IncomingMessage, isStrict: boolean): void {
  const type = request.headers['content-type'] ?? (isStrict ? '' : undefined)
  if (type !== undefined && !/^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(type))
    throw new WarmrouteError('WR_UNSUPPORTED_MEDIA_TYPE', {})
  const encoding = request.headers['content-encoding']
  if (encoding !== undefined && encoding !== 'identity')
    throw new WarmrouteError('WR_UNSUPPORTED_MEDIA_TYPE', {
      message: 'Expected a request body without content-encoding',
    })
}

export function requireNotDraining({ isDraining }: GatewayContext): void {
  if (isDraining) throw new WarmrouteError('WR_SHUTTING_DOWN', {})
}

/** A request that names its worker is served whatever the others do. */
export function requireReady(context: GatewayContext, prepared: Prepared): void {
  const { model, holderId } = prepared
  requireNotDraining(context)
  if (isPinned(prepared)) return
  if (holderId !== undefined && !model.fleet.get(holderId)) throw holderGone(holderId, 'previous_response_id')
  if (holderId === undefined && !model.isReady)
    throw new WarmrouteError('WR_MODEL_NOT_READY', {
      message: `Model \`${model.name}\` is not ready to serve requests yet. The deployment may still be starting up or is not fully provisioned. Please retry shortly.`,
    })
}

/** Who names its worker, or goes on with what one keeps, waits for that one. */
export function requireFree(prepared: Prepared): void {
  if (isPinned(prepared) || prepared.holderId !== undefined || !prepared.model.isEveryoneBusy) return
  throw new WarmrouteError('WR_ALL_WORKERS_OVERLOADED', { reason: 'busy_threshold' })
}

function isPinned({ hints }: Prepared): boolean {
  return hints.backendWorkerId !== undefined || hints.decodeWorkerId !== undefined
}

/** What a worker kept went with it. */
export function holderGone(holderId: bigint, param: 'previous_response_id' | 'response_id'): WarmrouteError {
  return new WarmrouteError('WR_RESPONSE_NOT_FOUND', {
    message: `The response is not found any more: worker ${holderId}, which held it, has left.`,
    param,
  })
}

/** Somebody who serves the model has the route, and the adapter; a request for text never reaches a model that pools. */
export function requireRoute(context: GatewayContext, prepared: Prepared): void {
  const { model, row, hints, loraName } = prepared
  const { fleet, name } = model
  if (loraName !== undefined) requireAdapter(context, prepared, loraName)
  const unfit = fleet.unfitFor(row)
  if (unfit.size === 0) return
  const pin = hints.decodeWorkerId ?? hints.backendWorkerId
  if (pin === undefined ? unfit.size === fleet.size : unfit.has(pin))
    throw new WarmrouteError('WR_ROUTE_NOT_FOUND', {
      message:
        pin === undefined
          ? `No engine that serves \`${name}\` has a route for POST ${row.path}.`
          : `Worker ${pin} has no route for POST ${row.path}.`,
    })
}

function requireAdapter({ hub }: GatewayContext, { model: { fleet }, row, hints }: Prepared, loraName: string): void {
  const unfit = fleet.unfitFor(row, loraName)
  const pin = hints.decodeWorkerId ?? hints.backendWorkerId
  const routeless = fleet.unfitFor(row)
  const isMissing =
    pin === undefined
      ? unfit.size === fleet.size && unfit.size > routeless.size // else it is the route that is missing
      : unfit.has(pin) && !routeless.has(pin)
  if (!isMissing) return
  if (pin === undefined && hub.isAway(loraName))
    throw new WarmrouteError('WR_MODEL_NOT_READY', {
      message: `No worker with the adapter \`${loraName}\` answers. Please retry shortly.`,
    })
  throw new WarmrouteError('WR_MODEL_NOT_FOUND', {
    message:
      pin === undefined
        ? `No worker has the adapter \`${loraName}\` any more.`
        : `Worker ${pin} has no adapter \`${loraName}\`.`,
    param: 'model',
  })
}

/** An id that is short and plain, or under upstream's older name a UUID; anything else is replaced by our own. */
export function clientRequestId({ headers }: IncomingMessage): string | undefined {
  const { 'x-request-id': id, 'x-dynamo-request-id': older } = headers
  if (typeof id === 'string' && /^[\x21-\x7e]{1,256}$/.test(id)) return id
  const isUuid = typeof older === 'string' && /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(older)
  return isUuid ? older : undefined
}
