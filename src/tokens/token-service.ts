/**
 * Tokens for every model: finds each a source, keeps it, replaces it while requests run, and says out loud when there is none.
 * One per process or front; owns the tokenizer threads.
 */
import { WarmrouteError } from '../core/protocol/index.js'
import type { PromptRules } from './chat/build-prompt.js'
import type { Body, Dialect, LoadOnlyReason, Route } from './chat/request.js'
import { isMediaReason } from './chat/media.js'
import { LoadOnlyError } from './chat/request.js'
import type { LoadOnly } from './load-only.js'
import { asLoadOnly } from './load-only.js'
import type { ModelCounts, TokenizeOptions } from './model/model-tokens.js'
import { ModelTokens } from './model/model-tokens.js'
import type { Reading } from './model/readings.js'
import type { PoolCounts, PoolOptions } from './pool/pool.js'
import { TokenPool } from './pool/pool.js'
import type { EngineEndpoint } from './sources/engine-tokens.js'
import { EngineTokens } from './sources/engine-tokens.js'
import type { LearnAgainOptions } from './sources/learn-again.js'
import { learnAgain } from './sources/learn-again.js'
import { loadAsEngine } from './sources/load-as-engine.js'
import type { ModelFolders } from './sources/model-folders.js'
import { folderFinders } from './sources/model-folders.js'
import { isLongBody, spellInSlices } from './long-body.js'
import type { Comparison } from './parity/compare-with-engine.js'
import { compareWithEngine } from './parity/compare-with-engine.js'
import type { ModelStatus, OtherShown } from './model-status.js'
import { nothing, otherStatus, Shown, trtllmTrouble, usualStatus } from './model-status.js'
import type { PromptCounts } from './prompt-tally.js'
import { add, PromptTally } from './prompt-tally.js'
import type { OwnRenderers } from './sources/own-renderers.js'
import { whyOwnRendered, withoutOwnRendered } from './sources/own-renderers.js'
import type { SourceName, TokenSource } from './sources/source.js'
import type { Tokens } from './tokens.js'

/** Where a model's tokens may come from, tried in this order: its files, then an engine that serves it. */
export interface ModelSources extends ModelFolders {
  readonly engine?: EngineEndpoint | undefined
  readonly rules?: Partial<PromptRules> | undefined
  /** Bytes of the model's caches. */
  readonly cacheBytes?: number | undefined
  readonly textMax?: number | undefined
}

export interface ServiceCounts {
  readonly tokenized: number
  readonly loadOnly: Readonly<Partial<Record<LoadOnlyReason, number>>>
  readonly pool: PoolCounts
  /** Of the models that were set, also while they have no source. */
  readonly prompts: Readonly<Record<string, PromptCounts>>
  readonly models: Readonly<Record<string, ModelCounts | undefined>>
  /** Of the engines of other kinds that are asked, by model. */
  readonly others: Readonly<Record<string, Readonly<Partial<Record<Dialect, ModelCounts>>>>>
}

interface Served {
  readonly source: TokenSource | undefined
  /** An engine beside files of the model, which may know what they cannot: where media lie. */
  readonly engine?: EngineTokens | undefined
  /** What of the model's chats is not rendered by its files. */
  readonly own?: OwnRenderers | undefined
  readonly dialect?: Dialect | undefined
  readonly status: ModelStatus
  /** Where they are others than those of the source itself. */
  readonly rules?: Partial<PromptRules> | undefined
  /** Begins anew what failed when the source was found, and may pass. */
  readonly goOn?: ((signal: AbortSignal) => Promise<void>) | undefined
}

/** An engine of another kind than the one by whose rules the model's prompts are built. */
interface OtherEngine extends OtherShown {
  readonly rules: Partial<PromptRules>
}

export interface ServiceOptions extends PoolOptions {
  /** When an engine is asked again what its texts are made of. */
  readonly learnAgain?: LearnAgainOptions
}

