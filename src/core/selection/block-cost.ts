/**
 * The cost of a rank in blocks: prefill that is left after cache credit, plus the blocks it would hold.
 * Follows lib/kv-router/src/scheduling/selector.rs at v1.2.0, with the later terms that are 0 or 1 by default.
 *
 *   raw     = (booked prefill tokens + max(0, prompt - cached) + cached) / block     0 where prefill is not tracked
 *   credit  = credit * decay * device + host weight * host + disk weight * disk + multiplier * shared beyond device
 *   cost    = scale * max(0, raw - credit) + decode blocks + request weight * active requests
 *
 * The whole prompt is work and what is cached is credit, so no block counts twice.
 */
import type { Rank } from '../protocol/index.js'
import { cachedTokensOf, effectiveBlocksOf } from './cache-hits.js'
import type { CandidateRows } from './candidates.js'
import type { CostBreakdown, CostInputs, CostPolicy } from './cost-policy.js'

export const blockCostPolicy: CostPolicy = {
  name: 'blocks',
  unit: 'blocks',
  fill: fillBlockCosts,
  explain: (rows, row, inputs) => explainBlockCost(rows.ranks[row]!, inputs, decayOf(rows, inputs)),
}

function fillBlockCosts(rows: CandidateRows, inputs: CostInputs): void {
  if (isPlain(inputs)) fillPlain(rows, inputs)
  else fillAll(rows, inputs)
}

/** Device caches only, prefill tracked: the path of nearly every request. */
function isPlain({ cache, sharedHits, settings }: CostInputs): boolean {
  if (cache.effectiveBlocks || cache.match.hasLowerTiers || !settings.trackPrefillTokens) return false
  return settings.overlapScoreCreditDecay === 0 && (sharedHits === undefined || settings.sharedCacheMultiplier === 0)
}

function fillPlain(rows: CandidateRows, inputs: CostInputs): void {
  const { ranks, costs, count } = rows
  const { isTracked, prefillTokens, decodeBlocks, activeRequests } = inputs.load
  const { device, rankCount } = inputs.cache.match
  const { promptTokens, blockTokens } = inputs
  const { overlapScoreCredit, prefillLoadScale, decodeActiveRequestWeight } = inputs.settings
  for (let row = 0; row < count; row++) {
    const rank = ranks[row]!
    const depth = rank < rankCount ? device[rank]! : 0
    let tokens = promptTokens
    let held = 0
    if (isTracked[rank] === 1) {
      // cached + max(0, prompt - cached) is the larger of the two.
      tokens = prefillTokens[rank]! + Math.max(promptTokens, depth * blockTokens)
      held = decodeBlocks[rank]! + decodeActiveRequestWeight * activeRequests[rank]!
    }
    const left = tokens / blockTokens - overlapScoreCredit * depth
    costs[row] = left > 0 ? prefillLoadScale * left + held : held
  }
}

function fillAll(rows: CandidateRows, inputs: CostInputs): void {
  const decay = decayOf(rows, inputs)
  const { ranks, costs, count } = rows
  for (let row = 0; row < count; row++) costs[row] = explainBlockCost(ranks[row]!, inputs, decay).cost
}

/** The formula itself, term by term: receipts and rare settings use it, and the plain loop is tested against it. */
function explainBlockCost(rank: Rank, inputs: CostInputs, decay: Decay | undefined): CostBreakdown {
  const { promptTokens, blockTokens, settings, load, cache, sharedHits, label } = inputs
  const isTracked = load.isTracked[rank] === 1
  const activePrefillTokens = isTracked ? load.prefillTokens[rank]! : 0
  const decodeBlocks = isTracked ? load.decodeBlocks[rank]! : 0
  const activeRequests = isTracked ? load.activeRequests[rank]! : 0

  const effective = effectiveBlocksOf(cache, rank, settings)
  const cachedTokens = cachedTokensOf(effective, blockTokens)
  const hasTiers = !cache.effectiveBlocks && rank < cache.match.rankCount
  const deviceBlocks = cache.effectiveBlocks ? effective : hasTiers ? cache.match.device[rank]! : 0
  const hasLower = hasTiers && cache.match.hasLowerTiers
  const hostBlocks = hasLower ? cache.match.hostPinned[rank]! : 0
  const diskBlocks = hasLower ? cache.match.disk[rank]! + cache.match.external[rank]! : 0
  const sharedBlocks = sharedHits?.hitsBeyond(Math.round(deviceBlocks)) ?? 0

  const share = decay
    ? 1 / (1 + (decay.rate * (activePrefillTokens - decay.lowest)) / blockTokens / decay.promptBlocks)
    : 1
  const creditBlocks =
    settings.overlapScoreCredit * share * deviceBlocks +
    settings.hostCacheHitWeight * hostBlocks +
    settings.diskCacheHitWeight * diskBlocks +
    settings.sharedCacheMultiplier * sharedBlocks

  const requestCost = settings.decodeActiveRequestWeight * activeRequests
  let prefillCost = 0
  let cost: number
  if (
    !settings.trackPrefillTokens &&
    label === 'decode' &&
    settings.creditsDecodeWorkers &&
    settings.overlapScoreCredit > 0
  )
    cost = Math.max(0, decodeBlocks - creditBlocks) + requestCost
  else {
    const tracked = isTracked
      ? activePrefillTokens + Math.max(0, promptTokens - cachedTokens) + cachedTokens
      : promptTokens
    const rawTokens = settings.trackPrefillTokens ? tracked : 0
    prefillCost = settings.prefillLoadScale * Math.max(0, rawTokens / blockTokens - creditBlocks)
    cost = prefillCost + decodeBlocks + requestCost
  }
  const held = { deviceBlocks, hostBlocks, diskBlocks, sharedBlocks }
  return { ...held, activePrefillTokens, decodeBlocks, activeRequests, creditBlocks, prefillCost, cost }
}

interface Decay {
  readonly rate: number
  /** Booked prefill of the calmest row. */
  readonly lowest: number
  readonly promptBlocks: number
}

/** Only where the setting asks for it: finding the calmest row is a pass over all of them. */
function decayOf(rows: CandidateRows, inputs: CostInputs): Decay | undefined {
  const { overlapScoreCreditDecay: rate, trackPrefillTokens } = inputs.settings
  if (rate === 0 || !trackPrefillTokens) return undefined
  const promptBlocks = Math.ceil(inputs.promptTokens / inputs.blockTokens)
  return { rate, lowest: lowestPrefillTokens(rows, inputs), promptBlocks }
}

export function lowestPrefillTokens(rows: CandidateRows, { load }: CostInputs): number {
  let lowest = Number.POSITIVE_INFINITY
  for (let row = 0; row < rows.count; row++) {
    const rank = rows.ranks[row]!
    const tokens = load.isTracked[rank] === 1 ? load.prefillTokens[rank]! : 0
    if (tokens < lowest) lowest = tokens
  }
  return lowest
}
