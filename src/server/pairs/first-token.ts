/**
 * How long a decode may take to its first token when its prompt's KV has to be fetched: a transfer that hangs looks like a
 * slow one. Of a whole answer nothing shows before its end, so each token that it may have adds its own time.
 */
import type { Deadlines } from '../options.js'
import type { Prepared } from '../request/prepare.js'
import type { PromptTokens } from '../request/prompt.js'

/** vLLM's and SGLang's own limit for completions that name none. */
const completionTokensDefault = 16
/** Where neither the request nor an engine says how long an answer may be: with the usual 500 ms a token, half an hour. */
const unknownTokensMax = 4096

/** Undefined: not watched. */
export function firstTokenMsMax(
  { transferMs, transferTokenMs }: Pick<Deadlines, 'transferMs' | 'transferTokenMs'>,
  prepared: Pick<Prepared, 'body' | 'isStream' | 'row' | 'model'>,
  prompt: PromptTokens | undefined,
): number | undefined {
  if (transferMs <= 0) return undefined
  if (prepared.isStream) return transferMs
  return transferTokenMs > 0 ? transferMs + outputTokensMax(prepared, prompt) * transferTokenMs : undefined
}

/** What the request allows, else what the model's context leaves, else what answers hardly ever have. */
function outputTokensMax(
  { body, row, model }: Pick<Prepared, 'body' | 'row' | 'model'>,
  prompt: PromptTokens | undefined,
): number {
  const own = body['sampling_params'] as { max_new_tokens?: unknown } | null | undefined
  const said = [body['max_completion_tokens'], body['max_tokens'], own?.max_new_tokens].find(isCount)
  if (said !== undefined) return said
  if (row.endpoint === 'completions') return completionTokensDefault
  const { contextWindow } = model.spec
  return contextWindow === undefined ? unknownTokensMax : Math.max(1, contextWindow - (prompt?.tokens.length ?? 0))
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0
}
