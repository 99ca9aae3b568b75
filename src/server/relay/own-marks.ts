/** What we add to an engine's answer: lines in its head, and in its body what a client or `strict: dynamo` asks for. */
import type { RouteAnswer } from '../../routing/index.js'
import type { GatewayContext } from '../context.js'
import { flatError } from '../http/engine-refusal.js'
import type { Model } from '../model.js'
import type { PairedRequest } from '../pairs/index.js'
import type { HowKnown } from '../request/prompt.js'
import { howKnownWords } from '../request/prompt.js'
import type { AnswerEdits, EditTerms } from '../request/nvext-answer.js'
import { editsOf } from '../request/nvext-answer.js'

type Mark = readonly [name: string, value: string]

export interface Marked {
  readonly publicId: string
  readonly model: Pick<Model, 'looksAtPrompts'>
  readonly answer: RouteAnswer
  readonly pair: PairedRequest | undefined
  readonly howKnown: HowKnown | undefined
  /** The engine takes one of its ranks by itself. */
  readonly isRankUnknown?: boolean
}

export function ownHeaders(
  { showsWorker }: GatewayContext,
  { publicId, model, answer, pair, howKnown, isRankUnknown = false }: Marked,
): readonly Mark[] {
  if (!showsWorker) return [['x-request-id', publicId]]
  return [
    ['x-request-id', publicId],
    ['x-warmroute-worker-id', String(answer.workerId)],
    ...(isRankUnknown ? [] : [['x-warmroute-dp-rank', String(answer.dpRank)] as const]),
    // A router that looks at no cache foretells nothing, which is not the same as 0; nor can it for a rank that it does not choose.
    ...(model.looksAtPrompts && !isRankUnknown
      ? [['x-warmroute-cached-tokens', String((pair?.prefilled ?? answer).cachedTokens)] as const]
      : []),
    ...howKnownHeaders(howKnown),
    ...(pair?.headers() ?? []),
  ]
}

/** None where nobody looked at the prompt. */
export function howKnownHeaders(howKnown: HowKnown | undefined): readonly Mark[] {
  const { tokens, load_only: loadOnly } = howKnownWords(howKnown)
  if (tokens !== undefined) return [['x-warmroute-tokens', tokens]]
  return loadOnly === undefined ? [] : [['x-warmroute-load-only', loadOnly]]
}

/** An engine's error is reworded for clients of upstream's shape only. */
export function editsFor({ isStrict }: GatewayContext, terms: EditTerms): AnswerEdits {
  const edits = editsOf(terms)
  if (!isStrict || terms.prepared.row.isAnthropic) return edits
  return {
    ...edits,
    bodyEdit: (status) => (status >= 400 ? (body) => flatError(body, status) : edits.bodyEdit?.(status)),
  }
}
