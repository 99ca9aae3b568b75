/** `/v1/models`, one model, and whether it can serve. */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { GatewayContext } from '../context.js'
import { answerJson } from '../http/answer.js'
import type { Model } from '../model.js'
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
  const workers = [...model.fleet.all()]
  const isReady = model.isReady
  const present = isReady ? ['aggregated'] : []
  const missing = isReady ? [] : ['aggregated']
  const reason = isReady ? undefined : workers.length === 0 ? 'no workers' : 'no worker answers'
  const detail = {
    ready: isReady,
    ...(reason === undefined ? {} : { reason }),
    worker_types: { aggregated: { workers: workers.filter((worker) => worker.mayServe).length, needs: [] } },
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

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
