/**
 * Whether a stream's usage may be asked for when its client did not, and be taken out again unseen. In doubt it is not: the
 * client must get what it would have got without us.
 */
import type { GatewayContext } from '../context.js'
import type { Worker } from '../workers/worker.js'
import type { Prepared } from './prepare.js'

/** An engine of which no stream has ended yet may tell everybody (`--enable-force-include-usage`): it is not asked either. */
export function wantsUsageSample(context: GatewayContext, worker: Worker, prepared: Prepared): boolean {
  return worker.tellsUsageUnasked === false && isUsageUnasked(prepared) && context.samplesUsage()
}

/** For certain: engines read `1` and `"yes"` as true, and some vLLM take an empty object for a yes. */
export function isUsageUnasked(prepared: Prepared): boolean {
  const { isStream, row, body, hints } = prepared
  if (!isStream || (row.endpoint !== 'chat_completions' && row.endpoint !== 'completions')) return false
  if (hints.extraFields.size > 0 || !hasOneChoice(body)) return false
  const given = body['stream_options'] as Readonly<Record<string, unknown>> | null | undefined
  if (given === undefined || given === null) return true
  return given['include_usage'] === false && given['continuous_usage_stats'] === undefined
}

/** Where usage is asked for, vLLM leaves its fingerprint out of the last event of every choice; one of them can be mended. */
function hasOneChoice({ n, prompt }: Prepared['body']): boolean {
  const isBatch = Array.isArray(prompt) && prompt.length > 1 && typeof prompt[0] !== 'number'
  return !isBatch && (n === undefined || n === null || n === 1)
}
