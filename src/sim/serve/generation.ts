/** One HTTP request as work for a rank: prompts, choices, stop conditions; and the text that comes out of it. */
import type { CacheScope } from './block-chain.js'
import type { KvRank, RankRequest } from './kv-rank.js'
import { answerTokens } from './sampler.js'
import type { SimTokenizer } from './tokenizer.js'

export interface GenerationSpec extends CacheScope {
  /** What the client knows it by: an abort names it. */
  readonly id?: string
  readonly prompts: readonly (readonly number[])[]
  /** Choices per prompt. */
  readonly choices: number
  readonly outputTokensMax: number | undefined
  readonly stop: readonly string[]
  readonly isEosIgnored: boolean
  readonly sessionId?: string | undefined
  readonly skipsCacheRead?: boolean
  readonly isFullReport?: boolean
  readonly keepsBlocks?: boolean
  readonly externalTokens?: number
  readonly isExternalWrong?: boolean
  /** What is reported instead of the rank's own count, where another engine did the prefill. */
  readonly reportedCachedTokens?: number | undefined
  /** Draws another answer to the same prompt; the default answer is draw 0. */
  readonly draw: number
  readonly allowedTokens?: readonly number[] | undefined
}

export interface Choice {
  readonly index: number
  readonly prompt: readonly number[]
  readonly tokens: number[]
  text: string
  reason: 'length' | 'stop' | 'abort' | undefined
  /** The stop string that ended it. */
  stopReason: string | null
  cachedTokens: number
}

export interface GenerationSink {
  /** `text` is new; the token that ends an answer by itself has none. */
  token(choice: Choice, token: number, text: string): void
  /** Every choice has ended. */
  end(choices: readonly Choice[]): void
}

export interface Generation {
  readonly choices: readonly Choice[]
  readonly requests: readonly RankRequest[]
  abort(): void
}

export function startGeneration(
  rank: KvRank,
  tokenizer: SimTokenizer,
  spec: GenerationSpec,
  sink: GenerationSink,
): Generation {
  const choices: Choice[] = spec.prompts.flatMap((prompt, at) =>
    Array.from({ length: spec.choices }, (_, copy) => ({
      index: at * spec.choices + copy,
      prompt,
      tokens: [],
      text: '',
      reason: undefined,
      stopReason: null,
      cachedTokens: 0,
    })),
  )
  let left = choices.length
  const requests = choices.map((choice): RankRequest => {
    const naturalEnd = spec.outputTokensMax === undefined ? answerTokens(choice.prompt) : Number.POSITIVE_INFINITY
    return rank.submit({
      ...spec,
      prompt: choice.prompt,
      sampling: { draw: spec.draw + (choice.index % spec.choices), allowedTokens: spec.allowedTokens },
      outputTokensMax: spec.outputTokensMax ?? Number.MAX_SAFE_INTEGER,
      onToken(token, request) {
        choice.cachedTokens = spec.reportedCachedTokens ?? request.cachedTokens
        choice.tokens.push(token)
        const isEnd = !spec.isEosIgnored && (token === tokenizer.eosId || choice.tokens.length >= naturalEnd)
        const text = isEnd ? '' : tokenizer.decode([token])
        const stopped = takeText(choice, text, spec.stop)
        if (isEnd || stopped) choice.reason = 'stop'
        else if (spec.outputTokensMax !== undefined && choice.tokens.length >= spec.outputTokensMax)
          choice.reason = 'length'
        sink.token(choice, token, stopped ? '' : text)
        return isEnd || stopped
      },
      onEnd(reason) {
        choice.reason ??= reason === 'stop' || reason === 'length' ? reason : 'abort'
        if (--left === 0) sink.end(choices)
      },
    })
  })
  return {
    choices,
    requests,
    abort() {
      for (const request of requests) rank.engine.abort(request)
    },
  }
}

/** Adds text to a choice, cut at the first stop string; true when there was one. */
function takeText(choice: Choice, text: string, stops: readonly string[]): boolean {
  choice.text += text
  for (const stop of stops) {
    const at = stop === '' ? -1 : choice.text.indexOf(stop)
    if (at < 0) continue
    choice.text = choice.text.slice(0, at)
    choice.stopReason = stop
    return true
  }
  return false
}