const loadDeadlineMs = 120_000
const answerDeadlineMs = 5000
export class TokenService {
  readonly #pool: TokenPool
  readonly #learnAgain: LearnAgainOptions | undefined
  /** What goes on for the source of a model, and ends with it. */
  readonly #goingOn = new Map<string, AbortController>()
  readonly #ending = new Set<Promise<void>>()
  readonly #models = new Map<string, Served>()
  readonly #loadOnly = new Map<LoadOnlyReason, number>()
  readonly #prompts = new Map<string, PromptTally>()
  readonly #others = new Map<string, Map<Dialect, OtherEngine>>()
  /** Of the source that serves the model now, by engines of the usual kind. */
  readonly #shown = new Map<string, Shown>()
  /** For each name the number of the search whose outcome serves it, or of its removal: a search that began earlier never replaces it. */
  readonly #searches = new Map<string, number>()
  #isClosed = false
  #tokenized = 0
  #nextKey = 1
  #nextSearch = 1

  constructor(options: ServiceOptions = {}) {
    this.#learnAgain = options.learnAgain
    this.#pool = new TokenPool(options)
  }

  /** Finds the model a source and puts it to work; until then the one before goes on. Never fails: no source is an answer, too. */
  async setModel(model: string, sources: ModelSources, signal?: AbortSignal): Promise<ModelStatus> {
    const search = this.#nextSearch++
    return this.#serve(model, await this.#findSource(model, sources, signal), search)
  }

  /**
   * `setModel` for someone who wants to know whether it worked: throws `WR_TOKENS_BAD_TOKENIZER`, and leaves the model as it is,
   * where the named path does not serve or only a source is found that ranks behind the one that the model has.
   */
  async replaceModel(model: string, sources: ModelSources, signal?: AbortSignal): Promise<ModelStatus> {
    const search = this.#nextSearch++
    const served = await this.#findSource(model, sources, signal)
    const { source, tried } = served.status
    const isMissed = sources.path !== undefined && source !== 'configured'
    if (isMissed || source === 'none' || rankOf(source) > rankOf(this.status(model).source)) {
      const reason = tried.join('; ') || `the next source would be ${source}`
      throw new WarmrouteError('WR_TOKENS_BAD_TOKENIZER', { reason, model, folder: sources.path })
    }
    return this.#serve(model, served, search)
  }

