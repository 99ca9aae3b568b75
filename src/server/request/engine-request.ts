/** What is sent to the chosen worker: the client's own bytes, with fields spliced in or out, and known headers only. */
import type { IncomingHttpHeaders } from 'node:http'
import type { WorkerRank } from '../../core/protocol/index.js'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { LegEdit } from '../../engines/index.js'
import { engineRoute, requestControls, takesRank } from '../../engines/index.js'
import type { GatewayContext } from '../context.js'
import type { BodyEdit } from '../splice-body.js'
import { spliceBody } from '../splice-body.js'
import type { EngineRequest } from '../wire/engine-connection.js'
import type { Worker } from '../workers/worker.js'
import { editedField, fieldsToRemove, xargsWithoutReport } from './engine-fields.js'
import { isHarmless } from './harmless.js'
import type { Prepared } from './prepare.js'

export interface EngineRequestOptions {
  readonly context: Pick<GatewayContext, 'allowedEngineFields' | 'hop' | 'passesAuthorization'>
  readonly prepared: Prepared
  readonly worker: Worker
  readonly rank: WorkerRank
  readonly requestId: string
  readonly headers: IncomingHttpHeaders
  readonly asksForUsage: boolean
  /** What a half of a disaggregated request says besides. */
  readonly leg?: LegEdit | undefined
  readonly mayStillSend?: (() => boolean) | undefined
  /** A session that this worker has open for the client. */
  readonly sessionId?: string | undefined
}

/** Headers of a client that an engine may see. Everything else stays here. */
const passedOn = [
  'accept',
  'anthropic-beta',
  'anthropic-version',
  'baggage',
  'traceparent',
  'tracestate',
  'user-agent',
] as const

/** Lines that stand before any request of a client. */
export function clientLines({
  context,
  headers,
  requestId,
  worker,
}: Pick<EngineRequestOptions, 'context' | 'headers' | 'requestId' | 'worker'>): (readonly [
  name: string,
  value: string,
])[] {
  const lines: (readonly [string, string])[] = [
    ['accept-encoding', 'identity'], // what is compressed cannot be looked into
    ['x-request-id', requestId],
  ]
  for (const name of passedOn) {
    const value = headers[name]
    if (typeof value === 'string') lines.push([name, value])
  }
  const { authorization } = headers
  // The client's own key goes on when neither we nor the worker have one.
  if (context.passesAuthorization && !worker.link.hasOwnKey && authorization !== undefined)
    lines.push(['authorization', authorization])
  if (worker.spec.engine === 'unknown') lines.push(['via', viaOf(headers.via, context.hop)])
  return lines
}

export function engineRequest(options: EngineRequestOptions): EngineRequest {
  const { prepared, worker, rank } = options
  // Whoever sends has looked at it; a worker that has become another kind since then is not asked.
  if (!isHarmless(worker.spec.engine, prepared))
    throw new WarmrouteError('WR_ENGINE_UNREACHABLE', { reason: 'the worker has just become another engine' })
  const headers = clientLines({
    context: options.context,
    headers: options.headers,
    requestId: options.leg?.requestId ?? options.requestId,
    worker,
  })
  headers.push(['content-type', 'application/json'])
  const path = pathAt(worker, prepared)
  const controls = requestControls({
    engine: worker.spec.engine,
    path,
    dpRank: options.leg?.leadsToRank ? undefined : localRank(worker, rank),
    priority: priorityOf(options),
    sessionId: prepared.hints.session?.sessionId,
    openSessionId: options.sessionId,
  })
  for (const name in controls.headers) headers.push([name, controls.headers[name]!])
  const set: Record<string, string> = {}
  for (const name in controls.fields) set[name] = JSON.stringify(controls.fields[name])
  setFields(options, set)
  if (options.leg) Object.assign(set, options.leg.set)
  const { mayStillSend } = options
  return { method: 'POST', path, headers, body: edited(options, set, controls.strip), mayStillSend }
}

/** Only a worker of an unknown kind can be another router, which may send it back to us. */
function viaOf(via: string | undefined, hop: string): string {
  return via === undefined ? `1.1 ${hop}` : `${via}, 1.1 ${hop}`
}

/** A worker that became unfit since it was chosen is not asked. */
function pathAt({ spec }: Worker, { row }: Prepared): string {
  const path = engineRoute(spec.engine, row.path)
  if (path === undefined || (row.generates && spec.generates === false))
    throw new WarmrouteError('WR_ROUTE_NOT_FOUND', { message: `Worker ${spec.id} has no route for POST ${row.path}.` })
  return path
}

/** An engine counts its ranks from 0. One rank needs no pin. */
function localRank({ config }: Worker, { dpRank }: WorkerRank): number | undefined {
  return config.dataParallelSize > 1 ? dpRank - config.dataParallelStartRank : undefined
}

/** Of several ranks the engine takes one by itself, as no pin is read on this route: nobody knows which. */
export function choosesRankItself({ spec, config }: Worker, { row }: Prepared): boolean {
  if (config.dataParallelSize === 1) return false
  const path = engineRoute(spec.engine, row.path)
  return path !== undefined && !takesRank(spec.engine, path)
}

/** Reaches the engine only where configuration allows it; in our queue it counts anyway. */
function priorityOf({ prepared, context }: EngineRequestOptions): number | undefined {
  return context.allowedEngineFields.has('priority') ? prepared.hints.priority : undefined
}

function edited(
  options: EngineRequestOptions,
  set: Record<string, string>,
  strip: readonly string[],
): EngineRequest['body'] {
  const { prepared } = options
  const remove = withLeg(fieldsToRemove(prepared.body, strip, options.context.allowedEngineFields), options.leg)
  const xargs = xargsWithoutReport(prepared.body, prepared.bytes, () => prepared.fields())
  if (xargs !== undefined && !remove?.has('vllm_xargs')) set['vllm_xargs'] = xargs
  let hasEdit = remove !== undefined
  for (const _name in set) hasEdit = true
  if (!hasEdit) return prepared.bytes
  const edit: BodyEdit = remove ? { remove, set } : { set }
  return spliceBody(prepared.bytes, prepared.fields(), edit)
}

function withLeg(remove: Set<string> | undefined, leg: LegEdit | undefined): Set<string> | undefined {
  if (!leg || leg.remove.length === 0) return remove
  const all = remove ?? new Set<string>()
  for (const name of leg.remove) all.add(name)
  return all
}

function setFields(options: EngineRequestOptions, set: Record<string, string>): void {
  const { prepared, worker } = options
  const { body, hints, model, loraName } = prepared
  const served = worker.spec.servedModel ?? model.name
  if (loraName === undefined && typeof body['model'] === 'string' && body['model'] !== served)
    set['model'] = JSON.stringify(served)
  if (hints.isSaltOurs) set['cache_salt'] = JSON.stringify(hints.cacheSalt)
  if (options.asksForUsage) {
    const asked = { set: { include_usage: 'true' } }
    set['stream_options'] =
      editedField('stream_options', prepared.bytes, prepared.fields(), asked) ?? '{"include_usage":true}'
  }
}
