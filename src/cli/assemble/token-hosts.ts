/**
 * Where each model's tokens come from: its files first, and an engine that serves it where there are none. The engine is
 * one of the model's workers; when it leaves or gives no tokens any more another is asked, and what failed is tried again
 * at the next look. Where engines of several kinds serve a model it is always one of the same kind, whoever answered first;
 * of each other kind one is asked for what its own workers will see. By which rules prompts are built all engines of a kind decide.
 */
import { WarmrouteError } from '../../core/protocol/index.js'
import { dialectOf } from './joined.js'
import type { Joined } from './joined.js'
import { rulesOf } from './prompt-rules.js'
import type { PromptRules } from './prompt-rules.js'
import type { TokenPlaces } from './token-places.js'
import { placesFor } from './token-places.js'
import type { OtherDialect } from '../../server/index.js'
import type { Dialect, ModelSources, ModelStatus, TokenService } from '../../tokens/index.js'

export interface TokenHostsOptions {
  readonly tokens: Pick<TokenService, 'announce' | 'status' | 'isMute' | 'setModel' | 'replaceModel' | 'setOther'>
  readonly places: TokenPlaces | undefined
  /** Who is in, of every model. */
  readonly joined: () => Iterable<Joined>
  readonly failed: (joined: Joined, error: unknown) => void
  readonly signal: AbortSignal
  readonly now: () => number
}

/** What is known of the tokens of a worker's prompts: the same for all of a model and kind. */
export interface TokenView {
  readonly status: ModelStatus
  /** Its model has a source of tokens. */
  readonly hasSource: boolean
}

/** An engine that gave no tokens is not asked again for so long, where another can be: it may be slow for good. */
const restMs = 60_000

/** Files are of no use then: every kind builds prompts by rules of its own. */
const noHost = 'how engines of its kind build prompts is not known'

export class TokenHosts {
  readonly #options: TokenHostsOptions
  readonly #hosts = new Map<string, Joined>()
  /** Whose answer is waited for, by model: until it is there tokens still come from the one before. */
  readonly #asked = new Map<string, Joined>()
  /** When a worker was found to give no tokens. */
  readonly #muteSince = new WeakMap<Joined, number>()
  /** Folders that an admin named while we run, by model. */
  readonly #named = new Map<string, string>()
  /** By whose rules prompts are built, by model; with files also after the last engine of that kind has left. */
  readonly #usual = new Map<string, Dialect | undefined>()
  /** The rules that are in force for them, as a text. */
  readonly #rules = new Map<string, string>()
  /** Of other kinds, by model: who is asked, and for whom. */
  readonly #others = new Map<string, readonly OtherHost[]>()
  /** Models whose tokens were looked for, with or without success. */
  readonly #looked = new Set<string>()

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

  /**
   * Where the tokens of each worker's prompts come from: each kind of engine makes its own. For as many as are looked at together, as each
   * model and kind is looked up once.
   */
  viewer(): (joined: Pick<Joined, 'runtime' | 'facts'>) => TokenView {
    const views = new Map<string, Map<Dialect | undefined, TokenView>>()
    return ({ runtime: { name }, facts }) => {
      let ofModel = views.get(name)
      if (!ofModel) views.set(name, (ofModel = new Map<Dialect | undefined, TokenView>()))
      const dialect = dialectOf(facts)
      const known = ofModel.get(dialect)
      if (known) return known
      const isOther = this.others(name).some((it) => it.dialect === dialect)
      const status = this.#options.tokens.status(name, isOther ? dialect : undefined)
      const view = { status, hasSource: this.status(name).source !== 'none' }
      ofModel.set(dialect, view)
      return view
    }
  }

