/** Drives a `KvIndex` in tests: events by prefix instead of by hash, answers by worker instead of by column. */
import {
  type CacheOwnerId,
  type KvCacheEventData,
  newMatchColumns,
  newRouterEvent,
  RankTable,
  type RouterEvent,
  type StorageTier,
  toHashColumn,
} from '../protocol/index.js'
import { KvIndex, type KvIndexOptions } from './kv-index.js'
import type { PrefixIndex } from './prefix-index.js'

export type Rank = readonly [workerId: bigint, dpRank: number]
export const a: Rank = [1n, 0]
export const b: Rank = [2n, 0]

/** The name that every engine of these tests gives to the block at the end of a prefix. */
export const nameOf = (prefix: readonly bigint[]): bigint =>
  prefix.reduce((hash, it) => (hash * 1_000_003n + it) & 0xffff_ffff_ffffn, 17n)
export const namesOf = (after: readonly bigint[], locals: readonly bigint[]) =>
  locals.map((_, index) => nameOf([...after, ...locals.slice(0, index + 1)]))

export interface Where {
  readonly after?: readonly bigint[]
  readonly tier?: StorageTier
  readonly owner?: CacheOwnerId
}

export function stored([workerId, dpRank]: Rank, locals: readonly bigint[], where: Where = {}): RouterEvent {
  const after = where.after ?? []
  const blocks = namesOf(after, locals).map((blockHash, index) => ({
    blockHash,
    tokensHash: locals[index]!,
    mmExtraInfo: null,
  }))
  const parentHash = after.length > 0 ? nameOf(after) : null
  return place(workerId, dpRank, { kind: 'stored', parentHash, startPosition: null, blocks }, where)
}

export function removed(
  [workerId, dpRank]: Rank,
  prefixes: readonly (readonly bigint[])[],
  where: Where = {},
): RouterEvent {
  return place(workerId, dpRank, { kind: 'removed', blockHashes: prefixes.map(nameOf) }, where)
}

export function cleared([workerId, dpRank]: Rank, where: Where = {}): RouterEvent {
  return place(workerId, dpRank, { kind: 'cleared' }, where)
}

function place(workerId: bigint, dpRank: number, data: KvCacheEventData, where: Where): RouterEvent {
  const event = newRouterEvent({ workerId, dpRank }, 1n, data, where.tier)
  return where.owner ? { ...event, residencyDomain: 'cache_owner', stateSource: where.owner } : event
}

/** `find` answers `worker.rank -> [device, host, disk, external]`, rows of zeroes left out. */
export function newKv(newIndex: () => PrefixIndex, options: Partial<KvIndexOptions> = {}) {
  const ranks = new RankTable()
  const kv = new KvIndex({ ranks, device: newIndex(), startMs: 0, seed: 5, ...options })
  const columns = newMatchColumns()
  return {
    kv,
    ranks,
    apply: (...events: RouterEvent[]) => kv.applyEvents(events),
    find(locals: readonly bigint[]): Record<string, number[]> {
      kv.findMatches(toHashColumn(locals), locals.length, columns)
      const rows: Record<string, number[]> = {}
      for (const rank of ranks.live()) {
        const row = [columns.device, columns.hostPinned, columns.disk, columns.external].map((it) => it[rank]!)
        const { workerId, dpRank } = ranks.pairOf(rank)
        if (row.some((it) => it > 0)) rows[`${workerId}.${dpRank}`] = row
      }
      return rows
    },
    decide: ([workerId, dpRank]: Rank, locals: readonly bigint[], nowMs = 0) =>
      kv.recordRoutingDecision(
        ranks.intern(workerId, dpRank),
        toHashColumn(locals),
        toHashColumn(namesOf([9999n], locals)), // sequence hashes: not the engines' names
        nowMs,
      ),
  }
}

/**
 * Hands out the same four indexes in turn, emptied: no test uses more at a time. A WebAssembly instance takes
 * milliseconds to make, and an index that was drained must be as good as a new one.
 */
export function inTurn(newIndex: () => PrefixIndex): () => PrefixIndex {
  const made: PrefixIndex[] = []
  let turn = 0
  return () => {
    const index = (made[turn] ??= newIndex())
    turn = (turn + 1) % 4
    for (let rank = 0; rank < 8; rank++) index.clearRank(rank)
    index.drain(Number.POSITIVE_INFINITY)
    return index
  }
}
