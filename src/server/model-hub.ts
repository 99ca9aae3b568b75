/**
 * Which model a name means. Names, aliases and adapters that a model was added with are reserved across all models: a taken one is
 * refused. Those that its workers tell are lent: a model that is added with one takes it, and they go with the last who tells them.
 *
 *   told ──its last teller was seen without it──────────────► unknown
 *     └───its last teller left──► away ──`awayMs`, with others of the model in──► unknown
 *
 * A worker leaves within a second of refused connections, and most come back: a name that is away is not listed, and not denied.
 */
import { WarmrouteError } from '../core/protocol/index.js'
import type { Model } from './model.js'
import type { ModelSpec, WorkerSpec } from './options.js'

export interface Resolved {
  readonly model: Model
  readonly loraName: string | undefined
}

interface Known extends Resolved {
  /** A worker told it, after the model was added. */
  readonly isLent: boolean
  /** Nobody who is in tells it, since then. */
  away: { readonly workerId: bigint; readonly atMs: number } | undefined
}

type Told = Pick<WorkerSpec, 'aliases' | 'adapters' | 'role'>

export const awayMs = 30_000

export class ModelHub {
  readonly #models = new Map<string, Model>()
  readonly #names = new Map<string, Known>()
  readonly #now: () => number

  constructor(now: () => number) {
    this.#now = now
  }

  get size(): number {
    return this.#models.size
  }

  /** Those that are remembered, whether or not they are told now. */
  get nameCount(): number {
    return this.#names.size
  }

  all(): IterableIterator<Model> {
    return this.#models.values()
  }

  /** Those that are told now, by whoever may serve or not. */
  *names(): Generator<[string, Resolved]> {
    for (const [name, known] of this.#names) if (!known.away) yield [name, known]
  }

  get(name: string): Model | undefined {
    return this.#models.get(name)
  }

  /** Throws `WR_INVALID_CONFIG` when one of its names is taken. */
  requireFree({ name, aliases = [], adapters = [] }: Pick<ModelSpec, 'name' | 'aliases' | 'adapters'>): void {
    for (const wanted of [name, ...aliases, ...adapters])
      if (this.#isReserved(wanted))
        throw new WarmrouteError('WR_INVALID_CONFIG', { reason: `the name ${wanted} belongs to another model` })
  }

  /** Its names are free. */
  add(model: Model): void {
    const { name, aliases = [], adapters = [] } = model.spec
    this.#models.set(name, model)
    const own = { model, isLent: false, away: undefined }
    for (const it of [name, ...aliases]) this.#names.set(it, { ...own, loraName: undefined })
    for (const adapter of adapters) this.#names.set(adapter, { ...own, loraName: adapter })
  }

  /** A worker, which is in, tells its names; `before`: what it told until now. Those of other models stay theirs, and are answered. */
  told(model: Model, spec: WorkerSpec, before: Told | undefined): readonly string[] {
    const now = namesOf(spec)
    const dropped = [...namesOf(before).keys()].filter((name) => !now.has(name))
    this.#letGo(dropped, model, (name) => void this.#names.delete(name))
    for (const [name, known] of this.#names)
      if (known.away?.workerId === spec.id || this.#isOver(known)) this.#names.delete(name) // or it is told again, below
    const taken: string[] = []
    const changed: string[] = []
    for (const [name, loraName] of now) {
      const known = this.#names.get(name)
      if (!known || known.away) this.#names.set(name, { model, loraName, isLent: true, away: undefined })
      else if (known.model !== model) taken.push(name)
      else if (known.loraName !== loraName) changed.push(name)
    }
    this.#letGo(changed, model, () => {})
    return taken
  }

  /** A worker is not in any more; it may come back. */
  left(model: Model, spec: WorkerSpec): void {
    const away = { workerId: spec.id, atMs: this.#now() }
    this.#letGo([...namesOf(spec).keys()], model, (name) => void (this.#names.get(name)!.away = away))
  }

  /** Whoever told it has left, and may come back. */
  isAway(name: string): boolean {
    return this.#find(name)?.away !== undefined
  }

  /** By any of a model's names. */
  knows(name: string): boolean {
    return this.#find(name) !== undefined
  }

  /** The model of a name. */
  find(name: string): Model | undefined {
    return this.#find(name)?.model
  }

  /** Without a name the only model is meant, as engines do; with several it must be named. */
  resolve(name: unknown): Resolved {
    if (name === undefined || name === null || name === '') {
      const only = this.#models.size === 1 ? this.#models.values().next().value : undefined
      if (only) return { model: only, loraName: undefined }
      throw new WarmrouteError('WR_INVALID_BODY', { message: 'the field model is missing', param: 'model' })
    }
    if (typeof name !== 'string')
      throw new WarmrouteError('WR_INVALID_BODY', { message: 'the field model must be a text', param: 'model' })
    const resolved = this.#find(name)
    if (!resolved) throw new WarmrouteError('WR_MODEL_NOT_FOUND', { param: 'model' })
    return resolved
  }

  #isReserved(name: string): boolean {
    const known = this.#names.get(name)
    return known !== undefined && !known.isLent
  }

  /** While a model has nobody, nobody says what it is not called. */
  #find(name: string): Known | undefined {
    const known = this.#names.get(name)
    return known && this.#isOver(known) ? undefined : known
  }

  #isOver({ away, model }: Known): boolean {
    return away !== undefined && model.fleet.size > 0 && this.#now() - away.atMs >= awayMs
  }

  /** Names of a model that a worker does not tell any more, or not as before: whoever still does says what they mean, its own model first. */
  #letGo(names: readonly string[], own: Model, untold: (name: string) => void): void {
    const open = new Set(names.filter((name) => this.#isLentTo(name, own)))
    if (open.size === 0) return
    for (const model of new Set([own, ...this.#models.values()]))
      for (const { spec } of model.fleet.all())
        for (const [name, loraName] of namesOf(spec))
          if (open.delete(name)) this.#names.set(name, { model, loraName, isLent: true, away: undefined })
    for (const name of open) untold(name)
  }

  #isLentTo(name: string, model: Model): boolean {
    const known = this.#names.get(name)
    return known?.model === model && known.isLent
  }
}

/** With the adapter that each means. Who only prefills answers no client, under whatever name. */
function namesOf({ aliases = [], adapters = [], role }: Told = {}): ReadonlyMap<string, string | undefined> {
  if (role === 'prefill') return noNames
  const names = new Map<string, string | undefined>(aliases.map((alias) => [alias, undefined]))
  for (const adapter of adapters) names.set(adapter, adapter)
  return names
}

const noNames: ReadonlyMap<string, undefined> = new Map()
