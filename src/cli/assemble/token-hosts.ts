/**
 * Where each model's tokens come from: its files first, and an engine that serves it where there are none. The engine is
 * one of the model's workers; when it leaves another is asked, and what failed is tried again at the next look. Where
 * engines of several kinds serve a model it is always one of the same kind, whoever answered first.
 */
import { WarmrouteError } from '../../core/protocol/index.js'
import { dialectOf } from './joined.js'
import type { Joined } from './joined.js'
import type { TokenPlaces } from './token-places.js'
import { placesFor } from './token-places.js'
import type { ModelSources, ModelStatus, TokenService } from '../../tokens/index.js'

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
  readonly #hosts = new Map<string, Joined>()
  /** Folders that an admin named while we run, by model. */
  readonly #named = new Map<string, string>()

  constructor(options: TokenHostsOptions) {
    this.#options = options
  }

  status(model: string): ModelStatus {
    return this.#options.tokens.status(model)
  }

  hasTokens(model: string): boolean {
    const { source, trouble } = this.status(model)
    return source !== 'none' && trouble === undefined
  }

  /** Never rejects: a worker is worth having without tokens. */
  async find(model: string): Promise<void> {
    const host = this.#hostOf(model)
    if (!host?.runtime.looksAtCaches) return
    const present = this.#hosts.get(model)
    if (present && kindRank(present) <= kindRank(host)) return
    this.#hosts.set(model, host)
    try {
      await this.#ask(model, host)
    } catch (error) {
      if (this.#hosts.get(model) === host) this.#hosts.delete(model)
      if (!this.#options.signal.aborted) this.#options.failed(host, error)
    }
  }

  /** Throws `WR_TOKENS_BAD_TOKENIZER`, and `WR_MODEL_NOT_READY` where no engine says how its prompts are built. */
  async replace(model: string, path: string | undefined, signal: AbortSignal): Promise<ModelStatus> {
    const host = this.#hostOf(model)
    if (!host) throw new WarmrouteError('WR_MODEL_NOT_READY', { reason: `no worker of ${model} has joined` })
    const sources = this.#sourcesOf(model, host, path)
    const { tokens, signal: stop } = this.#options
    const status = await tokens.replaceModel(model, sources, AbortSignal.any([signal, stop]))
    this.#hosts.set(model, host)
    if (path !== undefined) this.#named.set(model, path)
    return status
  }

  left({ keeper, runtime: { name } }: Joined): void {
    if (this.#hosts.get(name)?.keeper !== keeper) return
    this.#hosts.delete(name)
    if (this.status(name).source === 'engine') void this.find(name)
  }

  #hostOf(model: string): Joined | undefined {
    return preferredHost([...this.#options.joined()].filter((it) => it.runtime.name === model))
  }

  async #ask(model: string, host: Joined): Promise<void> {
    const { tokens, signal } = this.#options
    await tokens.setModel(model, this.#sourcesOf(model, host, undefined), signal)
  }

  #sourcesOf(model: string, { keeper, facts }: Joined, named: string | undefined): ModelSources {
    const { url, apiKey } = keeper.address
    const dialect = dialectOf(facts)!
    const headers = apiKey === undefined ? {} : { headers: { authorization: `Bearer ${apiKey}` } }
    const places = placesFor(model, this.#options.places)
    return {
      ...places,
      path: named ?? this.#named.get(model) ?? places.path,
      model: facts.tokenizer?.value,
      rules: { dialect },
      engine: { url, dialect, ...headers },
    }
  }
}

/** Who tells most of its tokenizer: a vLLM may tell its pieces, and TensorRT-LLM tokenizes no chats for others. */
const kinds = ['vllm', 'sglang', 'trtllm'] as const

function kindRank({ facts }: Pick<Joined, 'facts'>): number {
  const dialect = dialectOf(facts)
  return dialect === undefined ? kinds.length : kinds.indexOf(dialect)
}

/** The lowest id of the kind that tells most; undefined: none of them can be asked. */
export function preferredHost<Host extends HostFacts>(workers: readonly Host[]): Host | undefined {
  let best: Host | undefined
  for (const worker of workers) {
    if (dialectOf(worker.facts) === undefined) continue
    const by = best ? kindRank(worker) - kindRank(best) : -1
    if (by < 0 || (by === 0 && worker.keeper.id < best!.keeper.id)) best = worker
  }
  return best
}

interface HostFacts extends Pick<Joined, 'facts'> {
  readonly keeper: { readonly id: bigint }
}
