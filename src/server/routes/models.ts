/** `/v1/models`, one model, and whether it can serve. */
import type { IncomingMessage } from 'node:http'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { GatewayContext } from '../context.js'
import { answerJson } from '../http/answer.js'
import type { Model } from '../model.js'
import type { WorkerRole } from '../options.js'
import type { Route } from './route.js'

export function modelRoutes(context: GatewayContext): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/v1/models',
      access: 'client',
      handle({ request, response }) {
        const isAnthropic = asksAsAnthropic(request)
        const data = [...context.hub.names()]
          .filter(([, { model }]) => model.isReady)
          .map(([name, { model }]) => entryOf(name, model, isAnthropic))
        answerJson(response, 200, isAnthropic ? anthropicList(data) : { object: 'list', data })
      },
    },
    {
      method: 'GET',
      path: '/v1/models/',
      isPrefix: true,
      access: 'client',
      handle({ request, response, rest }) {
        const id = decoded(rest)
        // A model whose own name ends in /ready is that model, not the sub-resource.
        const own = context.hub.find(id)
        if (own) {
          answerJson(response, 200, entryOf(id, own, asksAsAnthropic(request)))
          return
        }
        const parent = id.endsWith('/ready') ? context.hub.find(id.slice(0, -'/ready'.length)) : undefined
        if (!parent) throw new WarmrouteError('WR_MODEL_NOT_FOUND', { param: 'model' })
        answerJson(response, 200, readiness(parent))
      },
    },
  ]

  function entryOf(id: string, model: Model, isAnthropic: boolean): ModelEntry {
    return isAnthropic ? anthropicEntry(id, model) : openAiEntry(id, model, context.isStrict)
  }
}

/** Clients of Anthropic say which version of its API they speak; nobody else does. */
export function asksAsAnthropic({ headers }: IncomingMessage): boolean {
  return headers['anthropic-version'] !== undefined
}

interface ModelEntry extends Readonly<Record<string, unknown>> {
  readonly id: string
}

/** Upstream gives the time of the question. */
function openAiEntry(id: string, { spec: { contextWindow }, createdAtMs }: Model, isStrict: boolean): ModelEntry {
  return {
    id,
    object: 'model',
    created: Math.floor((isStrict ? Date.now() : createdAtMs) / 1000),
    owned_by: isStrict ? 'nvidia' : 'warmroute',
    ...(contextWindow === undefined ? {} : { context_window: contextWindow }),
  }
}

/** What is not known of an engine's model is null. */
function anthropicEntry(id: string, { spec: { contextWindow }, createdAtMs }: Model): ModelEntry {
  return {
    type: 'model',
    id,
    display_name: id,
    created_at: new Date(createdAtMs).toISOString(),
    lifecycle: 'active',
    deprecated_at: null,
    retires_at: null,
    capabilities: null,
    line: null,
    max_input_tokens: contextWindow ?? null,
    max_tokens: null,
  }
}

function anthropicList(data: readonly ModelEntry[]): object {
  return { data, has_more: false, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null }
}

/** Upstream's shape with one namespace: stock engines know no others. */
function readiness(model: Model): object {
  const isReady = model.isReady
  const counts = new Map<WorkerRole, number>()
  for (const { spec, mayServe } of model.workers()) {
    const role = spec.role ?? 'aggregated'
    counts.set(role, (counts.get(role) ?? 0) + (mayServe ? 1 : 0))
  }
  const present = [...counts].filter(([, count]) => count > 0).map(([role]) => role)
  const isWaiting = present.length > 0 && !model.hasStarted
  const missing = isReady || isWaiting ? [] : missingRoles(present)
  const awaited = `${model.fleet.servingCount} of the ${model.spec.minInitialWorkers} workers that the start waits for`
  const reason = isReady ? undefined : isWaiting ? awaited : reasonOf(counts, present)
  const types = counts.size === 0 ? [['aggregated', 0] as const] : counts
  const detail = {
    ready: isReady,
    ...(reason === undefined ? {} : { reason }),
    worker_types: Object.fromEntries(
      [...types].map(([role, workers]) => [role, { workers, needs: needsOf(model, role) }]),
    ),
    present,
    missing_worker_types: missing,
  }
  return {
    model: model.name,
    ready: isReady,
    ...(reason === undefined ? {} : { reason }),
    namespaces: { default: detail },
  }
}

/** A decode worker needs a prefill worker where it may not, or cannot, do without. */
function needsOf({ prefill }: Model, role: WorkerRole): readonly (readonly WorkerRole[])[] {
  const isBound = prefill !== undefined && (prefill.disagg.enforce || !prefill.hasAllRounder)
  return role === 'decode' && isBound ? [['prefill']] : role === 'prefill' ? [['decode']] : []
}

function missingRoles(present: readonly WorkerRole[]): readonly WorkerRole[] {
  if (present.length === 0) return ['aggregated']
  return present.includes('prefill') ? ['decode'] : ['prefill']
}

function reasonOf(counts: ReadonlyMap<WorkerRole, number>, present: readonly WorkerRole[]): string {
  if (present.length > 0) return 'missing worker types'
  return counts.size === 0 ? 'no workers' : 'no worker answers'
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
