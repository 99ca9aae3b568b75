/** Feeds a log to a fresh router and says where it first decides otherwise. The same code and log give the same bytes. */
import type { MatchColumns } from '../protocol/index.js'
import { newMatchColumns, WarmrouteError } from '../protocol/index.js'
import { ByteReader, ByteWriter } from './byte-codec.js'
import type { Decision, Dispatch } from './decision.js'
import { spreadMatches } from './kept-matches.js'
import { readBatch } from './log-batch.js'
import type { Opcode } from './log-format.js'
import { opcodes, readEvent, readList, readOptional, readPair, readRequest, readWorker } from './log-format.js'
import type { LogHeader } from './log-header.js'
import { optionsOf, readHeader } from './log-header.js'
import { readReplicaEvent } from './log-replica.js'
import type { Moment } from './moment.js'
import { parkedCode, writeOutcome } from './outcome-code.js'
import type { ParkedRequest } from './parked-request.js'
import type { RouterCoreOptions } from './router-core.js'
import { RouterCore } from './router-core.js'

export interface ReplayResult {
  readonly core: RouterCore
  readonly records: number
  /** Decisions that were compared. */
  readonly decisions: number
  /** The number of the first record that came out otherwise; nothing when all came out the same. */
  readonly firstDifference: number | undefined
}

/** Throws `WR_INVALID_LOG`. */
export function readLogHeader(log: Uint8Array): LogHeader {
  return readHeader(new ByteReader(log))
}

/** `addOptions` adds what a text cannot hold: the index, a selector, a model; or changes what should be different. */
export function replay(
  log: Uint8Array,
  addOptions: (header: LogHeader) => Partial<RouterCoreOptions> = () => ({}),
): ReplayResult {
  const from = new ByteReader(log)
  const header = readHeader(from)
  const options = { ...optionsOf(header), ...addOptions(header) }
  let answers: readonly number[] = []
  let nextAnswer = 0
  const answer = (): number => answers[nextAnswer++] ?? Number.NaN
  const core = new RouterCore({
    ...options,
    estimatePrefill: header.hasEstimator
      ? () => {
          const durationMs = answer()
          return Number.isNaN(durationMs) ? undefined : durationMs
        }
      : undefined,
  })
  const parkedByNumber: (ParkedRequest | undefined)[] = []
  const matches = newMatchColumns()
  let records = 0
  let decisions = 0
  let firstDifference: number | undefined

  while (!from.isAtEnd) {
    const opcode = opcodes[from.byte()]
    if (opcode === undefined) throw new WarmrouteError('WR_INVALID_LOG', { reason: 'unknown record', record: records })
    const nowMs = from.float()
    const apply = readInput(opcode, from, core, matches, parkedByNumber)
    answers = readList(from, () => from.float())
    nextAnswer = 0
    const isSame = run(apply, { nowMs, draw: answer })
    if (!isSame) firstDifference ??= records
    records++
  }
  return { core, records, decisions, firstDifference }

  /** An input that failed when it was recorded fails again; the failure is part of the run. */
  function run(apply: (moment: Moment) => Applied, moment: Moment): boolean {
    try {
      const { decision, dispatched, expected } = apply(moment)
      if (decision !== undefined) return isSameDecision(decision)
      return dispatched === undefined || isSameDispatch(dispatched, expected ?? [])
    } catch (error) {
      if (error instanceof WarmrouteError && error.code !== 'WR_INVALID_LOG') return true
      throw error
    }
  }

  /** Reads what was decided then. Who was parked then has a number, whether or not it is parked now. */
  function isSameDecision(decision: Decision | 'impossible'): boolean {
    decisions++
    const outcome = skipOutcome(from)
    if (outcome[0] === parkedCode)
      parkedByNumber.push(decision !== 'impossible' && decision.kind === 'parked' ? decision.parked : undefined)
    if (decision === 'impossible') return false
    const to = new ByteWriter()
    writeOutcome(to, decision)
    return isEqual(to.take(), outcome)
  }

  function isSameDispatch(dispatched: readonly Dispatch[], expected: readonly ExpectedDispatch[]): boolean {
    decisions += dispatched.length
    return (
      dispatched.length === expected.length &&
      dispatched.every(({ parked, decision }, at) => {
        const to = new ByteWriter()
        writeOutcome(to, decision)
        return parkedByNumber[expected[at]!.number] === parked && isEqual(to.take(), expected[at]!.outcome)
      })
    )
  }
}

interface Applied {
  /** `impossible`: it concerns a request that waited then and does not now. */
  readonly decision?: Decision | 'impossible'
  readonly dispatched?: readonly Dispatch[]
  readonly expected?: readonly ExpectedDispatch[]
}

