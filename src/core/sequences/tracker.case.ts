/** One way to write a tracker's life down, so that every case is data. */
import type { Rank } from '../protocol/index.js'
import { RankTable, toHashColumn } from '../protocol/index.js'
import type { ActiveSequencesOptions } from './active-sequences.js'
import { ActiveSequences } from './active-sequences.js'
import { newLoadColumns } from './load-columns.js'
import type { SequenceEvent } from './sequence-event.js'

export interface Tracker {
  readonly sequences: ActiveSequences
  readonly ranks: RankTable
  /** `[rank, blocks, tokens, isPublic]` of every report so far. */
  readonly reports: [rank: Rank, blocks: number, tokens: number, isPublic: boolean][]
  readonly sent: SequenceEvent[]
  /** Books hashes given as numbers; a pair is `[tokens, duration in ms]`. */
  readonly book: (
    requestId: string,
    rank: Rank,
    hashes: readonly number[] | undefined,
    prefill?: readonly [tokens: number, durationMs?: number],
    nowMs?: number,
  ) => void
  /** Potential blocks of every rank for a query. */
  readonly potential: (hashes: readonly number[], nowMs?: number) => number[]
}

/** A tracker over ranks 0, 1, ... of workers 1, 2, ... with dp rank 0. */
export function trackerOf(rankCount: number, options: Partial<ActiveSequencesOptions> = {}): Tracker {
  const ranks = new RankTable()
  for (let rank = 0; rank < rankCount; rank++) ranks.intern(BigInt(rank + 1), 0)
  const reports: Tracker['reports'] = []
  const sent: SequenceEvent[] = []
  const sequences = new ActiveSequences({
    ranks,
    load: { loadChanged: (...report) => void reports.push(report) },
    replica: { routerId: 1n, port: { publish: (event) => void sent.push(event) } },
    ...options,
  })
  for (let rank = 0; rank < rankCount; rank++) sequences.track(rank, 0)
  return {
    sequences,
    ranks,
    reports,
    sent,
    book: (requestId, rank, hashes, prefill, nowMs = 0) =>
      sequences.book(
        {
          requestId,
          rank,
          sequenceHashes: hashes && toHashColumn(hashes.map(BigInt)),
          prefillLoadHint: prefill && { tokens: prefill[0], durationMs: prefill[1] },
        },
        nowMs,
      ),
    potential: (hashes, nowMs = 0) => {
      const loads = newLoadColumns()
      sequences.fillLoads(loads, nowMs, toHashColumn(hashes.map(BigInt)))
      return [...loads.decodeBlocks.subarray(0, loads.rankCount)]
    },
  }
}
