/**
 * The load monitor alive: listens to load reports and to who exists, keeps the set of busy workers, and ends the gauges of
 * workers that left. Follows lib/llm/src/discovery/worker_monitor.rs at v1.1.0 (and v1.0.2 by `version`), with its sharp
 * edges taken off: a load stream that ends is opened again, and the busy set survives a refresh of the fleet.
 *
 * Where its facts come from is a port: our own tracker, polls of the engines' metrics, or an event plane.
 */
import type { ActiveLoad, LoadThresholds, MonitorVersion, ThresholdChange, WorkerCapacity } from '../core/load/index.js'
import { LoadMonitor } from '../core/load/index.js'
import type { WorkerType } from '../telemetry/index.js'

/** Something that changes and can be asked at any time. */
export interface Watched<Value> {
  current(): Value
  /** Called after every change; `onClosed` once when there will be no more. Returns the way to stop. */
  watch(onChange: () => void, onClosed?: () => void): () => void
}

export interface WorkerMonitorPorts {
  /** Opens the watch on runtime configs. A failure is the caller's, and monitoring may be started again. */
  readonly openFleet: (signal: AbortSignal) => Promise<Watched<ReadonlyMap<bigint, WorkerCapacity>>>
  /** Opens the stream of load reports. Without it only clean-up is done. */
  readonly openLoads?: ((signal: AbortSignal) => AsyncIterable<ActiveLoad>) | undefined
  /** Workers that serve requests. */
  readonly instances: Watched<ReadonlySet<bigint>>
  /** A worker left one of its two roles: its gauges end. */
  readonly removeGauges: (workerId: bigint, dpRanks: readonly number[], type: WorkerType) => void
  readonly warn: (fields: Record<string, unknown>, sentence: string) => void
  /** Waits; resolves early when the signal fires. */
  readonly pause: (ms: number, signal: AbortSignal) => Promise<void>
}

export interface WorkerMonitorOptions {
  readonly version?: MonitorVersion
  readonly thresholds?: LoadThresholds
  /** True: a request is refused only when every instance is busy, as upstream does. False: busy workers are left out one by one. */
  readonly isAllOrNothing?: boolean
}

const retryMs = { first: 100, last: 5_000 }

export class WorkerMonitor {
  readonly #ports: WorkerMonitorPorts
  readonly #isAllOrNothing: boolean
  readonly #state: LoadMonitor
  readonly #listeners = new Set<(busy: ReadonlySet<bigint>) => void>()
  readonly #stop = new AbortController()
  #running: Promise<void> | undefined
  #prefill: { readonly stop: () => void } | undefined
  #resubscriptions = 0

