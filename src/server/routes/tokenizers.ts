/** `/models/{id}/tokenizer`: where a model's tokens come from, and another tokenizer in its place while requests run. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { ModelStatus } from '../../tokens/index.js'
import type { GatewayContext } from '../context.js'
import { answerJson } from '../http/answer.js'
import { parseObject, readBody } from '../http/read-body.js'
import type { TokenizerSteward } from '../options.js'
import type { Route } from './route.js'

const suffix = '/tokenizer'

export function tokenizerRoutes(context: GatewayContext, steward: TokenizerSteward | undefined): readonly Route[] {
  if (!steward) return []
  return [
    {
      method: 'GET',
      path: '/models/',
      isPrefix: true,
      access: 'admin',
      handle({ response, rest }) {
        const model = modelOf(context, rest)
        answerJson(response, 200, shown(model, steward.status(model)))
      },
    },
    {
      method: 'POST',
      path: '/models/',
      isPrefix: true,
      access: 'admin',
      async handle({ request, response, rest }) {
        const model = modelOf(context, rest)
        const path = await readPath(context, request, response)
        const left = new AbortController()
        const onClose = (): void => left.abort(new WarmrouteError('WR_REQUEST_CANCELLED', {}))
        response.once('close', onClose)
        try {
          const status = await steward.replace(model, path, left.signal)
          count('replaced')
          const { source, from } = status
          context.log.info({ model, source, from }, 'a tokenizer was replaced')
          answerJson(response, 200, shown(model, status))
        } catch (error) {
          count('refused')
          context.log.warn({ model, path, error: String(error) }, 'a tokenizer was not replaced')
          throw error
        } finally {
          response.off('close', onClose)
        }

        function count(outcome: string): void {
          context.meters.metrics.tokenizerReplacements.inc({ model, outcome })
        }
      },
    },
  ]
}

function modelOf(context: GatewayContext, rest: string): string {
  if (!rest.endsWith(suffix))
    throw new WarmrouteError('WR_ROUTE_NOT_FOUND', { message: 'Route not found: /models/{id}/tokenizer' })
  const name = rest.slice(0, -suffix.length)
  let id = name
  try {
    id = decodeURIComponent(name)
  } catch {
    // as it is: no model has this name, or one does
  }
  return context.hub.resolve(id).model.name
}

/** The folder to look in; undefined: where it was looked for before. */
async function readPath(
  context: GatewayContext,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<string | undefined> {
  const { bodyMs: timeoutMs } = context.deadlines
  const bytes = await readBody(request, response, { bytesMax: 64 * 1024, timeoutMs })
  if (bytes.length === 0) return undefined
  const { path, ...others } = parseObject(bytes, context.limits.depthMax)
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) throw refused(`there is no field ${unknown}`, unknown)
  if (path === undefined || path === null) return undefined
  if (typeof path !== 'string' || path === '' || path.includes('\0')) throw refused('path must name a folder', 'path')
  return path
}

function shown(model: string, status: ModelStatus): object {
  const { source, from, encoder, asks, reason, unaskable, loadOnly, trouble, tried } = status
  return {
    model,
    source,
    from: from ?? null,
    encoder,
    asks: asks ?? null,
    reason: reason ?? null,
    unaskable: unaskable ?? null,
    load_only: loadOnly ?? null,
    trouble: trouble ?? null,
    tried,
  }
}

function refused(message: string, param: string): WarmrouteError {
  return new WarmrouteError('WR_INVALID_BODY', { message, param })
}
