/**
 * Reads the `worker_selection` part of a policy file (already a plain value) into policies by type of worker.
 * Follows lib/kv-router/src/scheduling/policy_config.rs of 1.5.0-dev.
 *
 *   worker_selection:
 *     decode: mine                                                  # worker types: aggregated, prefill, decode, encode
 *     instances: [{ name: mine, type: least-busy, parameters: { ... } }]
 */
import type { WorkerRole } from '../protocol/index.js'
import { WarmrouteError, workerRoles } from '../protocol/index.js'
import type { SelectionPolicy } from './selection-policy.js'
import { defaultPolicy } from './selection-policy.js'

/** Makes a policy of one type; throws where the parameters mean nothing to it. */
export type PolicyFactory = (name: string, parameters: Readonly<Record<string, unknown>>) => SelectionPolicy

export interface WorkerSelectionPolicies {
  /** Worker types that are not named use the built-in selection. */
  readonly byRole: ReadonlyMap<WorkerRole, SelectionPolicy>
  readonly instances: ReadonlyMap<string, SelectionPolicy>
}

const identifier = /^[A-Za-z0-9_.-]+$/

/** Throws `WR_INVALID_CONFIG` with every complaint. */
export function parseWorkerSelection(
  content: unknown,
  factories: ReadonlyMap<string, PolicyFactory>,
): WorkerSelectionPolicies {
  const complaints: string[] = []
  const file = isPlain(content) ? content : {}
  if (content !== undefined && !isPlain(content)) complaints.push('worker_selection is not an object')
  for (const key of Object.keys(file))
    if (key !== 'instances' && !isWorkerType(key)) complaints.push(`worker_selection.${key} is no known key`)
  const instances = parseInstances(file['instances'] ?? [], factories, complaints)
  const chosen = new Map<WorkerRole, SelectionPolicy>()
  for (const workerType of workerRoles) {
    const name = file[workerType]
    if (name === undefined) continue
    const policy = name === 'default' ? defaultPolicy : instances.get(name as string)
    if (policy) chosen.set(workerType, policy)
    else complaints.push(`worker_selection.${workerType} names ${JSON.stringify(name)}, which is no instance`)
  }
  if (complaints.length > 0) {
    const issues = complaints.map((message) => ({ field: 'routerPolicyConfig', message }))
    throw new WarmrouteError('WR_INVALID_CONFIG', { reason: complaints.join('; '), issues })
  }
  return { byRole: chosen, instances }
}

function parseInstances(
  list: unknown,
  factories: ReadonlyMap<string, PolicyFactory>,
  complaints: string[],
): Map<string, SelectionPolicy> {
  const instances = new Map<string, SelectionPolicy>()
  if (!Array.isArray(list)) complaints.push('worker_selection.instances is not a list')
  for (const [index, item] of (Array.isArray(list) ? list : []).entries()) {
    const at = `worker_selection.instances[${index}]`
    const { name, type, parameters = {}, ...rest } = isPlain(item) ? item : {}
    const factory = typeof type === 'string' ? factories.get(type) : undefined
    if (typeof name !== 'string' || !identifier.test(name)) complaints.push(`${at}.name is no identifier`)
    else if (name === 'default') complaints.push(`${at}.name is reserved: default`)
    else if (instances.has(name)) complaints.push(`${at}.name repeats ${name}`)
    else if (!factory) complaints.push(`${at}.type is no known policy: ${JSON.stringify(type)}`)
    else if (!isPlain(parameters)) complaints.push(`${at}.parameters is not an object`)
    else makeInstance(at, name, () => factory(name, parameters), instances, complaints)
    for (const key of Object.keys(rest)) complaints.push(`${at}.${key} is no known key`)
  }
  return instances
}

function makeInstance(
  at: string,
  name: string,
  make: () => SelectionPolicy,
  instances: Map<string, SelectionPolicy>,
  complaints: string[],
): void {
  try {
    instances.set(name, make())
  } catch (cause) {
    complaints.push(`${at}.parameters: ${cause instanceof Error ? cause.message : String(cause)}`)
  }
}

function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isWorkerType(key: string): boolean {
  return (workerRoles as readonly string[]).includes(key)
}
