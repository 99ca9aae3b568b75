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
import { at, fillFullCosts, fillPlainCosts } from './fill-costs.js'

export const blockCostPolicy: CostPolicy = {
  name: 'blocks',
  unit: 'blocks',
  fill: fillBlockCosts,
  explain: explainBlockCost,
}

function explainBlockCost(rows: CandidateRows, row: number, inputs: CostInputs): CostBreakdown {
  return price(rows.ranks[row]!, inputs, decayOf(rows, inputs))
}

function fillBlockCosts(rows: CandidateRows, inputs: CostInputs): void {
  const { load, cache, sharedHits, settings } = inputs
  if (cache.effectiveBlocks) return fillOneByOne(rows, inputs)
  writeTerms(rows, inputs)
  const shared = settings.sharedCacheMultiplier === 0 ? undefined : sharedHits
  const isPlain = !cache.match.hasLowerTiers && settings.trackPrefillTokens && terms[at.decayPerToken] === 0 && !shared
  if (isPlain) fillPlainCosts(rows, load, cache.match, terms)
  else fillFullCosts(rows, load, cache.match, terms, shared)
}

/** Written and read inside one call. */
const terms = new Float64Array(at.length)

function writeTerms(rows: CandidateRows, inputs: CostInputs): void {
  const { settings } = inputs
  const decay = decayOf(rows, inputs)
  terms[at.promptTokens] = inputs.promptTokens
  terms[at.blockTokens] = inputs.blockTokens
  terms[at.credit] = settings.overlapScoreCredit
  terms[at.scale] = settings.prefillLoadScale
  terms[at.requestWeight] = settings.decodeActiveRequestWeight
  terms[at.hostWeight] = settings.hostCacheHitWeight
  terms[at.diskWeight] = settings.diskCacheHitWeight
  terms[at.sharedMultiplier] = settings.sharedCacheMultiplier
  terms[at.decayPerToken] = decay?.perToken ?? 0
  terms[at.lowestPrefillTokens] = decay?.lowest ?? 0
  terms[at.isPrefillTracked] = settings.trackPrefillTokens ? 1 : 0
  terms[at.isDecodeCredited] = creditsDecode(inputs) ? 1 : 0
}

/** A source without tiers gives fractions of blocks: rare enough for the slow way. */
function fillOneByOne(rows: CandidateRows, inputs: CostInputs): void {
  const decay = decayOf(rows, inputs)
  for (let row = 0; row < rows.count; row++) rows.costs[row] = price(rows.ranks[row]!, inputs, decay).cost
}

type Terms = { -readonly [Term in keyof CostBreakdown]: CostBreakdown[Term] }

/** The formula itself, term by term: receipts are made of it, and the loops are tested against it. */
function price(rank: Rank, inputs: CostInputs, decay: Decay | undefined): CostBreakdown {
  const { settings } = inputs
  const terms = readTerms(rank, inputs)
  const { activePrefillTokens, deviceBlocks } = terms
  const slowdown = decay ? 1 + decay.perToken * (activePrefillTokens - decay.lowest) : 1
  terms.creditBlocks =
    (settings.overlapScoreCredit * deviceBlocks) / slowdown +
    settings.hostCacheHitWeight * terms.hostBlocks +
    settings.diskCacheHitWeight * terms.diskBlocks +
    settings.sharedCacheMultiplier * terms.sharedBlocks

  const requestCost = settings.decodeActiveRequestWeight * terms.activeRequests
  if (creditsDecode(inputs)) {
    terms.cost = Math.max(0, terms.decodeBlocks - terms.creditBlocks) + requestCost
    return terms
  }
  const rawBlocks = rawTokensOf(rank, inputs, activePrefillTokens) / inputs.blockTokens
  terms.prefillCost = settings.prefillLoadScale * Math.max(0, rawBlocks - terms.creditBlocks)
  terms.cost = terms.prefillCost + terms.decodeBlocks + requestCost
  return terms
}

/** What the rank holds and carries, before any weight. */
function readTerms(rank: Rank, { load, cache, sharedHits }: CostInputs): Terms {
  const isTracked = load.isTracked[rank] === 1
  const { match, effectiveBlocks } = cache
  const hasTiers = effectiveBlocks === undefined && rank < match.rankCount
  const hasLower = hasTiers && match.hasLowerTiers
  const deviceBlocks = hasTiers ? match.device[rank]! : (effectiveBlocks?.[rank] ?? 0)
  return {
    deviceBlocks,
    hostBlocks: hasLower ? match.hostPinned[rank]! : 0,
    diskBlocks: hasLower ? match.disk[rank]! + match.external[rank]! : 0,
    sharedBlocks: sharedHits?.hitsBeyond(Math.round(deviceBlocks)) ?? 0,
    activePrefillTokens: isTracked ? load.prefillTokens[rank]! : 0,
    decodeBlocks: isTracked ? load.decodeBlocks[rank]! : 0,
    activeRequests: isTracked ? load.activeRequests[rank]! : 0,
    creditBlocks: 0,
    prefillCost: 0,
    cost: 0,
  }
}

/** Prompt tokens that the rank has to answer for with this request, what is cached included. */
function rawTokensOf(rank: Rank, inputs: CostInputs, activePrefillTokens: number): number {
  const { settings, promptTokens, load } = inputs
  if (!settings.trackPrefillTokens) return 0
  if (load.isTracked[rank] !== 1) return promptTokens
  const cachedTokens = cachedTokensOf(effectiveBlocksOf(inputs.cache, rank, settings), inputs.blockTokens)
  return activePrefillTokens + Math.max(0, promptTokens - cachedTokens) + cachedTokens
}

function creditsDecode({ settings, label }: CostInputs): boolean {
  if (settings.trackPrefillTokens || label !== 'decode') return false
  return settings.creditsDecodeWorkers && settings.overlapScoreCredit > 0
}

interface Decay {
  /** By how much credit is divided, for each token booked beyond the calmest row. */
  readonly perToken: number
  readonly lowest: number
}

/** Only where the setting asks for it: finding the calmest row is a pass over all of them. */
function decayOf(rows: CandidateRows, inputs: CostInputs): Decay | undefined {
  const { overlapScoreCreditDecay: rate, trackPrefillTokens } = inputs.settings
  if (rate === 0 || !trackPrefillTokens) return undefined
  const promptBlocks = Math.ceil(inputs.promptTokens / inputs.blockTokens)
  return { perToken: rate / inputs.blockTokens / promptBlocks, lowest: lowestPrefillTokens(rows, inputs) }
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
