/**
 * KV that one prefill left at its worker for a reader: the right to read it, and that its worker stays for as long as
 * somebody may. A worker that drains waits for the first token of who reads, or for the end of the lease.
 */
import { TransferTicket } from '../../core/prefill/index.js'
import type { Connector } from '../../engines/index.js'
import { leaseMarginMs, leaseMsOf } from '../../engines/index.js'
import type { Worker } from '../workers/worker.js'
import type { PrefillAnswer } from './prefill-leg.js'

export class HeldKv {
  readonly ticket: TransferTicket
  /** What the decode is told; undefined: it needs to be told nothing. */
  readonly params: string | undefined
  readonly #letGo: () => void
  #timer: NodeJS.Timeout | undefined

  constructor(worker: Worker, connector: Connector, answer: PrefillAnswer, params: string | undefined) {
    const leaseMs = worker.spec.transfer?.leaseMs ?? leaseMsOf(connector, undefined)
    const marginMs = leaseMs === undefined ? 0 : leaseMarginMs(leaseMs)
    this.ticket = new TransferTicket({ heldFromMs: answer.notBeforeMs, leaseMs, marginMs })
    this.params = params
    this.#letGo = params === undefined ? () => {} : worker.hold()
    if (params !== undefined && leaseMs !== undefined) this.#timer = setTimeout(() => this.letGo(), leaseMs).unref()
  }

  /** Somebody was sent to read it, whatever became of that. */
  get isUsed(): boolean {
    return this.params !== undefined && this.ticket.isUsed
  }

  /** Nobody reads it any more, or nobody will: its worker may leave. Safe to repeat. */
  letGo(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#letGo()
  }
}
