/** The metrics of disaggregated requests, each leg by itself. Series of a worker end with it. */
import type { WorkerRank } from '../../core/protocol/index.js'
import type { Counter, Histogram, Metrics } from '../../telemetry/index.js'
import { workerLabels } from '../../telemetry/index.js'

export class PairMeters {
  readonly #metrics: Metrics
  readonly #model: string
  readonly #workers: ReadonlySet<string>
  readonly #counters = new Map<string, Counter>()
  readonly #prefill: Histogram
  readonly #transfer: Histogram
  readonly #decodeFirstToken: Histogram

  /** `workers`: who may have series now. */
  constructor(metrics: Metrics, model: string, workers: ReadonlySet<string>) {
    this.#metrics = metrics
    this.#model = model
    this.#workers = workers
    this.#prefill = metrics.prefillLegSeconds.with({ model })
    this.#transfer = metrics.kvTransferSeconds.with({ model })
    this.#decodeFirstToken = metrics.decodeLegFirstToken.with({ model })
  }

  prefillEnded({ workerId, dpRank }: WorkerRank, ms: number, promptTokens: number): void {
    this.#prefillLeg(String(workerId), 'completed')
    this.#prefill.observe(ms / 1000)
    if (!this.#workers.has(String(workerId))) return
    const labels = workerLabels(workerId, String(dpRank), 'prefill')
    this.#metrics.workerLastTimeToFirstToken.set(labels, ms / 1000)
    this.#metrics.workerLastInputSequenceTokens.set(labels, promptTokens)
  }

  prefillFailed(worker: string): void {
    this.#prefillLeg(worker, 'failed')
  }

  /** A decode was sent; `skipped` says why its prompt was not computed elsewhere. */
  decodeSent(worker: string, skipped: string | undefined): void {
    const prefill = skipped === undefined ? 'remote' : 'local'
    if (this.#workers.has(worker))
      this.#counter(`decode/${prefill}/${worker}`, () =>
        this.#metrics.decodeLegs.with({ model: this.#model, worker, prefill }),
      ).inc()
    if (skipped !== undefined) this.skipped(skipped)
  }

  /** From the decode's dispatch; the transfer is at most what lies between the prefill's answer and the first token. */
  firstToken(sinceDispatchMs: number, sincePrefillMs: number | undefined): void {
    this.#decodeFirstToken.observe(sinceDispatchMs / 1000)
    if (sincePrefillMs !== undefined) this.#transfer.observe(Math.max(0, sincePrefillMs) / 1000)
  }

  /** A decode that would have come after the lease: its prefill is made again. */
  leaseMissed(): void {
    this.#counter('lease', () => this.#metrics.prefillLeaseMissed.with({ model: this.#model })).inc()
  }

  /**
   * Held KV that nobody decoded from: read and thrown away, left to the end of its lease, or left to the decode worker that
   * was sent for it and failed, which tells the prefill worker so or cannot: then the lease ends it too.
   */
  released(how: 'read' | 'lease' | 'decode_failed'): void {
    this.#counter(`released/${how}`, () => this.#metrics.heldKvReleased.with({ model: this.#model, how })).inc()
  }

  /** The prefill ended the answer, and nothing was decoded. */
  answered(): void {
    this.#counter('answered', () => this.#metrics.prefillAnswers.with({ model: this.#model })).inc()
  }

  forget(worker: string): void {
    const labels = { model: this.#model, worker }
    for (const outcome of ['completed', 'failed']) this.#metrics.prefillLegs.remove({ ...labels, outcome })
    for (const prefill of ['remote', 'local']) this.#metrics.decodeLegs.remove({ ...labels, prefill })
    for (const key of this.#counters.keys()) if (key.endsWith(`/${worker}`)) this.#counters.delete(key)
  }

  skipped(reason: string): void {
    this.#counter(`skipped/${reason}`, () =>
      this.#metrics.remotePrefillSkipped.with({ model: this.#model, reason }),
    ).inc()
  }

  #prefillLeg(worker: string, outcome: string): void {
    if (!this.#workers.has(worker)) return
    this.#counter(`prefill/${outcome}/${worker}`, () =>
      this.#metrics.prefillLegs.with({ model: this.#model, worker, outcome }),
    ).inc()
  }

  #counter(key: string, make: () => Counter): Counter {
    let counter = this.#counters.get(key)
    if (!counter) this.#counters.set(key, (counter = make()))
    return counter
  }
}