interface ExpectedDispatch {
  readonly number: number
  readonly outcome: Uint8Array
}

/** Reads one input and returns how to apply it: its answers stand behind it and must be read first. */
function readInput(
  opcode: Opcode,
  from: ByteReader,
  core: RouterCore,
  scratch: MatchColumns,
  parked: readonly (ParkedRequest | undefined)[],
): (moment: Moment) => Applied {
  const plain = (apply: (moment: Moment) => unknown) => (moment: Moment) => {
    apply(moment)
    return {}
  }
  switch (opcode) {
    case 'setWorker': {
      const workerId = from.u64()
      const config = readWorker(from)
      return plain((moment) => core.setWorker(workerId, config, moment))
    }
    case 'removeWorker': {
      const workerId = from.u64()
      return plain((moment) => core.removeWorker(workerId, moment))
    }
    case 'reconcileWorkers': {
      const configs = new Map(readList(from, () => [from.u64(), readWorker(from)] as const))
      return plain((moment) => core.reconcileWorkers(configs, moment))
    }
    case 'registerWorkers': {
      const ids = readList(from, () => from.u64())
      return plain((moment) => core.registerWorkers(ids, moment))
    }
    case 'setFlags': {
      const available = readOptional(from, () => new Set(readList(from, () => from.u64())))
      const overloaded = readOptional(from, () => new Set(readList(from, () => from.u64())))
      return plain((moment) => core.setFlags({ available, overloaded }, moment))
    }
    case 'applyEvents': {
      const events = readList(from, () => readEvent(from))
      return plain(() => core.applyEvents(events))
    }
    case 'applyBatch': {
      const batch = readBatch(from)
      return plain(() => core.applyBatch(batch))
    }
    case 'setWithheld': {
      const rank = from.number()
      const isWithheld = from.byte() === 1
      return plain(() => core.setWithheld(rank, isWithheld))
    }
    case 'decide': {
      const request = readRequest(from)
      const given = readMatches(from, core, scratch)
      return (moment) => ({ decision: core.decide(request, moment, given) })
    }
    case 'place': {
      const number = from.count()
      const given = readMatches(from, core, scratch)
      return (moment) => {
        const it = parked[number]
        return { decision: it ? core.place(it, given, moment) : 'impossible' }
      }
    }
    case 'cancel': {
      const number = from.count()
      return plain(() => parked[number] && core.cancel(parked[number]))
    }
    case 'book': {
      const request = readRequest(from)
      const worker = readPair(from)
      const cachedTokens = from.float()
      return plain((moment) => core.book(request, worker, cachedTokens, moment))
    }
    case 'markPrefillCompleted': {
      const requestId = from.text()
      return plain((moment) => core.markPrefillCompleted(requestId, moment))
    }
    case 'addOutputBlock': {
      const requestId = from.text()
      const fraction = readOptional(from, () => from.float())
      return plain((moment) => core.addOutputBlock(requestId, moment, fraction))
    }
    case 'free': {
      const requestId = from.text()
      return plain((moment) => core.free(requestId, moment))
    }
    case 'freeIfOn': {
      const requestId = from.text()
      const worker = readPair(from)
      return plain((moment) => core.freeIfOn(requestId, worker, moment))
    }
    case 'recordDecision': {
      const worker = readPair(from)
      const local = from.hashes()
      const sequence = from.hashes()
      return plain((moment) => core.recordDecision(worker, local, sequence, local.length >>> 1, moment))
    }
    case 'applyReplica': {
      const events = readList(from, () => readReplicaEvent(from))
      return plain((moment) => core.applyReplica(events, moment))
    }
    case 'recheck':
      return plain((moment) => core.recheck(moment))
    case 'expire':
      return plain((moment) => core.expire(moment))
    case 'expireStep': {
      const blocksMax = from.count()
      return plain((moment) => core.expire(moment, blocksMax))
    }
    case 'dispatched': {
      const expected = readList(from, () => ({ number: from.count(), outcome: skipOutcome(from) }))
      return () => ({ dispatched: core.takeDispatched(), expected })
    }
  }
}

function readMatches(from: ByteReader, core: RouterCore, scratch: MatchColumns): MatchColumns | undefined {
  const kept = readOptional(from, () => Uint32Array.from(readList(from, () => from.count())))
  if (kept === undefined) return undefined
  spreadMatches(kept, core.ranks.size, scratch, () => true)
  return scratch
}

/** The bytes of one outcome, unread. */
function skipOutcome(from: ByteReader): Uint8Array {
  return from.span(() => {
    const kind = from.byte()
    if (kind === 0) {
      readPair(from)
      for (let figure = 0; figure < 3; figure++) from.float()
    } else if (kind === 1) from.text()
  })
}

function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at])
}
