/**
 * One input of a router as bytes, and back. The order of members is the format; `logVersion` changes with it.
 *
 *   log      magic, version, header (JSON text), then records
 *   record   opcode, now, input, answers           answers = lots drawn and durations predicted, in the order of use
 */
import type { HashColumn, RouterEvent, WorkerConfig, WorkerRank } from '../protocol/index.js'
import {
  entriesOf,
  hashAt,
  hashCount,
  parseRouterEvents,
  stringifyRouterEvents,
  storageTiers,
  toHashColumn,
} from '../protocol/index.js'
import { SharedCacheHits } from '../selection/index.js'
import type { ByteReader, ByteWriter } from './byte-codec.js'
import { readValue, writeValue } from './log-value.js'
import type { SchedulingRequest } from './scheduling-request.js'

export const logMagic = 0x474c5257 // "WRLG"
export const logVersion = 2

/** Position is the opcode. Append only. */
export const opcodes = [
  'setWorker',
  'removeWorker',
  'reconcileWorkers',
  'registerWorkers',
  'setFlags',
  'applyEvents',
  'decide',
  'place',
  'cancel',
  'book',
  'markPrefillCompleted',
  'addOutputBlock',
  'free',
  'freeIfOn',
  'recordDecision',
  'applyReplica',
  'recheck',
  'expire',
  'dispatched',
  'applyBatch',
  'setWithheld',
  'expireStep',
] as const
export type Opcode = (typeof opcodes)[number]

export function writeOptional<T>(to: ByteWriter, value: T | undefined, write: (value: T) => void): void {
  to.byte(value === undefined ? 0 : 1)
  if (value !== undefined) write(value)
}

export function readOptional<T>(from: ByteReader, read: () => T): T | undefined {
  return from.byte() === 0 ? undefined : read()
}

export function writeList<T>(to: ByteWriter, values: Iterable<T>, write: (value: T) => void): void {
  const list = [...values]
  to.count(list.length)
  for (const value of list) write(value)
}

export function readList<T>(from: ByteReader, read: () => T): T[] {
  const list: T[] = []
  for (let left = from.count(); left > 0; left--) list.push(read())
  return list
}

export function writePair(to: ByteWriter, { workerId, dpRank }: WorkerRank): void {
  to.u64(workerId)
  to.number(dpRank)
}

export function readPair(from: ByteReader): WorkerRank {
  return { workerId: from.u64(), dpRank: from.number() }
}

/** What the router reads of it; the rest of a worker's report does not change a decision. */
export function writeWorker(to: ByteWriter, config: WorkerConfig): void {
  to.number(config.dataParallelStartRank)
  to.number(config.dataParallelSize)
  writeOptional(to, config.maxNumBatchedTokens, (it) => to.number(it))
  writeOptional(to, config.totalKvBlocks, (it) => to.number(it))
  writeList(to, config.taints ?? [], (it) => to.text(it))
}

export function readWorker(from: ByteReader): WorkerConfig {
  const dataParallelStartRank = from.number()
  const dataParallelSize = from.number()
  const maxNumBatchedTokens = readOptional(from, () => from.number())
  const totalKvBlocks = readOptional(from, () => from.number())
  const taints = new Set(readList(from, () => from.text()))
  return { dataParallelStartRank, dataParallelSize, maxNumBatchedTokens, totalKvBlocks, taints }
}

export function writeRequest(to: ByteWriter, request: SchedulingRequest): void {
  const { blockCount, constraints } = request
  writeOptional(to, request.requestId, (it) => to.text(it))
  to.float(request.promptTokens)
  to.float(blockCount)
  writeOptional(to, request.localHashes, (it) => to.hashes(it, Math.min(hashCount(it), Math.max(0, blockCount))))
  writeOptional(to, request.sequenceHashes, (it) => to.hashes(it, Math.min(hashCount(it), Math.max(0, blockCount))))
  const { isQueryOnly, wantReceipt, isLookedUpOutside, isWhole } = request
  to.byte((isQueryOnly ? 1 : 0) | (wantReceipt ? 2 : 0) | (isLookedUpOutside ? 4 : 0) | (isWhole ? 8 : 0))
  writeOptional(to, request.loraName, (it) => to.text(it))
  writeOptional(to, request.expectedOutputTokens, (it) => to.float(it))
  writeOptional(to, request.pin, (it) => writePair(to, it))
  writeOptional(to, request.allowedWorkerIds, (ids) => writeList(to, ids, (it) => to.u64(it)))
  writeOptional(to, request.excludedWorkerIds, (ids) => writeList(to, ids, (it) => to.u64(it)))
  writeOptional(to, constraints?.requiredTaints, (taints) => writeList(to, taints, (it) => to.text(it)))
  writeOptional(to, constraints?.preferredTaints, (weights) =>
    writeList(to, entriesOf(weights), ([taint, weight]) => {
      to.text(taint)
      to.float(weight)
    }),
  )
  writeOptional(to, request.priorityJump, (it) => to.float(it))
  writeOptional(to, request.strictPriority, (it) => to.float(it))
  writeOptional(to, request.policyClass, (it) => to.text(it))
  writeOptional(to, request.override, (it) => to.text(JSON.stringify(it)))
  writeOptional(to, request.sharedHits, (hits) =>
    writeList(to, hits.ranges(), ([start, end]) => {
      to.count(start)
      to.count(end)
    }),
  )
  writeOptional(to, request.session, (it) => writeValue(to, it))
}

