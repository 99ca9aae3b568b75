/** Worker admin: who exists, who joins, who drains, who leaves. */
import { addressTrouble, engineAddress, engineIdentity, timerMsMax } from '../../config/index.js'
import type { WorkerConfig } from '../../core/protocol/index.js'
import {
  defaultWorkerConfig,
  parseLosslessJson,
  validateWorkerConfig,
  WarmrouteError,
} from '../../core/protocol/index.js'
import type { JsonObject } from '../../core/protocol/index.js'
import type { EngineKind, TransferFacts } from '../../engines/index.js'
import { connectorOf, connectors, engineKinds } from '../../engines/index.js'
import type { GatewayContext } from '../context.js'
import { answerJson } from '../http/answer.js'
import { bodyText, readBody } from '../http/read-body.js'
import type { AddedWorker, WorkerSpec } from '../options.js'
import { workerRoles } from '../options.js'
import { roleOfLabels } from '../workers/label-role.js'
import type { Route, WorkerAdmin } from './route.js'

export function workerRoutes(context: GatewayContext, admin: WorkerAdmin): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/workers',
      access: 'admin',
      handle: ({ response }) => answerJson(response, 200, { workers: [...admin.workers(), ...absentOf(admin)] }),
    },
    {
      method: 'POST',
      path: '/workers',
      access: 'admin',
      async handle({ request, response }) {
        const bytes = await readBody(request, response, { bytesMax: 64 * 1024, timeoutMs: context.deadlines.bodyMs })
        const worker = readWorker(bodyText(bytes), () => nextId(admin))
        refuseTwin(admin, worker)
        if (admin.steward && (!context.hub.knows(worker.model) || isUnread(worker.spec))) {
          admin.removeWorker(worker.spec.id) // of whatever model it was
          admin.steward.added(worker)
          answerJson(response, 202, { worker: absentOf(admin).find((it) => it.id === String(worker.spec.id)) })
          return
        }
        const { name: model } = context.hub.resolve(worker.model).model
        refuseOtherModel(admin, worker, model)
        setAsAsked(admin, model, worker.spec)
        admin.steward?.added({ ...worker, model })
        answerJson(response, 201, { worker: admin.workers().find((it) => it.id === String(worker.spec.id)) })
      },
    },
    {
      method: 'POST',
      path: '/workers/',
      isPrefix: true,
      access: 'admin',
      handle({ response, rest }) {
        const [id, action, more] = rest.split('/')
        if (action !== 'drain' || more !== undefined)
          throw new WarmrouteError('WR_ROUTE_NOT_FOUND', { message: 'Route not found: POST /workers/{id}/drain' })
        const workerId = readId(id ?? '')
        if (isIn(admin, workerId)) void admin.drainWorker(workerId)
        else if (!admin.steward?.forget(workerId)) throw notFound(workerId)
        answerJson(response, 202, { id: String(workerId), state: 'draining' })
      },
    },
    {
      method: 'DELETE',
      path: '/workers/',
      isPrefix: true,
      access: 'admin',
      handle({ response, rest }) {
        const workerId = readId(rest)
        if (!admin.removeWorker(workerId) && !admin.steward?.forget(workerId)) throw notFound(workerId)
        answerJson(response, 200, { id: String(workerId), state: 'gone' })
      },
    },
  ]
}

/** How its KV is read nobody says here: its engine has to be asked. */
function isUnread({ role, engine, transfer }: WorkerSpec): boolean {
  return role === 'prefill' && connectorOf(engine, transfer) === undefined
}

/** What cannot be half of a pair is a fault of the body, not of our configuration. */
function setAsAsked(admin: WorkerAdmin, model: string, spec: WorkerSpec): void {
  try {
    admin.setWorker(model, spec)
  } catch (error) {
    if (!(error instanceof WarmrouteError) || error.code !== 'WR_INVALID_CONFIG') throw error
    throw refused(String(error.details['reason']))
  }
}

