/**
 * A router that writes down everything it is told, in the order in which it is told it, with the lots it drew and the
 * durations that were predicted for it. What it decides is written as well, so that a replay can say where it first differs.
 *
 * A custom selector must be a function of its arguments. What reaches the index around the router is not seen here.
 */
import type {
  HashColumn,
  MatchColumns,
  Rank,
  RouterEvent,
  WarmrouteError,
  WorkerConfig,
  WorkerRank,
} from '../protocol/index.js'
import type { DecisionOutcome, EventOutcome, TieredBatch } from '../index/index.js'
import type { ReplicaOutcome, SequenceEvent } from '../sequences/index.js'
import { ByteWriter } from './byte-codec.js'
import type { Decision, Dispatch, Picked, Refused } from './decision.js'
import { keepMatches } from './kept-matches.js'
import { writeBatch } from './log-batch.js'
import type { Opcode } from './log-format.js'
import { opcodes, writeEvent, writeList, writeOptional, writePair, writeRequest, writeWorker } from './log-format.js'
import { writeHeader } from './log-header.js'
import { writeReplicaEvent } from './log-replica.js'
import type { Moment } from './moment.js'
import { writeOutcome } from './outcome-code.js'
import type { ParkedRequest } from './parked-request.js'
import type { RouterCoreOptions, RouterInputs, WorkerFlags } from './router-core.js'
import { RouterCore } from './router-core.js'
import type { SchedulingRequest } from './scheduling-request.js'

/** Gets the log in pieces; a piece ends where a record does. When it throws, the log ends there and the router goes on. */
export type LogSink = (bytes: Uint8Array) => void

/** Pieces of at least this size: a log is written to a file, not byte by byte. */
const pieceBytes = 64 * 1024

export class RecordingRouter implements RouterInputs {
  readonly core: RouterCore
  readonly #to = new ByteWriter()
  readonly #sink: LogSink
  readonly #numbers = new WeakMap<ParkedRequest, number>()
  #parkedCount = 0
  #answers: number[] = []
  #isOver = false

  constructor(options: RouterCoreOptions, sink: LogSink) {
    const { estimatePrefill: estimate } = options
    this.core = new RouterCore({
      ...options,
      estimatePrefill:
        estimate &&
        ((tokens, cached) => {
          let durationMs: number | undefined
          try {
            return (durationMs = estimate(tokens, cached))
          } finally {
            this.#answers.push(durationMs ?? Number.NaN) // also of one that threw: answers are read back in order
          }
        }),
    })
    this.#sink = sink
    writeHeader(this.#to, options)
  }

  /** Why the log ended early: the sink threw. */
  failure: unknown = undefined

  /** Hands the rest to the sink. */
  flush(): void {
    if (this.#to.length === 0) return
    const piece = this.#to.take()
    if (this.failure !== undefined) return
    try {
      this.#sink(piece)
    } catch (error) {
      this.#isOver = true
      this.failure = error ?? new Error('the sink failed')
    }
  }

  setWorker(workerId: bigint, config: WorkerConfig, moment: Moment): void {
    this.#record(
      'setWorker',
      moment,
      (inner) => this.core.setWorker(workerId, config, inner),
      () => {
        this.#to.u64(workerId)
        writeWorker(this.#to, config)
      },
    )
  }

  removeWorker(workerId: bigint, moment: Moment): void {
    this.#record(
      'removeWorker',
      moment,
      (inner) => this.core.removeWorker(workerId, inner),
      () => this.#to.u64(workerId),
    )
  }

  reconcileWorkers(configs: ReadonlyMap<bigint, WorkerConfig>, moment: Moment): void {
    this.#record(
      'reconcileWorkers',
      moment,
      (inner) => this.core.reconcileWorkers(configs, inner),
      () =>
        writeList(this.#to, configs, ([workerId, config]) => {
          this.#to.u64(workerId)
          writeWorker(this.#to, config)
        }),
    )
  }

