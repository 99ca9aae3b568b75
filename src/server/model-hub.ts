/**
 * Which model a name means. Names, aliases and adapters that a model was added with are reserved across all models: a taken one is
 * refused. Those that its workers told later are lent: a model that is added with one takes it.
 */
import { WarmrouteError } from '../core/protocol/index.js'
import type { Model } from './model.js'
import type { ModelSpec, WorkerSpec } from './options.js'

export interface Resolved {
  readonly model: Model
  readonly loraName: string | undefined
  /** A worker told it, after the model was added. */
  readonly isLent?: boolean
}

export class ModelHub {
  readonly #models = new Map<string, Model>()
  readonly #names = new Map<string, Resolved>()

  get size(): number {
    return this.#models.size
  }

  all(): IterableIterator<Model> {
    return this.#models.values()
  }

  names(): IterableIterator<[string, Resolved]> {
    return this.#names.entries()
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
    for (const own of [name, ...aliases]) this.#names.set(own, { model, loraName: undefined })
    for (const adapter of adapters) this.#names.set(adapter, { model, loraName: adapter })
  }

  /** A worker has told more names. Those of other models stay theirs, and are answered. */
  learn(model: Model, { aliases = [], adapters = [] }: Pick<WorkerSpec, 'aliases' | 'adapters'>): readonly string[] {
    const taken: string[] = []
    const learn = (name: string, loraName: string | undefined): void => {
      const known = this.#names.get(name)
      if (!known) this.#names.set(name, { model, loraName, isLent: true })
      else if (known.model !== model) taken.push(name)
    }
    for (const alias of aliases) learn(alias, undefined)
    for (const adapter of adapters) learn(adapter, adapter)
    return taken
  }

  #isReserved(name: string): boolean {
    const known = this.#names.get(name)
    return known !== undefined && known.isLent !== true
  }

  /** By any of a model's names. */
  knows(name: string): boolean {
    return this.#names.has(name)
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
    const resolved = this.#names.get(name)
    if (!resolved) throw new WarmrouteError('WR_MODEL_NOT_FOUND', { param: 'model' })
    return resolved
  }
}
