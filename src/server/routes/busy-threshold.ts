/** `/busy_threshold`: read and change when workers count as busy (spec/scheduling.md 7.7). */
import type { LoadThresholds, ThresholdChange } from '../../core/load/index.js'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { GatewayContext } from '../context.js'
import { answerJson } from '../http/answer.js'
import { parseObject, readBody } from '../http/read-body.js'
import type { Route } from './route.js'

const fields = [
  ['active_decode_blocks_threshold', 'activeDecodeBlocksThreshold'],
  ['active_prefill_tokens_threshold', 'activePrefillTokensThreshold'],
  ['active_prefill_tokens_threshold_frac', 'activePrefillTokensThresholdFrac'],
] as const

export function busyThresholdRoutes(context: GatewayContext): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/busy_threshold',
      access: 'admin',
      handle({ response }) {
        const thresholds = [...context.hub.all()].map((model) => shown(model.name, model.monitor.thresholds))
        answerJson(response, 200, { thresholds })
      },
    },
    {
      method: 'POST',
      path: '/busy_threshold',
      access: 'admin',
      async handle({ request, response }) {
        const { status, body } = await change(
          context,
          await readBody(request, response, { bytesMax: 64 * 1024, timeoutMs: context.deadlines.bodyMs }),
        )
        answerJson(response, status, body)
      },
    },
  ]
}

async function change(context: GatewayContext, bytes: Buffer): Promise<{ status: number; body: object }> {
  const request = parsed(bytes, context)
  if (typeof request === 'string') return { status: 422, body: { error: request } }
  const { model: name, values } = request
  const isChange = Object.keys(values).length > 0
  const bad = outOfRange(values)
  if (bad !== undefined) return { status: 400, body: { error: bad } }
  if (!context.hub.knows(name)) {
    if (!isChange) return { status: 200, body: shown(name, {}) }
    return {
      status: 404,
      body: { error: `Model '${name}' not found. Thresholds can only be set for discovered models.` },
    }
  }
  const { model } = context.hub.resolve(name)
  if (isChange) {
    model.monitor.setThresholds(values)
    for (const { workerId, dpRank, activeDecodeBlocks, activePrefillTokens } of await model.spec.router.loads())
      model.monitor.report({ workerId, dpRank, activeDecodeBlocks, activePrefillTokens })
    context.log.info({ model: model.name, ...values }, 'busy thresholds changed')
  }
  return { status: 200, body: shown(name, model.monitor.thresholds) }
}

/** The request, or what is wrong with it. A null takes a limit back; upstream takes it for a field that is not there. */
function parsed(
  bytes: Buffer,
  { limits, isStrict }: GatewayContext,
): { model: string; values: ThresholdChange } | string {
  let object: Record<string, unknown>
  try {
    object = parseObject(bytes, limits.depthMax)
  } catch (error) {
    if (!(error instanceof WarmrouteError)) throw error
    return String(error.details['reason'])
  }
  if (typeof object['model'] !== 'string') return 'missing field `model`'
  const values: Record<string, number | null> = {}
  for (const [wire, own] of fields) {
    const value = object[wire]
    if (value === undefined || (value === null && isStrict)) continue
    if (value === null) {
      values[own] = null
      continue
    }
    if (typeof value !== 'number') return `${wire}: invalid type, expected a number`
    if (wire === 'active_prefill_tokens_threshold' && (!Number.isInteger(value) || value < 0))
      return `${wire}: invalid value, expected an unsigned integer`
    values[own] = value
  }
  return { model: object['model'], values }
}

function outOfRange(values: ThresholdChange): string | undefined {
  const { activeDecodeBlocksThreshold: decode, activePrefillTokensThresholdFrac: frac } = values
  if (typeof decode === 'number' && !(decode >= 0 && decode <= 1))
    return `active_decode_blocks_threshold must be between 0.0 and 1.0, got ${decode}`
  if (typeof frac === 'number' && !(frac >= 0 && Number.isFinite(frac)))
    return `active_prefill_tokens_threshold_frac must be finite and at least 0.0, got ${frac}`
  return undefined
}

function shown(model: string, thresholds: LoadThresholds): object {
  return { model, ...Object.fromEntries(fields.map(([wire, own]) => [wire, thresholds[own] ?? null])) }
}