  #serve(model: string, served: Served, search: number): ModelStatus {
    if (this.#isClosed || search < (this.#searches.get(model) ?? 0)) return this.status(model)
    this.#searches.set(model, search)
    this.#models.set(model, served)
    this.#shown.set(model, new Shown())
    this.#goOn(model, served)
    if (!this.#prompts.has(model)) this.#prompts.set(model, new PromptTally())
    return this.status(model)
  }

  /** The model is served, though perhaps no source was found for it yet: its prompts are counted from now on. One that was removed stays so. */
  announce(model: string, reason: string | undefined = nothing.reason): void {
    if (this.#prompts.has(model) || this.#searches.has(model) || this.#isClosed) return
    this.#models.set(model, { source: undefined, status: { ...nothing, reason } })
    this.#prompts.set(model, new PromptTally())
  }

  #goOn(model: string, { goOn }: Served): void {
    this.#goingOn.get(model)?.abort()
    this.#goingOn.delete(model)
    if (!goOn || this.#isClosed) return
    const stop = new AbortController()
    this.#goingOn.set(model, stop)
    const going = goOn(stop.signal).finally(() => this.#ending.delete(going))
    this.#ending.add(going)
  }

  /**
   * The model is also served by engines of another kind, which may make other tokens of the same request: those of its files by the
   * engine's rules, or what this engine says where there are none. Undefined: it is not any more.
   */
  setOther(model: string, dialect: Dialect, other: Pick<ModelSources, 'engine' | 'rules'> | undefined): void {
    const others = this.#others.get(model) ?? new Map<Dialect, OtherEngine>()
    if (!other) others.delete(dialect)
    else {
      const { engine, rules } = other
      const isAsked = engine && engine.dialect !== 'trtllm'
      others.set(dialect, {
        rules: { ...rules, dialect },
        from: engine?.url,
        engine: isAsked ? this.#engine(engine, other) : undefined,
        shown: new Shown(),
      })
    }
    this.#others.set(model, others)
  }

  removeModel(model: string): void {
    this.#others.delete(model)
    this.#goingOn.get(model)?.abort()
    this.#goingOn.delete(model)
    this.#models.delete(model)
    this.#prompts.delete(model)
    this.#shown.delete(model)
    this.#searches.set(model, this.#nextSearch++) // what still searches does not bring it back
  }

  /** The models that were set. */
  get modelNames(): readonly string[] {
    return [...this.#models.keys()]
  }

  /** The engine that is asked for the model's tokens gives none: every prompt waits for it in vain. `dialect`: for those of another kind. */
  isMute(model: string, dialect?: Dialect): boolean {
    const served = dialect === undefined ? this.#models.get(model) : this.#servedBy(model, dialect)
    return served?.source instanceof EngineTokens && served.source.trouble !== undefined
  }

  /** `dialect`: for the workers of another kind of engine, of which `setOther` told. */
  status(model: string, dialect?: Dialect): ModelStatus {
    const served = this.#models.get(model)
    const other = dialect === undefined ? undefined : this.#others.get(model)?.get(dialect)
    if (!served) return nothing
    return other ? otherStatus(served, other) : usualStatus(served, this.#shown.get(model))
  }

  /** The highest token id that the model has; undefined where no files of it are at hand. */
  idMax(model: string): number | undefined {
    const source = this.#models.get(model)?.source
    return source instanceof ModelTokens ? source.idMax : undefined
  }

  /** Whether an empty text has tokens; undefined where no files of the model are at hand. */
  fillsEmptyTexts(model: string): boolean | undefined {
    const source = this.#models.get(model)?.source
    return source instanceof ModelTokens ? source.fillsEmptyTexts : undefined
  }

  get counts(): ServiceCounts {
    return {
      tokenized: this.#tokenized,
      loadOnly: Object.fromEntries(this.#loadOnly),
      pool: this.#pool.counts,
      prompts: Object.fromEntries([...this.#prompts].map(([name, it]) => [name, it.counts])),
      models: Object.fromEntries([...this.#models].map(([name, served]) => [name, countsOf(served)])),
      others: Object.fromEntries([...this.#others].map(([name, others]) => [name, countsOfOthers(others)])),
    }
  }

  /** An engine said how many tokens a prompt had of which we made `own`. `dialect`: it is of another kind than the usual one. */
  counted(model: string, own: number, engines: number, dialect?: Dialect): void {
    this.#shownTo(model, dialect)?.counted.compare(own, engines)
    this.#prompts.get(model)?.counted.compare(own, engines)
  }

  #shownTo(model: string, dialect: Dialect | undefined): Shown | undefined {
    return dialect === undefined ? this.#shown.get(model) : this.#others.get(model)?.get(dialect)?.shown
  }

  /** A prompt of the model that was not asked for here, and why nobody could have said its tokens. */
  notAsked(model: string, reason: LoadOnlyReason, detail: string): LoadOnly {
    return this.#count(model, { loadOnly: reason, detail })
  }

  /**
   * The tokens of a request, or why it can only be balanced by load. Rejects only when `options.signal` aborts: a router must
   * be able to go on without tokens. A body that would hold the loop while it is parsed is left out, and `options.raw` read in a thread;
   * one that is handed over parsed is spelled again for that, in as many turns as it takes.
   * `dialect`: as another kind of engine makes them, of which `setOther` told.
   */
  async tokenizeRequest(
    model: string,
    route: Route,
    body: Body | undefined,
    options: TokenizeOptions = {},
    dialect?: Dialect,
  ): Promise<Tokens | LoadOnly> {
    const served = dialect === undefined ? this.#models.get(model) : this.#servedBy(model, dialect)
    if (!served?.source)
      return this.#count(model, { loadOnly: 'no-tokenizer', detail: served?.status.reason ?? nothing.reason! })
    const shown = this.#shownTo(model, dialect) // of this source: another may serve before the tokens are there
    try {
      const asked = served.rules ? { ...options, rules: served.rules } : options
      const isLong = body !== undefined && isLongBody(body, options.raw)
      const given = isLong && !options.raw ? { ...asked, raw: await spellInSlices(body, options) } : asked
      const source = withoutOwnRendered(served.source, served.own, dialect ?? served.dialect ?? 'vllm')
      const tokens = await this.#tokensFrom(source, served.engine, route, isLong ? undefined : body, given)
      this.#tokenized++
      this.#prompts.get(model)?.tokenized(tokens)
      shown?.runs.tokenized(route)
      return tokens
    } catch (error) {
      options.signal?.throwIfAborted()
      const answer = asLoadOnly(error)
      // An engine that fails is in trouble, and knows best when that is over.
      const isTold = served.source instanceof EngineTokens && answer.loadOnly === 'source-failed'
      if (!isTold) shown?.runs.loadOnly(route, answer.loadOnly)
      return this.#count(model, answer)
    }
  }

  /** Files serve every kind of engine; of an engine's tokens each kind has its own. */
  #servedBy(model: string, dialect: Dialect): Served | undefined {
    const usual = this.#models.get(model)
    const other = this.#others.get(model)?.get(dialect)
    if (!usual || !other) return undefined
    const source = usual.source instanceof EngineTokens ? other.engine : usual.source
    return { source, engine: other.engine, own: usual.own, status: usual.status, rules: other.rules }
  }

  async #tokensFrom(
    source: TokenSource,
    engine: EngineTokens | undefined,
    route: Route,
    body: Body | undefined,
    options: TokenizeOptions,
  ): Promise<Tokens> {
    try {
      return await source.tokenize(route, body, options)
    } catch (error) {
      const isOwn = error instanceof LoadOnlyError && error.reason === 'own-renderer'
      const isForEngine = isOwn || (error instanceof LoadOnlyError && isMediaReason(error.reason))
      if (!isForEngine || !engine?.placesMedia) throw error
      const tokens = await engine.tokenize(route, body, options)
      if (isOwn && !engine.placesMedia) throw error // it tokenizes by the template what it renders otherwise
      return tokens
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#models.clear()
    this.#others.clear()
    this.#prompts.clear()
    for (const stop of this.#goingOn.values()) stop.abort()
    this.#goingOn.clear()
    await Promise.all(this.#ending)
    await this.#pool.close()
  }

  #count(model: string, answer: LoadOnly): LoadOnly {
    add(this.#loadOnly, answer.loadOnly)
    this.#prompts.get(model)?.loadOnly(answer.loadOnly)
    return answer
  }

  async #findSource(model: string, sources: ModelSources, signal: AbortSignal | undefined): Promise<Served> {
    const tried: string[] = []
    for (const find of folderFinders) {
      try {
        const found = await find(sources.model ?? model, sources, signal)
        if (found) return await this.#load(model, found, sources, tried, signal)
      } catch (error) {
        signal?.throwIfAborted()
        tried.push(whyOf(error))
      }
    }
    if (!sources.engine) return { source: undefined, status: { ...nothing, tried } }
    if (sources.engine.dialect === 'trtllm') {
      return { source: undefined, status: { ...nothing, reason: trtllmTrouble, trouble: trtllmTrouble, tried } }
    }
    const status: ModelStatus = {
      source: 'engine',
      from: sources.engine.url,
      encoder: 'engine',
      reason: undefined,
      tried,
    }
    const source = this.#engine(sources.engine, sources)
    const learn = (stop: AbortSignal | undefined): Promise<boolean> =>
      source.learn(
        (templates) => this.#pool.run('parse', templates, { deadlineMs: loadDeadlineMs, signal: stop }),
        stop,
      )
    const mayPass = await learn(signal)
    signal?.throwIfAborted()
    const again = (stop: AbortSignal): Promise<void> => learnAgain(() => learn(stop), stop, this.#learnAgain)
    return { source, status, goOn: mayPass ? again : undefined }
  }

  #engine(endpoint: EngineEndpoint, { rules }: ModelSources): EngineTokens {
    return new EngineTokens(endpoint, rules, (bytes, { deadlineMs = answerDeadlineMs, signal }) =>
      this.#pool.run('answer', { bytes }, { deadlineMs, signal, transfer: wholeBuffer(bytes) }),
    )
  }

  async #load(
    model: string,
    { name, folder }: { readonly name: SourceName; readonly folder: string },
    sources: ModelSources,
    tried: readonly string[],
    signal: AbortSignal | undefined,
  ): Promise<Served> {
    const { cacheBytes, textMax, rules, engine: endpoint } = sources
    const dialect = rules?.dialect ?? 'vllm'
    const isAsked = endpoint !== undefined && endpoint.dialect !== 'trtllm'
    const compare = (source: ModelTokens): Promise<Comparison> => {
      const ours = withoutOwnRendered(source, source.ownRenderers, dialect)
      return compareWithEngine(ours, this.#engine(endpoint!, sources), model, signal)
    }
    const load = async (reading: Reading): Promise<ModelTokens> => {
      const task = { folder, key: `${folder}#${this.#nextKey++}`, reading }
      const loaded = await this.#pool.run('load', task, { deadlineMs: loadDeadlineMs, signal })
      return new ModelTokens(loaded, this.#pool, {
        ...(cacheBytes === undefined ? {} : { cacheBytes }),
        ...(textMax === undefined ? {} : { textMax }),
        ...(rules === undefined ? {} : { rules }),
      })
    }
    const { source, trouble } = await loadAsEngine({ load, compare: isAsked ? compare : undefined }, signal)
    const { plan, ownRenderers: own } = source
    const isLibrarys = plan.kind === 'library'
    const reason =
      whyOwnRendered(own, dialect) ?? (isLibrarys ? plan.reason : undefined) ?? source.unsure ?? source.templateProblem
    const engine = isAsked ? this.#engine(endpoint, sources) : undefined
    const encoder = isLibrarys ? 'library' : 'own'
    return { source, engine, own, dialect, status: { source: name, from: folder, encoder, reason, trouble, tried } }
  }
}

function countsOfOthers(others: ReadonlyMap<Dialect, OtherEngine>): Partial<Record<Dialect, ModelCounts>> {
  const asked = [...others].flatMap(([dialect, { engine }]) => (engine ? [[dialect, engine.counts] as const] : []))
  return Object.fromEntries(asked)
}

/** Without the sentence of its code, which whoever lists these says once. */
function whyOf(error: unknown): string {
  const reason = error instanceof WarmrouteError ? error.details['reason'] : undefined
  if (typeof reason === 'string') return reason
  return error instanceof Error ? error.message : String(error)
}

/** In the order in which they are looked for. */
const ranked: readonly SourceName[] = ['configured', 'folder', 'hub-cache', 'hub', 'engine', 'none']

function rankOf(source: SourceName): number {
  return ranked.indexOf(source)
}

/** An engine that is asked for media beside the model's files keeps answers, too. */
function countsOf({ source, engine }: Served): ModelCounts | undefined {
  const counts = source?.counts
  if (!counts || !engine) return counts
  const { texts: answers, ids, cacheBytes } = engine.counts
  return { ...counts, answers, ids, cacheBytes: counts.cacheBytes + cacheBytes }
}

/** The memory of bytes that have it for themselves: it need not be copied to a thread. */
function wholeBuffer({ buffer, byteLength }: Uint8Array): readonly ArrayBuffer[] {
  return buffer instanceof ArrayBuffer && buffer.byteLength === byteLength ? [buffer] : []
}
