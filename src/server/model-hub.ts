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
    for (const [name] of namesOf(before)) if (!now.has(name) && this.#isUntold(name, model)) this.#forget(name)
    for (const [name, { away }] of this.#names) if (away?.workerId === spec.id && !now.has(name)) this.#forget(name)
    const taken: string[] = []
    for (const [name, loraName] of now) {
      const known = this.#names.get(name)
      if (!known) this.#names.set(name, { model, loraName, isLent: true, away: undefined })
      else if (known.model === model) known.away = undefined
      else if (known.away) this.#names.set(name, { model, loraName, isLent: true, away: undefined })
      else taken.push(name)
    }
    return taken
  }

  /** A worker is not in any more; it may come back. */
  left(model: Model, spec: WorkerSpec): void {
    for (const [name] of namesOf(spec)) {
      if (!this.#isUntold(name, model)) continue
      const heir = this.#otherTeller(name, model)
      if (heir) this.#names.set(name, heir)
      else this.#names.get(name)!.away ??= { workerId: spec.id, atMs: this.#now() }
    }
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
    if (!known?.away || known.model.fleet.size === 0 || this.#now() - known.away.atMs < awayMs) return known
    this.#names.delete(name)
    return undefined
  }

  #isUntold(name: string, model: Model): boolean {
    const known = this.#names.get(name)
    return known?.model === model && known.isLent && !tellerOf(model, name)
  }

  #forget(name: string): void {
    const heir = this.#otherTeller(name, this.#names.get(name)!.model)
    if (heir) this.#names.set(name, heir)
    else this.#names.delete(name)
  }

  /** Another model that wanted the name, and may have it now. */
  #otherTeller(name: string, except: Model): Known | undefined {
    for (const model of this.#models.values()) {
      if (model === except) continue
      const spec = tellerOf(model, name)
      if (spec) return { model, loraName: namesOf(spec).get(name), isLent: true, away: undefined }
    }
    return undefined
  }
}

function tellerOf({ fleet }: Model, name: string): WorkerSpec | undefined {
  for (const { spec } of fleet.all()) if (spec.aliases?.includes(name) || spec.adapters?.includes(name)) return spec
  return undefined
}

/** With the adapter that each means. Who only prefills answers no client, under whatever name. */
function namesOf({ aliases = [], adapters = [], role }: Told = {}): ReadonlyMap<string, string | undefined> {
  if (role === 'prefill') return noNames
  const names = new Map<string, string | undefined>(aliases.map((alias) => [alias, undefined]))
  for (const adapter of adapters) names.set(adapter, adapter)
  return names
}

const noNames: ReadonlyMap<string, undefined> = new Map()
