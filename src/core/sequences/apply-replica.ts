/**
 * Applies what peers booked, marked and freed. A batch is applied in its order; its effects are reported once at the end:
 * one load report per rank that changed, and one wake where a mark or a free may let a parked request go.
 * Nothing here is told to peers again, and nothing a peer sends makes it throw.
 */
import type { Rank, WorkerRank } from '../protocol/index.js'
import { WarmrouteError } from '../protocol/index.js'
import type { ActiveSequences } from './active-sequences.js'
import type { AddRequestData, SequenceEvent } from './sequence-event.js'
import { requireBooking } from './sequence-state.js'

export interface ReplicaOptions {
  /** Events of this router are its own, come back, and are ignored. */
  readonly routerId: bigint
  /** `lazy` tracks a rank that a peer names first; `required` drops events of ranks that are not tracked. */
  readonly registration?: 'lazy' | 'required' | undefined
  /** Names a rank that a peer names first, or throws where there are too many. The table's own `intern` unless told. */
  readonly intern?: ((worker: WorkerRank) => Rank) | undefined
}

export interface ReplicaOutcome {
  /** Events that changed something. */
  applied: number
  /** Our own, coming back. */
  own: number
  /** Duplicates, unknown ids, another worker than the booked one, ranks that are not tracked. */
  ignored: number
  /** Events that no booking can be made of: a limit reached, a value out of range. */
  refused: number
  /** A mark or a free was applied: whoever parks requests should look again. */
  shouldWake: boolean
}

export function applyReplicaEvents(
  sequences: ActiveSequences,
  events: Iterable<SequenceEvent>,
  nowMs: number,
  options: ReplicaOptions,
): ReplicaOutcome {
  const outcome: ReplicaOutcome = { applied: 0, own: 0, ignored: 0, refused: 0, shouldWake: false }
  const changed = new Set<Rank>()
  for (const event of events) {
    if (event.routerId === options.routerId) outcome.own++
    else applyOne(sequences, event, nowMs, options, outcome, changed)
  }
  for (const rank of changed) sequences.reportForPeer(rank, nowMs)
  return outcome
}

function applyOne(
  sequences: ActiveSequences,
  event: SequenceEvent,
  nowMs: number,
  options: ReplicaOptions,
  outcome: ReplicaOutcome,
  changed: Set<Rank>,
): void {
  try {
    const isApplied =
      event.data.kind === 'add_request'
        ? applyAdd(sequences, event, event.data, nowMs, options, changed)
        : applyEnd(sequences, event, event.data.kind, nowMs, changed)
    if (!isApplied) outcome.ignored++
    else {
      outcome.applied++
      if (event.data.kind !== 'add_request') outcome.shouldWake = true
    }
  } catch (error) {
    if (!(error instanceof WarmrouteError)) throw error
    outcome.refused++
  }
}

function applyAdd(
  sequences: ActiveSequences,
  event: SequenceEvent,
  data: AddRequestData,
  nowMs: number,
  options: ReplicaOptions,
  changed: Set<Rank>,
): boolean {
  const { ranks, rules } = sequences
  const { workerId, dpRank } = event.worker
  const known = ranks.find(workerId, dpRank)
  if (options.registration === 'required' && (known === undefined || !sequences.isTracked(known))) return false
  const { tokenSequence: sequenceHashes, trackPrefillTokens, expectedOutputTokens, prefillLoadHint } = data
  const { requestId, loraName } = event
  const booking = { requestId, loraName, sequenceHashes, trackPrefillTokens, expectedOutputTokens, prefillLoadHint }
  const booked = sequences.rankOf(requestId)
  if (booked !== undefined && (rules.replicaOwner === 'first' || booked === known)) return false
  requireBooking(booking, nowMs) // before anything is moved or named for it
  const rank = known ?? options.intern?.(event.worker) ?? ranks.intern(workerId, dpRank)
  // Upstream moves only the index entry and leaves the old rank loaded until expiry; here the load moves along.
  if (booked !== undefined) changed.add(sequences.freeForPeer(requestId, nowMs))
  sequences.bookForPeer({ ...booking, rank }, nowMs)
  changed.add(rank)
  return true
}

function applyEnd(
  sequences: ActiveSequences,
  event: SequenceEvent,
  kind: 'mark_prefill_completed' | 'free',
  nowMs: number,
  changed: Set<Rank>,
): boolean {
  const { ranks, rules } = sequences
  const booked = sequences.rankOf(event.requestId)
  if (booked === undefined) return false
  if (rules.replicaTarget === 'named' && ranks.find(event.worker.workerId, event.worker.dpRank) !== booked) return false
  if (kind === 'free') {
    changed.add(sequences.freeForPeer(event.requestId, nowMs))
    return true
  }
  const isChange = sequences.markForPeer(event.requestId, nowMs)
  // Tokens alone are no reason to publish: whoever marked has published them.
  if (rules.loadPublication === 'always') changed.add(booked)
  return isChange || rules.loadPublication === 'always'
}