  /** Never rejects: a worker is worth having without tokens. */
  async find(model: string): Promise<void> {
    const joined = this.#joinedTo(model)
    if (!joined.some(({ runtime }) => runtime.looksAtCaches)) return
    const host = preferredHost(joined)
    this.#options.tokens.announce(model, host ? undefined : noHost)
    const present = this.#hosts.get(model)
    if (host && present && kindRank(present) <= kindRank(host)) {
      if (!this.#hasOtherRules(model, present)) return this.#findOthers(model)
      await this.#take(model, present)
    } else if (host) await this.#take(model, host)
    this.#looked.add(model)
  }

  /** What is known of the tokens of each model that was looked for, by its usual workers and by those of each other kind. */
  *statuses(): Iterable<readonly [model: string, dialect: Dialect | undefined, ModelStatus]> {
    for (const model of this.#looked) {
      yield [model, undefined, this.status(model)]
      for (const { dialect } of this.others(model)) yield [model, dialect, this.#options.tokens.status(model, dialect)]
    }
  }

  /**
   * Models whose engine gives no tokens any more get another one of its kind at once: one that hangs is given up only
   * after several looks, and until then every prompt of the model would wait for it.
   */
  relieve(): void {
    const { tokens } = this.#options
    for (const [model, host] of this.#hosts) {
      if (this.#asked.has(model) || !tokens.isMute(model)) continue
      const next = this.#insteadOf(host)
      if (next) void this.#take(model, next)
    }
    for (const [model, others] of this.#others)
      for (const { dialect, host } of others) {
        const next = tokens.isMute(model, dialect) ? this.#insteadOf(host) : undefined
        if (next) this.#takeOther(model, dialect, next)
      }
  }

  /** Another engine of the same kind and model, that has not failed a moment ago. */
  #insteadOf(host: Joined): Joined | undefined {
    const nowMs = this.#options.now()
    this.#muteSince.set(host, nowMs)
    const isRested = (it: Joined): boolean => nowMs - (this.#muteSince.get(it) ?? -Infinity) >= restMs
    const alike = this.#joinedTo(host.runtime.name).filter((it) => kindRank(it) === kindRank(host))
    return preferredHost(alike.filter(isRested))
  }

  #takeOther(model: string, dialect: Dialect, host: Joined): void {
    this.#options.tokens.setOther(model, dialect, this.#sourcesOf(model, host, undefined))
    const others = this.#others.get(model)!
    this.#others.set(
      model,
      others.map((it) => (it.dialect === dialect ? { ...it, host } : it)),
    )
  }

  /** Throws `WR_TOKENS_BAD_TOKENIZER`, and `WR_MODEL_NOT_READY` where no engine says how its prompts are built. */
  async replace(model: string, path: string | undefined, signal: AbortSignal): Promise<ModelStatus> {
    const host = this.#hostOf(model)
    if (!host) throw new WarmrouteError('WR_MODEL_NOT_READY', { reason: `no worker of ${model} has joined` })
    const sources = this.#sourcesOf(model, host, path)
    const { tokens, signal: stop } = this.#options
    const status = await tokens.replaceModel(model, sources, AbortSignal.any([signal, stop]))
    this.#hosts.set(model, host)
    this.#rules.set(model, JSON.stringify(sources.rules))
    this.#usual.set(model, dialectOf(host.facts))
    this.#findOthers(model)
    if (path !== undefined) this.#named.set(model, path)
    return status
  }

  /** Whose workers make their own tokens of a request. */
  others(model: string): readonly OtherDialect[] {
    return this.#others.get(model) ?? nobody
  }

  left(leaver: Joined): void {
    const { keeper, runtime } = leaver
    const { name } = runtime
    this.#findOthers(name, leaver)
    const isHost = this.#hosts.get(name)?.keeper === keeper
    if (isHost) this.#hosts.delete(name)
    if (isHost && this.status(name).source === 'engine') return void this.find(name)
    const dialect = this.#usual.get(name)
    const host = this.#hosts.get(name) ?? (dialect && preferredHost(this.#alike(name, dialect)))
    if (host && this.#hasOtherRules(name, host)) void this.#take(name, host)
  }

  /** An engine with settings of its own has come, or has gone, since rules were told. */
  #hasOtherRules(model: string, host: Joined): boolean {
    return JSON.stringify(this.#rulesFor(model, host)) !== this.#rules.get(model)
  }

  #rulesFor(model: string, { facts }: Joined): PromptRules {
    const dialect = dialectOf(facts)!
    const engines = this.#alike(model, dialect).map((it) => it.facts)
    return rulesOf(engines.length === 0 ? [facts] : engines, dialect)
  }

  #alike(model: string, dialect: Dialect): readonly Joined[] {
    return this.#joinedTo(model).filter(({ facts }) => dialectOf(facts) === dialect)
  }

  /** Never rejects. */
  async #take(model: string, host: Joined): Promise<void> {
    this.#hosts.set(model, host)
    this.#asked.set(model, host)
    try {
      await this.#ask(model, host)
    } catch (error) {
      if (this.#hosts.get(model) === host) this.#hosts.delete(model)
      if (!this.#options.signal.aborted) this.#options.failed(host, error)
    } finally {
      if (this.#asked.get(model) === host) this.#asked.delete(model)
    }
  }

  #hostOf(model: string): Joined | undefined {
    return preferredHost(this.#joinedTo(model))
  }

  #joinedTo(model: string): readonly Joined[] {
    return [...this.#options.joined()].filter((it) => it.runtime.name === model)
  }

  /** `left` is asked anew where it is still there: it was restarted. */
  #findOthers(model: string, left?: Joined): void {
    const usual = this.#usual.get(model)
    if (usual === undefined) return
    const before = this.#others.get(model) ?? nobody
    const byDialect = new Map<Dialect, Joined[]>()
    for (const it of this.#joinedTo(model)) {
      const dialect = dialectOf(it.facts)
      if (dialect === undefined || dialect === usual) continue
      const alike = byDialect.get(dialect)
      if (alike) alike.push(it)
      else byDialect.set(dialect, [it])
    }
    const found = [...byDialect].map(([dialect, workers]) => {
      const present = before.find((it) => it.dialect === dialect)?.host
      const host = present && workers.includes(present) ? present : preferredHost(workers)!
      const workerIds = new Set(workers.map(({ keeper }) => keeper.id))
      return { dialect, workerIds, host, rules: JSON.stringify(this.#rulesFor(model, host)) }
    })
    const { tokens } = this.#options
    for (const { dialect } of before) if (!byDialect.has(dialect)) tokens.setOther(model, dialect, undefined)
    for (const { dialect, host, rules } of found) {
      const present = before.find((it) => it.dialect === dialect)
      if (host === left || present?.host !== host || present.rules !== rules)
        tokens.setOther(model, dialect, this.#sourcesOf(model, host, undefined))
    }
    this.#others.set(model, found)
  }

  async #ask(model: string, host: Joined): Promise<void> {
    const { tokens, signal } = this.#options
    const sources = this.#sourcesOf(model, host, undefined)
    this.#rules.set(model, JSON.stringify(sources.rules))
    await tokens.setModel(model, sources, signal)
    this.#usual.set(model, dialectOf(host.facts))
    this.#findOthers(model)
  }

  #sourcesOf(model: string, host: Joined, named: string | undefined) {
    const { keeper, facts } = host
    const { url, apiKey } = keeper.address
    const dialect = dialectOf(facts)!
    const headers = apiKey === undefined ? {} : { headers: { authorization: `Bearer ${apiKey}` } }
    const places = placesFor(model, this.#options.places)
    return {
      ...places,
      path: named ?? this.#named.get(model) ?? places.path,
      model: facts.tokenizer?.value,
      rules: this.#rulesFor(model, host),
      engine: { url, dialect, ...headers },
    } satisfies ModelSources
  }
}

interface OtherHost extends OtherDialect {
  readonly host: Joined
  readonly rules: string
}

const nobody: readonly OtherHost[] = []

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
