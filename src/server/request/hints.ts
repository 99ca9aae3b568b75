/**
 * What a request says about its own routing, from headers and `nvext`. A header beats the matching field, one by one; a
 * header that cannot be read is ignored, a field that cannot be read is refused (spec/serving.md 1.8 and 1.9).
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { JsonObject, JsonValue } from '../../core/protocol/index.js'
import { entriesOf, unkept, WarmrouteError } from '../../core/protocol/index.js'
import type { SessionControl } from '../../routing/index.js'
import type { Nvext } from './nvext.js'
import type { SessionIdentity } from './session-id.js'
import { sessionIdentity } from './session-id.js'

export interface RoutingHints {
  readonly backendWorkerId?: bigint | undefined
  readonly decodeWorkerId?: bigint | undefined
  readonly prefillWorkerId?: bigint | undefined
  readonly dpRank?: number | undefined
  readonly prefillDpRank?: number | undefined
  readonly priority?: number | undefined
  readonly strictPriority?: number | undefined
  /** Seconds of queueing that the request may overtake, by an older name; `priority` beats it. */
  readonly latencySensitivity?: number | undefined
  readonly expectedOutputTokens?: number | undefined
  readonly cacheSalt?: string | undefined
  /** True: the salt did not come as the engine's own field, so it has to be put in. */
  readonly isSaltOurs: boolean
  readonly policyClass?: string | undefined
  readonly requiredTaints?: readonly string[] | undefined
  readonly preferredTaints?: Readonly<Record<string, number>> | undefined
  readonly session?: SessionIdentity | undefined
  readonly sessionControl?: SessionControl | undefined
  readonly isDryRun: boolean
  readonly extraFields: ReadonlySet<string>
  readonly annotations: readonly string[]
  readonly tokenData?: Uint32Array | undefined
}

export interface HintLimits {
  readonly metadataEntriesMax: number
  readonly metadataBytesMax: number
}

const noFields: ReadonlySet<string> = new Set()
const noAnnotations: readonly string[] = []
const unsetRank = 0xffff_ffff

export function readHints(
  headers: IncomingHttpHeaders,
  body: Readonly<Record<string, unknown>>,
  given: Nvext | undefined,
  limits: HintLimits,
): RoutingHints {
  const nvext = given?.fields
  const hints = nvext ? object(nvext['agent_hints'], 'agent_hints') : undefined
  const constraints = nvext ? object(nvext['routing_constraints'], 'routing_constraints') : undefined
  const annotations = nvext ? texts(nvext['annotations'], 'annotations') : noAnnotations
  const extraFields = nvext?.['extra_fields'] ? new Set(texts(nvext['extra_fields'], 'extra_fields')) : noFields
  const pinned = headerId(headers, 'x-dynamo-worker-instance-id', 'x-worker-instance-id')
  const tenant = trimmed(headers['x-tenant-id'])
  const nvextSalt = nvext ? trimmed(nvext['cache_salt']) : undefined
  const bodySalt = trimmed(body['cache_salt'])
  return {
    backendWorkerId: pinned ?? id(nvext, 'backend_instance_id'),
    decodeWorkerId: pinned ?? id(nvext, 'decode_worker_id'),
    prefillWorkerId:
      headerId(headers, 'x-dynamo-prefill-instance-id', 'x-prefill-instance-id') ?? id(nvext, 'prefill_worker_id'),
    dpRank: headerRank(headers, 'x-dynamo-dp-rank', 'x-dp-rank', 'x-data-parallel-rank') ?? rank(nvext, 'dp_rank'),
    prefillDpRank:
      headerRank(headers, 'x-dynamo-prefill-dp-rank', 'x-prefill-dp-rank') ?? rank(nvext, 'prefill_dp_rank'),
    priority:
      headerInteger(headers['x-dynamo-request-priority'], -(2 ** 31), 2 ** 31 - 1) ??
      integer(hints, 'priority', -(2 ** 31), 2 ** 31 - 1),
    strictPriority:
      headerInteger(headers['x-dynamo-request-strict-priority'], 0, unsetRank) ??
      integer(hints, 'strict_priority', 0, unsetRank),
    latencySensitivity: seconds(hints, 'latency_sensitivity'),
    expectedOutputTokens: integer(hints, 'osl', 0, unsetRank),
    cacheSalt: tenant ?? nvextSalt ?? bodySalt,
    isSaltOurs: (tenant ?? nvextSalt) !== undefined && (tenant ?? nvextSalt) !== bodySalt,
    policyClass: readPolicyClass(headers, limits),
    requiredTaints: constraints?.['required_taints']
      ? texts(constraints['required_taints'], 'required_taints')
      : undefined,
    preferredTaints: constraints ? weights(constraints['preferred_taints']) : undefined,
    session: sessionIdentity(headers),
    sessionControl: nvext ? readSessionControl(nvext['session_control']) : undefined,
    isDryRun: annotations.some((it) => it.startsWith('query_instance_id:')),
    extraFields,
    annotations,
    tokenData: given?.longTokens ?? (nvext ? tokens(nvext['token_data']) : undefined),
  }
}

