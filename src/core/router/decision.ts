/** What became of a request. A normal outcome is a value; only the caller knows which of them is an error to somebody. */
import type { Rank, WarmrouteError, WorkerRank } from '../protocol/index.js'
import type { LesserOverlap } from '../selection/index.js'
import type { ParkedRequest } from './parked-request.js'
import type { Receipt } from './receipt.js'

export interface Picked {
  readonly kind: 'picked'
  readonly rank: Rank
  readonly worker: WorkerRank
  /** Blocks of the prompt that the rank holds, lower tiers weighed. */
  readonly effectiveOverlapBlocks: number
  readonly cachedTokens: number
  readonly waitedMs: number
  readonly receipt: Receipt | undefined
  /** Somebody eligible holds more of the prompt; looked for only where somebody wants to know. */
  readonly lesserOverlap: LesserOverlap | undefined
}

export interface Refused {
  readonly kind: 'refused'
  readonly error: WarmrouteError
}

export type Decision = Picked | Refused | { readonly kind: 'parked'; readonly parked: ParkedRequest }

/** A parked request left the queue. */
export interface Dispatch {
  readonly parked: ParkedRequest
  /** `refresh`: it waited long, and the index is not here; look it up again and call `place`. */
  readonly decision: Picked | Refused | { readonly kind: 'refresh' }
}
