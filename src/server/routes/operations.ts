/** `/live`, `/health`, `/ready` and `/metrics`. */
import { setImmediate } from 'node:timers/promises'
import { expositionType } from '../../telemetry/index.js'
import type { GatewayContext } from '../context.js'
import { answerJson } from '../http/answer.js'
import type { Route } from './route.js'

export function operationRoutes(context: GatewayContext): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/live',
      access: 'open',
      handle: ({ response }) => answerJson(response, 200, { status: 'live', message: 'Service is live' }),
    },
    {
      method: 'GET',
      path: '/health',
      access: 'open',
      // Without workers it is still healthy: whether a model can serve is a question to /ready and /v1/models.
      handle: ({ response }) =>
        context.isEnding
          ? answerJson(response, 503, { status: 'not_ready', stage: 'draining', message: 'Service is not ready' })
          : answerJson(response, 200, {
              status: 'healthy',
              endpoints: endpoints(context),
              instances: instances(context),
            }),
    },
    {
      method: 'GET',
      path: '/ready',
      access: 'open',
      handle: ({ response }) => {
        const models = [...context.hub.all()].map((model) => ({ model: model.name, ready: model.isReady }))
        const isReady = !context.isEnding && models.some((model) => model.ready)
        answerJson(response, isReady ? 200 : 503, { status: isReady ? 'ready' : 'not_ready', models })
      },
    },
    {
      method: 'GET',
      path: '/metrics',
      access: 'open',
      async handle({ response }) {
        response.writeHead(200, { 'content-type': expositionType })
        for await (const slice of context.meters.metrics.registry.stream(() => setImmediate())) {
          if (response.destroyed) return
          response.write(slice)
        }
        response.end()
      },
    },
  ]
}

/** Upstream lists `dyn://` endpoints; ours are the models. */
function endpoints(context: GatewayContext): readonly string[] {
  return [...context.hub.all()].map((model) => `warmroute://${model.name}`)
}

function instances(context: GatewayContext): readonly object[] {
  return [...context.hub.all()].flatMap((model) =>
    [...model.workers()].map((worker) => ({
      model: model.name,
      instance_id: worker.label,
      state: worker.state,
      is_available: worker.mayServe,
    })),
  )
}