/** Free metadata: bounded, and of it only the class matters here. Throws `WR_HEADERS_TOO_LARGE`. */
function readPolicyClass(headers: IncomingHttpHeaders, limits: HintLimits): string | undefined {
  let entries = 0
  let bytes = 0
  for (const [name, value] of entriesOf(headers)) {
    if (!name.startsWith('x-dynamo-meta-')) continue
    entries++
    bytes += name.length + String(value).length
  }
  if (entries > limits.metadataEntriesMax || bytes > limits.metadataBytesMax)
    throw new WarmrouteError('WR_HEADERS_TOO_LARGE', { reason: 'too much metadata', entries, bytes })
  return entries === 0 ? undefined : trimmed(headers['x-dynamo-meta-policy-class'])
}

function readSessionControl(value: JsonValue | undefined): SessionControl | undefined {
  const control = object(value, 'session_control')
  if (!control) return undefined
  const sessionId = trimmed(control['session_id'])
  const action = control['action'] ?? undefined
  if (!sessionId) throw refused('session_control.session_id must be a text')
  if (action !== undefined && action !== 'open' && action !== 'close')
    throw refused('session_control.action must be open or close')
  return { sessionId, action, timeoutSecs: integer(control, 'timeout', 1, 31_536_000) }
}

function object(value: JsonValue | undefined, name: string): JsonObject | undefined {
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'object' || Array.isArray(value)) throw refused(`${name} must be an object`)
  return value
}

function texts(value: JsonValue | undefined, name: string): readonly string[] {
  if (value === undefined || value === null) return noAnnotations
  if (!Array.isArray(value) || value.some((it) => typeof it !== 'string'))
    throw refused(`${name} must be a list of texts`)
  return value as string[]
}

function weights(value: JsonValue | undefined): Readonly<Record<string, number>> | undefined {
  const map = object(value, 'preferred_taints')
  if (!map) return undefined
  const weights = new Map<string, number>()
  for (const [taint, weight] of entriesOf(map)) {
    if (typeof weight !== 'number' && typeof weight !== 'bigint') throw refused('preferred_taints must hold numbers')
    weights.set(taint, Number(weight))
  }
  return unkept(weights)
}

function tokens(value: JsonValue | undefined): Uint32Array | undefined {
  if (value === undefined || value === null) return undefined
  if (!Array.isArray(value)) throw refused('token_data must be a list')
  const ids = new Uint32Array(value.length)
  for (let at = 0; at < value.length; at++) {
    const token = value[at]
    if (typeof token !== 'bigint' || token < 0n || token > 0xffff_ffffn) throw refused(`token_data[${at}] is no token`)
    ids[at] = Number(token)
  }
  return ids
}

function id(nvext: JsonObject | undefined, name: string): bigint | undefined {
  const value = nvext?.[name] ?? undefined
  if (value === undefined) return undefined
  if (typeof value !== 'bigint' || value < 0n || value > 0xffff_ffff_ffff_ffffn)
    throw refused(`${name} is no worker id`)
  return value
}

function rank(nvext: JsonObject | undefined, name: string): number | undefined {
  const value = integer(nvext, name, 0, unsetRank)
  return value === unsetRank ? undefined : value
}

function integer(from: JsonObject | undefined, name: string, min: number, max: number): number | undefined {
  const value = from?.[name] ?? undefined
  if (value === undefined) return undefined
  if (typeof value !== 'bigint' || value < BigInt(min) || value > BigInt(max))
    throw refused(`${name} must be an integer from ${min} to ${max}`)
  return Number(value)
}

function seconds(from: JsonObject | undefined, name: string): number | undefined {
  const value = from?.[name] ?? undefined
  if (value === undefined) return undefined
  const number = typeof value === 'number' || typeof value === 'bigint' ? Number(value) : Number.NaN
  if (!Number.isFinite(number)) throw refused(`${name} must be a number`)
  return Math.max(0, number)
}

function headerId(headers: IncomingHttpHeaders, ...names: readonly string[]): bigint | undefined {
  for (const name of names) {
    const value = headers[name]
    if (typeof value === 'string' && /^[0-9]{1,20}$/.test(value)) {
      const worker = BigInt(value)
      if (worker <= 0xffff_ffff_ffff_ffffn) return worker
    }
  }
  return undefined
}

function headerRank(headers: IncomingHttpHeaders, ...names: readonly string[]): number | undefined {
  for (const name of names) {
    const value = headerInteger(headers[name], 0, unsetRank)
    if (value !== undefined) return value === unsetRank ? undefined : value
  }
  return undefined
}

function headerInteger(value: string | string[] | undefined, min: number, max: number): number | undefined {
  if (typeof value !== 'string' || !/^-?[0-9]{1,10}$/.test(value)) return undefined
  const number = Number(value)
  return number >= min && number <= max ? number : undefined
}

function trimmed(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined
  const text = value.trim()
  return text === '' ? undefined : text
}

function refused(message: string): WarmrouteError {
  return new WarmrouteError('WR_INVALID_BODY', { message: `nvext: ${message}`, param: 'nvext' })
}
