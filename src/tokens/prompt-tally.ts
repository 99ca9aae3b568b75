/** How many prompts of a model have tokens, by how they are known, and how many have none, by why. */
import type { LoadOnlyReason } from './chat/request.js'
import type { CountedCounts } from './parity/counted-prompts.js'
import { CountedPrompts } from './parity/counted-prompts.js'
import type { Exactness, Tokens, TokensSource } from './tokens.js'

/** The prompts of one model: how their tokens are known, or why they are not. */
export interface PromptCounts {
  readonly tokenized: Readonly<Partial<Record<`${TokensSource}/${Exactness}`, number>>>
  readonly loadOnly: Readonly<Partial<Record<LoadOnlyReason, number>>>
  /** Those that the engine counted, too. */
  readonly counted: CountedCounts
}

export class PromptTally {
  /** By engines of every kind. */
  readonly counted: CountedPrompts = new CountedPrompts()
  readonly #tokenized = new Map<string, number>()
  readonly #loadOnly = new Map<LoadOnlyReason, number>()

  tokenized({ source, exactness }: Pick<Tokens, 'source' | 'exactness'>): void {
    add(this.#tokenized, `${source}/${exactness}`)
  }

  loadOnly(reason: LoadOnlyReason): void {
    add(this.#loadOnly, reason)
  }

  get counts(): PromptCounts {
    return {
      tokenized: Object.fromEntries(this.#tokenized),
      loadOnly: Object.fromEntries(this.#loadOnly),
      counted: this.counted.counts,
    }
  }
}

export function add<Key>(counts: Map<Key, number>, key: Key): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}