  registerWorkers(workerIds: Iterable<bigint>, moment: Moment): void {
    const ids = [...workerIds]
    this.#record(
      'registerWorkers',
      moment,
      (inner) => this.core.registerWorkers(ids, inner),
      () => writeList(this.#to, ids, (it) => this.#to.u64(it)),
    )
  }

  setFlags(flags: WorkerFlags, moment: Moment): void {
    this.#record(
      'setFlags',
      moment,
      (inner) => this.core.setFlags(flags, inner),
      () => {
        for (const ids of [flags.available, flags.overloaded])
          writeOptional(this.#to, ids, (set) => writeList(this.#to, set, (it) => this.#to.u64(it)))
      },
    )
  }

  applyEvents(events: readonly RouterEvent[]): readonly EventOutcome[] {
    return this.#record(
      'applyEvents',
      timeless,
      () => this.core.applyEvents(events),
      () => writeList(this.#to, events, (it) => writeEvent(this.#to, it)),
    )
  }

  applyBatch(batch: TieredBatch): void {
    this.#record(
      'applyBatch',
      timeless,
      () => this.core.applyBatch(batch),
      () => writeBatch(this.#to, batch),
    )
  }

  setWithheld(rank: Rank, isWithheld: boolean): void {
    this.#record(
      'setWithheld',
      timeless,
      () => this.core.setWithheld(rank, isWithheld),
      () => {
        this.#to.number(rank)
        this.#to.byte(isWithheld ? 1 : 0)
      },
    )
  }

  decide(request: SchedulingRequest, moment: Moment, matches?: MatchColumns): Decision {
    // Columns that this router's own index has just filled follow from the log; others are an input.
    const isOwn = matches === undefined || (matches === this.core.matches && this.core.index !== undefined)
    const decision = this.#record(
      'decide',
      moment,
      (inner) => this.core.decide(request, inner, matches),
      () => {
        writeRequest(this.#to, request)
        this.#writeMatches(isOwn ? undefined : matches)
      },
      (it) => writeOutcome(this.#to, it),
    )
    if (decision.kind === 'parked') this.#numbers.set(decision.parked, this.#parkedCount++)
    return decision
  }

  place(parked: ParkedRequest, matches: MatchColumns | undefined, moment: Moment): Picked | Refused {
    return this.#record(
      'place',
      moment,
      (inner) => this.core.place(parked, matches, inner),
      () => {
        this.#to.count(this.#numbers.get(parked)!)
        this.#writeMatches(matches)
      },
      (it) => writeOutcome(this.#to, it),
    )
  }

  cancel(parked: ParkedRequest): boolean {
    return this.#record(
      'cancel',
      timeless,
      () => this.core.cancel(parked),
      () => this.#to.count(this.#numbers.get(parked)!),
    )
  }

  book(request: SchedulingRequest, worker: WorkerRank, cachedTokens: number, moment: Moment): void {
    this.#record(
      'book',
      moment,
      (inner) => this.core.book(request, worker, cachedTokens, inner),
      () => {
        writeRequest(this.#to, request)
        writePair(this.#to, worker)
        this.#to.float(cachedTokens)
      },
    )
  }

  markPrefillCompleted(requestId: string, moment: Moment): void {
    this.#record(
      'markPrefillCompleted',
      moment,
      (inner) => this.core.markPrefillCompleted(requestId, inner),
      () => this.#to.text(requestId),
    )
  }

  addOutputBlock(requestId: string, moment: Moment, fraction?: number): void {
    this.#record(
      'addOutputBlock',
      moment,
      (inner) => this.core.addOutputBlock(requestId, inner, fraction),
      () => {
        this.#to.text(requestId)
        writeOptional(this.#to, fraction, (it) => this.#to.float(it))
      },
    )
  }

  free(requestId: string, moment: Moment): void {
    this.#record(
      'free',
      moment,
      (inner) => this.core.free(requestId, inner),
      () => this.#to.text(requestId),
    )
  }

  freeIfOn(requestId: string, worker: WorkerRank, moment: Moment): boolean {
    return this.#record(
      'freeIfOn',
      moment,
      (inner) => this.core.freeIfOn(requestId, worker, inner),
      () => {
        this.#to.text(requestId)
        writePair(this.#to, worker)
      },
    )
  }

  recordDecision(
    worker: WorkerRank,
    local: HashColumn,
    sequence: HashColumn,
    blockCount: number,
    moment: Moment,
  ): DecisionOutcome {
    return this.#record(
      'recordDecision',
      moment,
      (inner) => this.core.recordDecision(worker, local, sequence, blockCount, inner),
      () => {
        writePair(this.#to, worker)
        this.#to.hashes(local, blockCount)
        this.#to.hashes(sequence, blockCount)
      },
    )
  }

  applyReplica(events: readonly SequenceEvent[], moment: Moment): ReplicaOutcome {
    return this.#record(
      'applyReplica',
      moment,
      (inner) => this.core.applyReplica(events, inner),
      () => writeList(this.#to, events, (it) => writeReplicaEvent(this.#to, it)),
    )
  }

  recheck(moment: Moment): void {
    this.#record(
      'recheck',
      moment,
      (inner) => this.core.recheck(inner),
      () => {},
    )
  }

  expire(moment: Moment, blocksMax?: number): void {
    this.#record(
      blocksMax === undefined ? 'expire' : 'expireStep',
      moment,
      (inner) => this.core.expire(inner, blocksMax),
      () => {
        if (blocksMax !== undefined) this.#to.count(blocksMax)
      },
    )
  }

  takeDispatched(): readonly Dispatch[] {
    const taken = this.core.takeDispatched()
    if (taken.length === 0) return taken
    this.#record(
      'dispatched',
      timeless,
      () => taken,
      () =>
        writeList(this.#to, taken, ({ parked, decision }) => {
          this.#to.count(this.#numbers.get(parked)!)
          writeOutcome(this.#to, decision)
        }),
    )
    return taken
  }

  /** Shutdown ends the log: what is refused then is refused because somebody closed the router. */
  refuseAll(error: WarmrouteError): void {
    this.flush()
    this.#isOver = true
    this.core.refuseAll(error)
  }

  /** Writes the input before it is applied and its answers after it, also when it fails. */
  #record<T>(
    opcode: Opcode,
    moment: Moment,
    apply: (inner: Moment) => T,
    write: () => void,
    writeResult?: (result: T) => void,
  ): T {
    if (this.#isOver) return apply(moment)
    this.#write(opcode, moment, write)
    this.#answers = []
    const draw = (): number => {
      const lot = moment.draw()
      this.#answers.push(lot)
      return lot
    }
    try {
      const result = apply({ nowMs: moment.nowMs, draw })
      this.#writeAnswers()
      writeResult?.(result)
      return result
    } catch (error) {
      this.#writeAnswers()
      throw error
    } finally {
      if (this.#to.length >= pieceBytes) this.flush()
    }
  }

  /** An input that cannot be written is refused and leaves no trace: a log with half a record could not be read. */
  #write(opcode: Opcode, moment: Moment, write: () => void): void {
    const start = this.#to.length
    try {
      this.#to.byte(opcodes.indexOf(opcode))
      this.#to.float(moment.nowMs)
      write()
    } catch (error) {
      this.#to.rewind(start)
      throw error
    }
  }

  #writeAnswers(): void {
    writeList(this.#to, this.#answers, (it) => this.#to.float(it))
  }

  #writeMatches(matches: MatchColumns | undefined): void {
    writeOptional(this.#to, matches, (columns) => writeList(this.#to, keepMatches(columns), (it) => this.#to.count(it)))
  }
}

const timeless: Moment = { nowMs: 0, draw: () => 0 }
