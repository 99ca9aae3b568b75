/**
 * How long a decode may take to its first token when its prompt's KV has to be fetched: a transfer that hangs looks like a
 * slow one. Of a whole answer nothing shows before its end, so each token that it may have adds its own time.
 */
import type { Deadlines } from '../options.js'
import type { Prepared } from '../request/prepare.js'
import type { PromptTokens } from '../request/prompt.js'

/** vLLM's and SGLang's own limit for completions that name none. */
const completionTokensDefault = 16

/** Undefined: not watched. */
export function firstTokenMsMax(
  { transferMs, transferTokenMs }: Pick<Deadlines, 'transferMs' | 'transferTokenMs'>,
  prepared: Pick<Prepared, 'body' | 'isStream' | 'row' | 'model'>,
  prompt: PromptTokens | undefined,
): number | undefined {
  if (transferMs <= 0) return undefined
  if (prepared.isStream) return transferMs
  const tokens = transferTokenMs > 0 ? outputTokensMax(prepared, prompt) : undefined
  return tokens === undefined ? undefined : transferMs + tokens * transferTokenMs
}

/** What the request allows, else what the model's context leaves; undefined where neither is known. */
function outputTokensMax(
  { body, row, model }: Pick<Prepared, 'body' | 'row' | 'model'>,
  prompt: PromptTokens | undefined,
): number | undefined {
  const own = body['sampling_params'] as { max_new_tokens?: unknown } | null | undefined
  const said = [body['max_completion_tokens'], body['max_tokens'], own?.max_new_tokens].find(isCount)
  if (said !== undefined) return said
  if (row.endpoint === 'completions') return completionTokensDefault
  const { contextWindow } = model.spec
  return contextWindow === undefined ? undefined : Math.max(1, contextWindow - (prompt?.tokens.length ?? 0))
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0
}
