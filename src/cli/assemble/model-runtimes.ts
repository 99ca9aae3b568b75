/** The routers of a running assembly: one per model, among those that decode it, and one per pool of its prefill workers. */
import type { EngineFacts } from '../../engines/index.js'
import { namesPairs } from '../../engines/index.js'
import type { ImageReading } from '../../events/index.js'
import type { RouterPort } from '../../routing/index.js'
import { prefillRouterConfig } from '../../routing/index.js'
import type { DisaggSpec, PrefillPool } from '../../server/index.js'
import { prefillPoolOf } from '../../server/index.js'
import { conditionalOf, nameOf, transferOf } from './joined.js'
import type { ModelRuntimeOptions } from './model-runtime.js'
import { ModelRuntime } from './model-runtime.js'
import type { WorkerKeeper } from './worker-keeper.js'

export interface ModelRuntimesOptions
  extends Omit<ModelRuntimeOptions, 'name' | 'blockSize' | 'isEagle' | 'workerType'> {
  readonly enforceDisagg: boolean
  readonly prefillFallback: boolean
  /** A model has its router now; called once per model, before anybody gets the runtime. */
  readonly onModel: (runtime: ModelRuntime, facts: EngineFacts, disagg: DisaggSpec) => void
}

const blockSizeUnknown = 16

export class ModelRuntimes {
  readonly #options: ModelRuntimesOptions
  readonly #models = new Map<string, Promise<ModelRuntime>>()
  /** By model and pool. */
  readonly #prefills = new Map<string, Promise<ModelRuntime>>()
  /** Those of the promises above that were kept. */
  readonly #ready = new Set<ModelRuntime>()
  #bookingsLeft = 0

  constructor(options: ModelRuntimesOptions) {
    this.#options = options
  }

  has(name: string): boolean {
    return this.#models.has(name)
  }

  /** Of the model that the engine serves, made for the first one that serves it. `name`: what it is called here. */
  of(facts: EngineFacts, name: string = nameOf(facts)): Promise<ModelRuntime> {
    let runtime = this.#models.get(name)
    if (!runtime) {
      runtime = this.#create(name, facts)
      this.#models.set(name, runtime)
      runtime.catch(() => this.#models.delete(name)) // the next look tries again
    }
    return runtime
  }

  prefillOf(keeper: WorkerKeeper, facts: EngineFacts, main: ModelRuntime): Promise<ModelRuntime> {
    const blockSize = facts.blockSize?.value
    const transfer = transferOf(keeper, facts)
    const spec = { id: keeper.id, url: keeper.address.url, engine: facts.kind.value, transfer, blockSize }
    return this.#prefill(main.name, prefillPoolOf(spec, main.blockSize), main.isEagle)
  }

  /** What is known of every rank, read as it is asked for. */
  *images(): Iterable<ImageReading> {
    for (const runtime of this.#ready) yield* runtime.images()
  }

  /** Requests, tokens and blocks that were still booked with a router when it was closed: 0, or a request was lost. */
  get bookingsLeft(): number {
    return this.#bookingsLeft
  }

  /** When no request runs any more. */
  async close(): Promise<void> {
    const all = await Promise.allSettled([...this.#models.values(), ...this.#prefills.values()])
    for (const runtime of all) if (runtime.status === 'fulfilled') await this.#end(runtime.value)
  }

  async #end(runtime: ModelRuntime): Promise<void> {
    for (const { activeRequests, activePrefillTokens, activeDecodeBlocks } of await runtime.port.loads())
      this.#bookingsLeft += activeRequests + activePrefillTokens + activeDecodeBlocks
    await runtime.close()
  }

  async #create(name: string, facts: EngineFacts): Promise<ModelRuntime> {
    const blockSize = facts.blockSize?.value ?? blockSizeUnknown
    const isEagle = namesPairs(facts)
    const runtime = await ModelRuntime.create({ ...this.#options, name, blockSize, isEagle })
    try {
      this.#options.onModel(runtime, facts, this.#disaggOf(name, isEagle))
    } catch (error) {
      await runtime.close() // one of its names is taken
      throw error
    }
    this.#ready.add(runtime)
    return runtime
  }

  /** The router among prefill workers: the decode router's settings, without what only decoding needs. */
  #prefill(name: string, { identity, blockSize }: PrefillPool, isEagle: boolean): Promise<ModelRuntime> {
    const key = `${name}\0${identity}`
    let runtime = this.#prefills.get(key)
    if (!runtime) {
      const config = prefillRouterConfig(this.#options.config)
      runtime = ModelRuntime.create({ ...this.#options, config, name, blockSize, isEagle, workerType: 'prefill' })
      this.#prefills.set(key, runtime)
      runtime.then(
        (it) => this.#ready.add(it),
        () => this.#prefills.delete(key),
      )
    }
    return runtime
  }

  async #closePrefill(port: RouterPort): Promise<void> {
    for (const [key, promise] of this.#prefills) {
      const runtime = await promise.catch(() => undefined) // one that could not be made is nobody's port
      if (runtime?.port !== port) continue
      this.#prefills.delete(key)
      this.#ready.delete(runtime)
      await this.#end(runtime)
    }
  }

  #disaggOf(name: string, isEagle: boolean): DisaggSpec {
    const { config, enforceDisagg, prefillFallback } = this.#options
    return {
      enforce: enforceDisagg,
      fallsBack: prefillFallback,
      conditional: config.conditionalDisaggEnabled ? conditionalOf(config) : undefined,
      openPrefill: async (pool) => (await this.#prefill(name, pool, isEagle)).port,
      closePrefill: (port) => this.#closePrefill(port),
    }
  }
}