  constructor(ports: WorkerMonitorPorts, options: WorkerMonitorOptions = {}) {
    this.#ports = ports
    this.#isAllOrNothing = options.isAllOrNothing ?? false
    this.#state = new LoadMonitor({
      ...(options.version ? { version: options.version } : {}),
      ...(options.thresholds ? { thresholds: options.thresholds } : {}),
    })
  }

  get thresholds(): LoadThresholds {
    return this.#state.thresholds
  }

  get isConfigured(): boolean {
    return this.#state.isConfigured
  }

  get busyWorkers(): ReadonlySet<bigint> {
    return this.#state.busyWorkers
  }

  /** How often the load stream had to be opened again. */
  get resubscriptions(): number {
    return this.#resubscriptions
  }

  /** Workers that selection must leave out now. With the all-or-nothing gate it leaves out nobody. */
  excludedWorkers(): ReadonlySet<bigint> {
    return this.#isAllOrNothing ? new Set() : this.#state.busyWorkers
  }

  /** True: no worker may take a request. An empty fleet is not a busy one. */
  isEveryoneBusy(): boolean {
    const instances = this.#ports.instances.current()
    if (instances.size === 0) return false
    for (const workerId of instances) if (!this.#state.isBusy(workerId)) return false
    return true
  }

  /** Numbers set a limit, null takes it back, and every worker is judged again at once. */
  setThresholds(change: ThresholdChange): void {
    if (this.#state.setThresholds(change)) this.#publish()
  }

  /** Called with the busy set now, and whenever it changes. Returns the way to stop. */
  onBusy(listener: (busy: ReadonlySet<bigint>) => void): () => void {
    this.#listeners.add(listener)
    listener(this.#state.busyWorkers)
    return () => void this.#listeners.delete(listener)
  }

  /** A report from a source that is not a stream, such as a poll. */
  report(load: ActiveLoad): void {
    if (this.#state.report(load)) this.#publish()
  }

  /** Starts once, however many callers share the monitor. If the fleet cannot be watched it fails, and may be started again. */
  async start(): Promise<void> {
    if (this.#running || this.#stop.signal.aborted) return
    let settle: () => void = () => {}
    this.#running = new Promise((resolve) => (settle = resolve))
    try {
      const fleet = await this.#ports.openFleet(this.#stop.signal)
      void this.#run(fleet)
        .catch((error: unknown) => {
          this.#running = undefined
          this.#ports.warn({ error: String(error) }, 'monitoring of workers failed')
        })
        .finally(settle)
    } catch (error) {
      this.#running = undefined
      settle()
      throw error
    }
  }

  /** Prefill workers are watched too; a watch that closed is armed again by the next call. */
  setPrefillInstances(instances: Watched<ReadonlySet<bigint>>): void {
    if (this.#prefill || this.#stop.signal.aborted) return
    this.#prefill = { stop: this.#watchInstances(instances, 'prefill', () => (this.#prefill = undefined)) }
  }

  async close(): Promise<void> {
    this.#stop.abort()
    this.#prefill?.stop()
    this.#listeners.clear()
    await this.#running
  }

  async #run(fleet: Watched<ReadonlyMap<bigint, WorkerCapacity>>): Promise<void> {
    const { signal } = this.#stop
    const stops: (() => void)[] = []
    try {
      this.#reconcile(fleet.current())
      stops.push(fleet.watch(() => this.#reconcile(fleet.current())))
      stops.push(this.#watchInstances(this.#ports.instances, 'decode'))
      if (this.#ports.openLoads) await this.#followLoads(this.#ports.openLoads, signal)
      else {
        this.#ports.warn({}, 'no stream of load reports, busy detection has only what is reported directly')
        await aborted(signal)
      }
    } finally {
      for (const stop of stops) stop()
    }
  }

  async #followLoads(open: (signal: AbortSignal) => AsyncIterable<ActiveLoad>, signal: AbortSignal): Promise<void> {
    for (let wait = retryMs.first; !signal.aborted; wait = Math.min(2 * wait, retryMs.last)) {
      try {
        for await (const load of open(signal)) {
          if (signal.aborted) return
          wait = retryMs.first
          this.report(load)
        }
        if (!signal.aborted) this.#ports.warn({ retry_ms: wait }, 'the stream of load reports ended, opening it again')
      } catch (error) {
        if (!signal.aborted)
          this.#ports.warn(
            { retry_ms: wait, error: String(error) },
            'the stream of load reports failed, opening it again',
          )
      }
      if (signal.aborted) return
      this.#resubscriptions++
      await this.#ports.pause(wait, signal)
    }
  }

  #reconcile(fleet: ReadonlyMap<bigint, WorkerCapacity>): void {
    const before = new Set(this.#state.busyWorkers)
    // Which role it had is unknown here, so both end.
    for (const { workerId, dpRanks } of this.#state.reconcile(fleet))
      for (const type of ['decode', 'prefill'] as const) this.#ports.removeGauges(workerId, dpRanks, type)
    if (!sameSet(before, this.#state.busyWorkers)) this.#publish()
  }

  #watchInstances(instances: Watched<ReadonlySet<bigint>>, type: WorkerType, onClosed?: () => void): () => void {
    let known = new Set(instances.current())
    return instances.watch(() => {
      const now = new Set(instances.current())
      for (const workerId of known) {
        if (now.has(workerId)) continue
        const dpRanks = this.#state.ranksOf(workerId)
        this.#ports.removeGauges(workerId, dpRanks.length > 0 ? dpRanks : [0], type)
      }
      known = now
    }, onClosed)
  }

  #publish(): void {
    for (const listener of this.#listeners) listener(this.#state.busyWorkers)
  }
}

function sameSet(a: ReadonlySet<bigint>, b: ReadonlySet<bigint>): boolean {
  if (a.size !== b.size) return false
  for (const item of a) if (!b.has(item)) return false
  return true
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}