function readWorker(text: string, freeId: () => bigint): AddedWorker {
  const body = parseLosslessJson(text)
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw refused('the body must be an object')
  const given = textOf(body, 'url') ?? ''
  const url = engineAddress(given)
  if (url === undefined) throw refused(`url: ${addressTrouble(given)}`)
  const engine = textOf(body, 'engine') ?? 'unknown'
  if (!(engineKinds as readonly string[]).includes(engine))
    throw refused(`engine must be one of ${engineKinds.join(', ')}`)
  const model = textOf(body, 'model')
  if (model === undefined) throw refused('model must be a text')
  const id = body['id'] ?? undefined
  const stated = readConfig(body)
  const config = { ...defaultWorkerConfig, ...stated }
  validateWorkerConfig(config)
  return {
    model,
    stated,
    events: socketOf(body, 'events'),
    replay: socketOf(body, 'replay'),
    spec: {
      id: id === undefined ? freeId() : readId(typeof id === 'bigint' || typeof id === 'string' ? String(id) : ''),
      url,
      engine: engine as EngineKind,
      config,
      apiKey: keyOf(body),
      servedModel: textOf(body, 'served_model'),
      role: wordOf(body, 'role', workerRoles) ?? roleOfLabels(textsOf(body, 'labels')),
      blockSize: countOf(body, 'block_size'),
      transfer: readTransfer(body),
    },
  }
}

/** What is said and nothing else: the rest can be asked of the engine. */
function readConfig(body: JsonObject): Partial<WorkerConfig> {
  const taints = body['taints'] ?? undefined
  if (taints !== undefined && (!Array.isArray(taints) || taints.some((it) => typeof it !== 'string')))
    throw refused('taints must be a list of texts')
  const said = {
    dataParallelStartRank: countOf(body, 'data_parallel_start_rank'),
    dataParallelSize: countOf(body, 'data_parallel_size'),
    totalKvBlocks: countOf(body, 'total_kv_blocks'),
    maxNumBatchedTokens: countOf(body, 'max_num_batched_tokens'),
    taints: taints === undefined ? undefined : new Set(taints as string[]),
    topologyDomains: textsOf(body, 'topology_domains'),
    kvTransferDomain: textOf(body, 'kv_transfer_domain'),
    kvTransferEnforcement: wordOf(body, 'kv_transfer_enforcement', ['required', 'preferred']),
    kvTransferPreferredWeight: numberOf(body, 'kv_transfer_preferred_weight'),
  }
  return Object.fromEntries(Object.entries(said).filter(([, value]) => value !== undefined))
}

function socketOf(body: JsonObject, name: string): string | undefined {
  const address = textOf(body, name)
  if (address !== undefined && !/^(tcp|ipc):\/\/./.test(address))
    throw refused(`${name} must be a ZeroMQ address, such as tcp://gpu1:5557`)
  return address
}

/** How its KV reaches a decode worker; what is not said the engine's kind decides. */
function readTransfer(body: JsonObject): TransferFacts {
  const ids = body['engine_ids'] ?? undefined
  if (ids !== undefined && (!Array.isArray(ids) || ids.some((it) => typeof it !== 'string')))
    throw refused('engine_ids must be a list of texts')
  return {
    connector: wordOf(body, 'connector', connectors),
    host: textOf(body, 'transfer_host'),
    port: countOf(body, 'transfer_port'),
    engineIds: ids as string[] | undefined,
    tpSize: countOf(body, 'tp_size'),
    ppSize: countOf(body, 'pp_size'),
    leaseMs: countOf(body, 'kv_lease_ms', timerMsMax),
  }
}

function textsOf(body: JsonObject, name: string): Record<string, string> | undefined {
  const texts = body[name] ?? undefined
  if (texts === undefined) return undefined
  const isMap = typeof texts === 'object' && !Array.isArray(texts)
  if (!isMap || Object.values(texts).some((it) => typeof it !== 'string'))
    throw refused(`${name} must be an object of texts`)
  return { ...texts } as Record<string, string>
}

