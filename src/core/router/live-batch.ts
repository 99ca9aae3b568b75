/**
 * Packed events name ranks by number. A feed that outlives its worker would write under a number that nobody has, and the
 * next worker to get it would be credited for blocks that it does not hold: such events are left out.
 */
import type { EventBatch, EventKind } from '../index/index.js'
import { eventHeaderWords, eventKinds, TieredBatch } from '../index/index.js'
import type { RankTable } from '../protocol/index.js'
import { storageTiers } from '../protocol/index.js'

const kindNames: readonly EventKind[] = ['stored', 'removed', 'cleared'] // by the codes of `eventKinds`

/** The batch itself where every rank is live, as a rule; otherwise a copy without the events of others. */
export function withLiveRanks(batch: TieredBatch, ranks: RankTable, onDropped: (kind: EventKind) => void): TieredBatch {
  const isStray = (rank: number): boolean => !ranks.isLive(rank)
  if (!storageTiers.some((tier) => hasRank(batch.of(tier), isStray))) return batch
  const kept = new TieredBatch()
  for (const tier of storageTiers) {
    const from = batch.of(tier)
    const into = kept.of(tier)
    eachEvent(from, (at, end, rank) => {
      const kind = from.words[at]! & 0xff
      if (!isStray(rank)) into.append(from.words.subarray(at, end), from.words[at + 2]!)
      else if (kind !== eventKinds.cleared || tier === 'device') onDropped(kindNames[kind]!) // a clear names every tier
    })
  }
  return kept
}

function hasRank(batch: EventBatch, isWanted: (rank: number) => boolean): boolean {
  let isFound = false
  eachEvent(batch, (_at, _end, rank) => {
    isFound ||= isWanted(rank)
  })
  return isFound
}

function eachEvent({ words, eventCount }: EventBatch, visit: (at: number, end: number, rank: number) => void): void {
  for (let index = 0, at = 0; index < eventCount; index++) {
    const kind = words[at]! & 0xff
    const count = words[at + 2]!
    const payload = kind === eventKinds.stored ? 4 * count : kind === eventKinds.removed ? 2 * count : 0
    const end = at + eventHeaderWords + payload
    visit(at, end, words[at + 1]!)
    at = end
  }
}
