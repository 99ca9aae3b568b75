/**
 * The two loops that price every row. `block-cost.ts` has the same formula term by term, and the tests hold them equal.
 *
 * Each read of a column is a bounds check, and seven of them were two thirds of the time: the plain loop reads four.
 * Settings arrive in a `Float64Array`: a number read from an object has whatever representation its field was given last,
 * and V8 then converts it again for every row.
 */
import type { MatchColumns } from '../protocol/index.js'
import type { LoadColumns } from '../sequences/index.js'
import type { CandidateRows } from './candidates.js'
import type { SharedCacheHits } from './shared-hits.js'

/** Places in the array of settings. */
export const at = {
  promptTokens: 0,
  blockTokens: 1,
  credit: 2,
  scale: 3,
  requestWeight: 4,
  hostWeight: 5,
  diskWeight: 6,
  sharedMultiplier: 7,
  /** Credit decay per token that a rank has booked beyond the calmest; 0 without decay. */
  decayPerToken: 8,
  lowestPrefillTokens: 9,
  /** 1: prefill counts. */
  isPrefillTracked: 10,
  /** 1: credit comes off the decode blocks instead. */
  isDecodeCredited: 11,
  length: 12,
} as const

/** Device caches only, prefill tracked: the path of nearly every request. */
export function fillPlainCosts(rows: CandidateRows, load: LoadColumns, match: MatchColumns, terms: Float64Array): void {
  const { ranks, costs, count } = rows
  const { isTracked, prefillTokens, decodeBlocks, activeRequests } = load
  const { device, rankCount } = match
  const promptTokens = terms[at.promptTokens]!
  const blockTokens = terms[at.blockTokens]!
  const credit = terms[at.credit]!
  const scale = terms[at.scale]!
  const requestWeight = terms[at.requestWeight]!
  for (let row = 0; row < count; row++) {
    const rank = ranks[row]!
    const depth = rank < rankCount ? device[rank]! : 0
    // cached + max(0, prompt - cached) is the larger of the two. A cache beyond the prompt is rare, and counts for nothing
    // on an untracked rank; where the columns of such a rank are read they are 0.
    const cached = depth * blockTokens
    const own = cached > promptTokens && isTracked[rank] === 1 ? cached : promptTokens
    const left = (prefillTokens[rank]! + own) / blockTokens - credit * depth
    const blocks = (left > 0 ? scale * left : 0) + decodeBlocks[rank]!
    costs[row] = requestWeight === 0 ? blocks : blocks + requestWeight * activeRequests[rank]!
  }
}

/** Everything else: lower tiers, shared hits, credit decay, prefill not tracked. */
export function fillFullCosts(
  rows: CandidateRows,
  load: LoadColumns,
  match: MatchColumns,
  terms: Float64Array,
  sharedHits: SharedCacheHits | undefined,
): void {
  const { ranks, costs, count } = rows
  const { isTracked, prefillTokens, decodeBlocks, activeRequests } = load
  const { device, hostPinned, disk, external, rankCount, hasLowerTiers } = match
  const promptTokens = terms[at.promptTokens]!
  const blockTokens = terms[at.blockTokens]!
  const lowest = terms[at.lowestPrefillTokens]!
  const decayPerToken = terms[at.decayPerToken]!
  for (let row = 0; row < count; row++) {
    const rank = ranks[row]!
    const booked = isTracked[rank] === 1
    const active = booked ? prefillTokens[rank]! : 0
    const held = booked ? decodeBlocks[rank]! : 0
    const requestCost = booked ? terms[at.requestWeight]! * activeRequests[rank]! : 0
    const depth = rank < rankCount ? device[rank]! : 0
    const lower = hasLowerTiers && rank < rankCount
    const lowerCredit = lower
      ? terms[at.hostWeight]! * hostPinned[rank]! + terms[at.diskWeight]! * (disk[rank]! + external[rank]!)
      : 0
    const beyond = sharedHits === undefined ? 0 : sharedHits.hitsBeyond(depth)
    const ownCredit = (terms[at.credit]! * depth) / (1 + decayPerToken * (active - lowest))
    const creditBlocks = ownCredit + lowerCredit + terms[at.sharedMultiplier]! * beyond
    if (terms[at.isDecodeCredited] === 1) {
      costs[row] = (held > creditBlocks ? held - creditBlocks : 0) + requestCost
      continue
    }
    let tokens = 0
    if (terms[at.isPrefillTracked] === 1) {
      const cached = Math.round((depth + lowerCredit) * blockTokens)
      tokens = booked ? active + (cached > promptTokens ? cached : promptTokens) : promptTokens
    }
    const left = tokens / blockTokens - creditBlocks
    costs[row] = (left > 0 ? terms[at.scale]! * left : 0) + held + requestCost
  }
}