export function readRequest(from: ByteReader): SchedulingRequest {
  const requestId = readOptional(from, () => from.text())
  const promptTokens = from.float()
  const blockCount = from.float()
  const localHashes = readOptional(from, () => from.hashes())
  const sequenceHashes = readOptional(from, () => from.hashes())
  const flags = from.byte()
  const loraName = readOptional(from, () => from.text())
  const expectedOutputTokens = readOptional(from, () => from.float())
  const pin = readOptional(from, () => readPair(from))
  const allowedWorkerIds = readOptional(from, () => new Set(readList(from, () => from.u64())))
  const excludedWorkerIds = readOptional(from, () => new Set(readList(from, () => from.u64())))
  const requiredTaints = readOptional(from, () => readList(from, () => from.text()))
  const preferredTaints = readOptional(from, () =>
    Object.fromEntries(readList(from, () => [from.text(), from.float()] as const)),
  )
  return {
    requestId,
    promptTokens,
    blockCount,
    localHashes,
    sequenceHashes,
    isQueryOnly: (flags & 1) !== 0,
    wantReceipt: (flags & 2) !== 0,
    isLookedUpOutside: (flags & 4) === 0 ? undefined : true,
    isWhole: (flags & 8) === 0 ? undefined : true,
    loraName,
    expectedOutputTokens,
    pin,
    allowedWorkerIds,
    excludedWorkerIds,
    constraints: { requiredTaints, preferredTaints },
    priorityJump: readOptional(from, () => from.float()),
    strictPriority: readOptional(from, () => from.float()),
    policyClass: readOptional(from, () => from.text()),
    override: readOptional(from, () => JSON.parse(from.text()) as NonNullable<SchedulingRequest['override']>),
    sharedHits: readOptional(
      from,
      () => new SharedCacheHits(readList(from, (): [number, number] => [from.count(), from.count()])),
    ),
    session: readOptional(from, () => readValue(from)),
  }
}

/** Plain events of a worker are packed; those of a cache owner, which are rare and have long names, go as JSON. */
export function writeEvent(to: ByteWriter, event: RouterEvent): void {
  const { data, dpRank, eventId } = event.event
  const isPlain =
    event.stateSource === undefined &&
    (event.residencyDomain === 'missing' || event.residencyDomain === 'worker') &&
    (data.kind !== 'stored' ||
      (data.startPosition === null && data.blocks.every((block) => block.mmExtraInfo === null)))
  to.byte(isPlain ? 0 : 1)
  if (!isPlain) {
    to.text(stringifyRouterEvents([event]))
    return
  }
  writePair(to, { workerId: event.workerId, dpRank })
  to.byte(storageTiers.indexOf(event.storageTier))
  to.byte(event.residencyDomain === 'worker' ? 1 : 0)
  to.u64(eventId)
  to.byte(data.kind === 'stored' ? 0 : data.kind === 'removed' ? 1 : 2)
  if (data.kind === 'removed') writeHashes(to, toHashColumn(data.blockHashes))
  if (data.kind !== 'stored') return
  writeOptional(to, data.parentHash ?? undefined, (it) => to.u64(it))
  writeHashes(to, toHashColumn(data.blocks.map((block) => block.blockHash)))
  writeHashes(to, toHashColumn(data.blocks.map((block) => block.tokensHash)))
}

export function readEvent(from: ByteReader): RouterEvent {
  if (from.byte() === 1) return parseRouterEvents(from.text())[0]!
  const { workerId, dpRank } = readPair(from)
  const storageTier = storageTiers[from.byte()] ?? 'device'
  const residencyDomain = from.byte() === 1 ? 'worker' : 'missing'
  const eventId = from.u64()
  const kind = from.byte()
  if (kind === 2)
    return { workerId, storageTier, residencyDomain, event: { eventId, dpRank, data: { kind: 'cleared' } } }
  if (kind === 1) {
    const blockHashes = hashList(from.hashes())
    return {
      workerId,
      storageTier,
      residencyDomain,
      event: { eventId, dpRank, data: { kind: 'removed', blockHashes } },
    }
  }
  const parentHash = readOptional(from, () => from.u64()) ?? null
  const external = from.hashes()
  const local = from.hashes()
  const blocks = Array.from({ length: hashCount(external) }, (_, at) => ({
    blockHash: hashAt(external, at),
    tokensHash: hashAt(local, at),
    mmExtraInfo: null,
  }))
  const data = { kind: 'stored', parentHash, startPosition: null, blocks } as const
  return { workerId, storageTier, residencyDomain, event: { eventId, dpRank, data } }
}

function writeHashes(to: ByteWriter, column: HashColumn): void {
  to.hashes(column, hashCount(column))
}

function hashList(column: HashColumn): bigint[] {
  return Array.from({ length: hashCount(column) }, (_, at) => hashAt(column, at))
}
