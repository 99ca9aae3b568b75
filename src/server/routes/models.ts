/** `/v1/models`, one model, and whether it can serve. */
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
        const isAnthropic = request.headers['anthropic-version'] !== undefined
        const data = [...context.hub.names()]
          .filter(([, { model }]) => model.isReady)
          .map(([name, { model }]) => (isAnthropic ? anthropicEntry(name) : openAiEntry(name, model)))
        answerJson(response, 200, isAnthropic ? anthropicList(data) : { object: 'list', data })
      },
    },
    {
      method: 'GET',
      path: '/v1/models/',
      isPrefix: true,
      access: 'client',
      handle({ response, rest }) {
        const id = decoded(rest)
        // A model whose own name ends in /ready is that model, not the sub-resource.
        const own = findModel(context, id)
        if (own) {
          answerJson(response, 200, openAiEntry(id, own))
          return
        }
        const parent = id.endsWith('/ready') ? findModel(context, id.slice(0, -'/ready'.length)) : undefined
        if (!parent) throw new WarmrouteError('WR_MODEL_NOT_FOUND', { param: 'model' })
        answerJson(response, 200, readiness(parent))
      },
    },
  ]
}

function findModel(context: GatewayContext, name: string): Model | undefined {
  for (const [known, { model }] of context.hub.names()) if (known === name) return model
  return undefined
}

function openAiEntry(id: string, model: Model): object {
  const { contextWindow } = model.spec
  return {
    id,
    object: 'model',
    created: Math.floor(Date.now() / 1000),
    owned_by: 'nvidia',
    ...(contextWindow === undefined ? {} : { context_window: contextWindow }),
  }
}

function anthropicEntry(id: string): { id: string; type: string; display_name: string; created_at: string } {
  return { id, type: 'model', display_name: id, created_at: new Date().toISOString() }
}

function anthropicList(data: readonly object[]): object {
  const ids = data.map((entry) => (entry as { id: string }).id)
  return { data, has_more: false, first_id: ids[0] ?? null, last_id: ids.at(-1) ?? null }
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
