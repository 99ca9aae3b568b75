/**
 * Where each model's tokens come from: its files first, and an engine that serves it where there are none. The engine is
 * one of the model's workers; when it leaves another is asked, and what failed is tried again at the next look.
 */
import { dialectOf } from './joined.js'
import type { Joined } from './joined.js'
import type { TokenPlaces } from './token-places.js'
import { placesFor } from './token-places.js'
import type { ModelStatus, TokenService } from '../../tokens/index.js'

export interface TokenHostsOptions {
  readonly tokens: TokenService
  readonly places: TokenPlaces | undefined
  /** Who is in, of every model. */
  readonly joined: () => Iterable<Joined>
  readonly failed: (joined: Joined, error: unknown) => void
  readonly signal: AbortSignal
}

export class TokenHosts {
  readonly #options: TokenHostsOptions
  readonly #hosts = new Map<string, bigint>()

  constructor(options: TokenHostsOptions) {
    this.#options = options
  }

  status(model: string): ModelStatus {
    return this.#options.tokens.status(model)
  }

  hasTokens(model: string): boolean {
    return this.status(model).source !== 'none'
  }

  /** Never rejects: a worker is worth having without tokens. */
  async find(model: string): Promise<void> {
    if (this.#hosts.has(model)) return
    const host = [...this.#options.joined()].find((it) => it.runtime.name === model && dialectOf(it.facts))
    if (!host?.runtime.looksAtCaches) return
    this.#hosts.set(model, host.keeper.id)
    try {
      await this.#ask(model, host)
    } catch (error) {
      if (this.#hosts.get(model) === host.keeper.id) this.#hosts.delete(model)
      if (!this.#options.signal.aborted) this.#options.failed(host, error)
    }
  }

  left({ keeper, runtime: { name } }: Joined): void {
    if (this.#hosts.get(name) !== keeper.id) return
    this.#hosts.delete(name)
    if (this.status(name).source === 'engine') void this.find(name)
  }

  async #ask(model: string, { keeper, facts }: Joined): Promise<void> {
    const { tokens, places, signal } = this.#options
    const { url, apiKey } = keeper.address
    const dialect = dialectOf(facts)!
    const headers = apiKey === undefined ? {} : { headers: { authorization: `Bearer ${apiKey}` } }
    await tokens.setModel(
      model,
      {
        ...placesFor(model, places),
        model: facts.tokenizer?.value,
        rules: { dialect },
        engine: { url, dialect, ...headers },
      },
      signal,
    )
  }
}