function wordOf<const Words extends readonly string[]>(
  body: JsonObject,
  name: string,
  words: Words,
): Words[number] | undefined {
  const value = textOf(body, name)
  if (value !== undefined && !words.includes(value)) throw refused(`${name} must be one of ${words.join(', ')}`)
  return value
}

function numberOf(body: JsonObject, name: string): number | undefined {
  const value = body[name] ?? undefined
  if (value === undefined) return undefined
  if (typeof value !== 'number' && typeof value !== 'bigint') throw refused(`${name} must be a number`)
  return Number(value)
}

function textOf(body: JsonObject, name: string): string | undefined {
  const value = body[name] ?? undefined
  if (value !== undefined && typeof value !== 'string') throw refused(`${name} must be a text`)
  return value
}

/** It becomes a header line. */
function keyOf(body: JsonObject): string | undefined {
  const key = textOf(body, 'api_key')
  if (key !== undefined && !/^[\x21-\x7e]+$/.test(key)) throw refused('api_key must be plain ASCII without spaces')
  return key
}

function countOf(body: JsonObject, name: string, max = Number.MAX_SAFE_INTEGER): number | undefined {
  const value = body[name] ?? undefined
  if (value === undefined) return undefined
  if (typeof value !== 'bigint' || value < 0n || value > BigInt(max))
    throw refused(`${name} must be a count${max < Number.MAX_SAFE_INTEGER ? ` of at most ${max}` : ''}`)
  return Number(value)
}

function readId(text: string): bigint {
  if (!/^[0-9]{1,20}$/.test(text) || BigInt(text) > 0xffff_ffff_ffff_ffffn)
    throw refused('a worker id is a 64-bit number')
  return BigInt(text)
}

function nextId(admin: WorkerAdmin): bigint {
  const taken = new Set(admin.workers().map((worker) => BigInt(worker.id)))
  for (const id of admin.steward?.takenIds() ?? []) taken.add(id)
  let id = 1n
  while (taken.has(id)) id++
  return id
}

function isIn(admin: WorkerAdmin, workerId: bigint): boolean {
  return admin.workers().some((worker) => worker.id === String(workerId))
}

interface AbsentReport {
  readonly id: string
  readonly url: string
  readonly model: string | undefined
  readonly state: 'waiting'
  readonly reason: string
}

/** One that was just added takes requests before its steward has seen it. */
function absentOf(admin: WorkerAdmin): readonly AbsentReport[] {
  const absent = (admin.steward?.absent() ?? []).filter(({ id }) => !isIn(admin, id))
  return absent.map(({ id, url, model, reason }) => ({
    id: String(id),
    url,
    model,
    state: 'waiting',
    reason,
  }))
}

/** One engine as two workers would have half of its load seen at each. One that drains makes room for its successor. */
function refuseTwin(admin: WorkerAdmin, { spec }: AddedWorker): void {
  const identity = engineIdentity(spec.url)
  const known = [...admin.workers(), ...absentOf(admin)].filter((it) => it.id !== String(spec.id))
  const twin = known.find((it) => engineIdentity(it.url) === identity && it.state !== 'draining')
  if (twin) throw refused(`worker ${twin.id} has the url ${twin.url} already; name its id to change it`)
}

/** An id is one worker's: in two models its load would be seen by halves, and one removal would leave the other behind. */
function refuseOtherModel(admin: WorkerAdmin, { spec }: AddedWorker, model: string): void {
  const other = admin.workers().find((it) => it.id === String(spec.id) && it.model !== model)
  if (other) throw refused(`worker ${other.id} serves ${other.model}; remove it first, or name another id`)
}

function notFound(workerId: bigint): WarmrouteError {
  return new WarmrouteError('WR_WORKER_NOT_FOUND', { reason: `worker ${workerId}` })
}

function refused(message: string): WarmrouteError {
  return new WarmrouteError('WR_INVALID_BODY', { message })
}
