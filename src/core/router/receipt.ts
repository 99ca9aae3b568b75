/** Why this worker: everything that one decision compared, kept only when somebody asked for it. */
import type { WorkerRank } from '../protocol/index.js'

/** One candidate. Blocks and tokens are as they stood at the moment of the decision. */
export interface ReceiptRow extends WorkerRank {
  readonly deviceBlocks: number
  readonly hostBlocks: number
  readonly diskBlocks: number
  readonly sharedBlocks: number
  /** Prefill tokens that were already booked there. */
  readonly activePrefillTokens: number
  /** Blocks it would hold with this request. */
  readonly decodeBlocks: number
  readonly activeRequests: number
  readonly creditBlocks: number
  readonly cost: number
}

export interface ReceiptExclusion extends WorkerRank {
  readonly reason: string
}

export interface Receipt {
  readonly requestId: string | undefined
  readonly promptTokens: number
  readonly promptBlocks: number
  readonly blockSize: number
  readonly temperature: number
  /** The uniform draw that broke a tie or sampled; the decision can be repeated with it. */
  readonly draw: number
  readonly waitedMs: number
  readonly chosen: ReceiptRow
  readonly runnerUp: ReceiptRow | undefined
  /** Cost of the runner-up minus cost of the chosen one; below 0 when temperature chose against cost. */
  readonly margin: number | undefined
  readonly candidates: readonly ReceiptRow[]
  readonly exclusions: readonly ReceiptExclusion[]
}
