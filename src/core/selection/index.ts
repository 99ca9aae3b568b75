/** Who serves a request: who may, what each would cost, and which is picked. */
export { blockCostPolicy } from './block-cost.js'
export { cachedTokensOf, cacheHitOf, effectiveBlocksOf, fillCachedTokens } from './cache-hits.js'
export type { CacheHit, CacheView, TierWeights } from './cache-hits.js'
export { Candidates } from './candidates.js'
export type { CandidateRows } from './candidates.js'
export type { CostBreakdown, CostInputs, CostPolicy, SelectorLabel, WarmTerms } from './cost-policy.js'
export { costSettingsOf, validateCostSettings } from './cost-settings.js'
export type { CostSettings } from './cost-settings.js'
export { exclusionOf, exclusionReasons, listExclusions, validatePin } from './eligibility.js'
export type { Eligibility, Exclusion, ExclusionReason, RankFlags } from './eligibility.js'
export type { LesserOverlap } from './lesser-overlap.js'
export { lesserOverlap } from './lesser-overlap.js'
export { narrowToLora } from './lora-narrowing.js'
export type { LoraNarrowing } from './lora-narrowing.js'
export { listOverlapScores, selectedTiers, sharedOverlap } from './overlap-scores.js'
export type { OverlapScore, OverlapScores, SelectedTiers, SharedOverlap } from './overlap-scores.js'
export { parseWorkerSelection } from './parse-worker-selection.js'
export type { PolicyFactory, WorkerSelectionPolicies } from './parse-worker-selection.js'
export { bestHintSource, routerHint } from './router-hint.js'
export type { HintPeer, HintSource, HintTarget, RouterHint } from './router-hint.js'
export { defaultPolicy } from './selection-policy.js'
export type {
  Candidate,
  CandidateCache,
  CandidateFilter,
  CandidateLoad,
  CandidatePicker,
  CandidateRouting,
  CandidateScorer,
  PolicyContext,
  SelectionPolicy,
} from './selection-policy.js'
export { SharedCacheHits } from './shared-hits.js'
export { DefaultWorkerSelector, validateSelection } from './worker-selector.js'
export type { SelectionRequest, WorkerSelection, WorkerSelector } from './worker-selector.js'
export { WarmCostPolicy } from './warm-cost.js'
export type { WarmCostOptions } from './warm-cost.js'
