/** Who leaves a queue first: the score of a request under a policy, fixed when it is parked. The largest goes first. */
import type { QueuePolicy } from '../protocol/index.js'

export interface OrderingFacts {
  /** Seconds of queueing that may be overtaken; below 0 counts as 0. */
  readonly priorityJump: number
  readonly arrivedSecs: number
  readonly islTokens: number
  /** The most that any rank it may go to has cached of it. */
  readonly bestCachedTokens: number
}

export function orderingScore(policy: QueuePolicy, facts: OrderingFacts): number {
  const jump = Math.max(0, facts.priorityJump)
  switch (policy) {
    case 'fcfs':
      return jump - facts.arrivedSecs
    case 'lcfs':
      return jump + facts.arrivedSecs
    case 'wspt':
      // Weighted shortest processing time: the work is what is left to prefill, and never less than a token.
      return (1 + jump) / Math.max(1, facts.islTokens - facts.bestCachedTokens)
  }
}
