/**
 * A prefill that ends the answer with its only token (a stop, a content filter): there is nothing to decode, and the client
 * gets what the prefill worker said, without its transfer parameters. Where a stream was asked for it becomes one.
 */
import type { FieldSpan } from '../scan-fields.js'
import { scanFields } from '../scan-fields.js'
import { spliceBody } from '../splice-body.js'

/** `length` is our own limit of one token; what an engine gave up is no answer. */
const terminal: ReadonlySet<unknown> = new Set(['stop', 'content_filter'])

type Json = Readonly<Record<string, unknown>>

/** The answer for the client, or undefined: the decode worker has to go on. `asked` is the client's body. */
export function terminalAnswer(asked: Json, answer: Buffer): Buffer | undefined {
  if (wantsMore(asked)) return undefined
  const fields = scanFields(answer)
  const choices = fields && valueOf(answer, fields, 'choices')
  if (!fields || !Array.isArray(choices) || choices.length === 0) return undefined
  if (!choices.every((choice) => terminal.has((choice as Json | null)?.['finish_reason']))) return undefined
  const hasParams = fields.some(({ name }) => name === 'kv_transfer_params')
  return hasParams ? Buffer.concat(spliceBody(answer, fields, { set: { kv_transfer_params: 'null' } })) : answer
}

/** The prefill was asked without these, so that its end need not be the end. */
function wantsMore(asked: Json): boolean {
  return ['min_tokens', 'min_completion_tokens'].some((name) => Number(asked[name] ?? 0) > 1)
}

function valueOf(answer: Buffer, fields: readonly FieldSpan[], name: string): unknown {
  const span = fields.findLast((field) => field.name === name)
  try {
    return span && (JSON.parse(answer.toString('utf8', span.valueStart, span.valueEnd)) as unknown)
  } catch {
    return undefined
  }
}

/** The same as a stream. Throws on what `terminalAnswer` did not let through. */
export function asStream(whole: Buffer, includesUsage: boolean): string {
  const { id, object, created, model, choices, usage, system_fingerprint } = JSON.parse(whole.toString('utf8')) as Json
  const isChat = object === 'chat.completion'
  const head = { id, object: isChat ? 'chat.completion.chunk' : object, created, model, system_fingerprint }
  const frame = (more: Json): string => `data: ${JSON.stringify({ ...head, ...more })}\n\n`
  const all = choices as readonly Json[]
  const frames = isChat
    ? all.flatMap(({ message, index, finish_reason, stop_reason, logprobs = null }) => [
        frame({ choices: [{ index, delta: message, logprobs, finish_reason: null }] }),
        frame({ choices: [{ index, delta: {}, logprobs: null, finish_reason, stop_reason }] }),
      ])
    : all.map((choice) => frame({ choices: [choice] }))
  return `${frames.join('')}${includesUsage ? frame({ choices: [], usage }) : ''}data: [DONE]\n\n`
}

/** Tokens that it has, as it says itself. */
export function outputTokensOf(whole: Buffer): number {
  const usage = valueOf(whole, scanFields(whole) ?? [], 'usage') as { completion_tokens?: unknown } | undefined
  return typeof usage?.completion_tokens === 'number' ? usage.completion_tokens : 1
}
