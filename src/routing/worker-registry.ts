/** The workers that somebody told us of, as something a router can watch. Discovery writes into it, or a person does. */
import type { WorkerConfig } from '../core/protocol/index.js'
import { validateWorkerConfig } from '../core/protocol/index.js'
import type { RuntimeConfigWatch } from './boot-wait.js'

export class WorkerRegistry implements RuntimeConfigWatch {
  #configs: ReadonlyMap<bigint, WorkerConfig>
  #isClosed = false
  readonly #watchers = new Set<{ readonly onChange: () => void; readonly onClosed?: (() => void) | undefined }>()

  constructor(configs: Iterable<readonly [bigint, WorkerConfig]> = []) {
    this.#configs = new Map(configs)
    for (const config of this.#configs.values()) validateWorkerConfig(config)
  }

  current(): ReadonlyMap<bigint, WorkerConfig> {
    return this.#configs
  }

  watch(onChange: () => void, onClosed?: () => void): () => void {
    const watcher = { onChange, onClosed }
    this.#watchers.add(watcher)
    if (this.#isClosed) onClosed?.()
    return () => void this.#watchers.delete(watcher)
  }

  /** Throws `WR_INVALID_ARGUMENT` for facts that no worker can have. */
  set(workerId: bigint, config: WorkerConfig): void {
    validateWorkerConfig(config)
    this.#replace(new Map(this.#configs).set(workerId, config))
  }

  remove(workerId: bigint): void {
    if (!this.#configs.has(workerId)) return
    const configs = new Map(this.#configs)
    configs.delete(workerId)
    this.#replace(configs)
  }

  /** There will be no more changes. */
  close(): void {
    this.#isClosed = true
    for (const { onClosed } of this.#watchers) onClosed?.()
  }

  #replace(configs: ReadonlyMap<bigint, WorkerConfig>): void {
    this.#configs = configs
    for (const { onChange } of this.#watchers) onChange()
  }
}
