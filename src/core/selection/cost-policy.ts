/** What a cost policy is: a function that prices every row from columns, and one that explains a single price. */
import type { LoadColumns } from '../sequences/index.js'
import type { CacheView } from './cache-hits.js'
import type { CandidateRows } from './candidates.js'
import type { CostSettings } from './cost-settings.js'
import type { SharedCacheHits } from './shared-hits.js'

/** What the selector is for. Everything that is no prefill worker is priced as `decode`. */
export type SelectorLabel = 'prefill' | 'decode'

/** Everything that a price may depend on. Columns are indexed by rank. */
export interface CostInputs {
  readonly promptTokens: number
  readonly blockTokens: number
  readonly label: SelectorLabel
  /** Its prompt was computed on another rank and arrives by transfer: nothing of it is computed here. */
  readonly isPrefilledElsewhere?: boolean | undefined
  readonly settings: CostSettings
  readonly load: LoadColumns
  readonly cache: CacheView
  readonly sharedHits?: SharedCacheHits | undefined
}

/** One row, term by term. Blocks and tokens are as they stood at the moment of the decision. */
export interface CostBreakdown {
  readonly deviceBlocks: number
  readonly hostBlocks: number
  readonly diskBlocks: number
  /** Blocks of the shared cache beyond the device's. */
  readonly sharedBlocks: number
  readonly activePrefillTokens: number
  /** Blocks that the rank would hold with this request. */
  readonly decodeBlocks: number
  readonly activeRequests: number
  /** What all caches take off. */
  readonly creditBlocks: number
  /** What is left of the prefill after credit, scaled. */
  readonly prefillCost: number
  readonly cost: number
  /** The terms of a cost in milliseconds; absent where the cost is in blocks. */
  readonly milliseconds?: WarmTerms | undefined
}

/** See `warm-cost.ts`. Stall and decode are as they are before they are divided by the weight of a first token. */
export interface WarmTerms {
  readonly own: number
  /** Taken off: what a second copy of a crowded prefix is worth to others. */
  readonly copy: number
  readonly wait: number
  /** Steps of those who decode, before the first token. */
  readonly step: number
  readonly stall: number
  readonly decode: number
  readonly full: number
}

export interface CostPolicy {
  readonly name: string
  readonly unit: 'blocks' | 'ms'
  /** Writes `rows.costs` for every row; allocates nothing. */
  fill(rows: CandidateRows, inputs: CostInputs): void
  /** Added to every cost before wishes multiply it: what a request takes anywhere, where costs count only what differs. */
  everywhere?(inputs: CostInputs): number
  /** The terms behind one row's cost. Other rows may matter: decay looks at the calmest of them. */
  explain(rows: CandidateRows, row: number, inputs: CostInputs): CostBreakdown
}
