/** The policies that look at no cache: from ranks that may serve and what runs on them to one rank. Pure. */

export const policyNames = ['round-robin', 'random', 'least-loaded', 'power-of-two', 'token-balance', 'direct'] as const
export type PolicyName = (typeof policyNames)[number]

/** A rank that may take the request. */
export interface RankRow {
  readonly workerId: bigint
  readonly dpRank: number
  activeRequests: number
  /** Prompt tokens of running requests. */
  activeTokens: number
}

/** `turn` counts requests; `draw` gives numbers from 0 to below 1. `rows` is never empty. */
export function pickRank(policy: PolicyName, rows: readonly RankRow[], turn: number, draw: () => number): RankRow {
  switch (policy) {
    case 'round-robin':
    case 'direct':
      return rows[turn % rows.length]!
    case 'random':
      return rows[Math.floor(draw() * rows.length)]!
    case 'least-loaded':
      return least(rows, turn, (row) => row.activeRequests)
    case 'token-balance':
      return least(rows, turn, (row) => row.activeTokens)
    case 'power-of-two': {
      const first = Math.floor(draw() * rows.length)
      if (rows.length === 1) return rows[first]!
      const second = (first + 1 + Math.floor(draw() * (rows.length - 1))) % rows.length
      return rows[second]!.activeRequests < rows[first]!.activeRequests ? rows[second]! : rows[first]!
    }
  }
}

/** Ties go round, so that idle ranks share: otherwise the first would take every quiet moment. */
function least(rows: readonly RankRow[], turn: number, loadOf: (row: RankRow) => number): RankRow {
  let best = rows[turn % rows.length]!
  for (let step = 1; step < rows.length; step++) {
    const row = rows[(turn + step) % rows.length]!
    if (loadOf(row) < loadOf(best)) best = row
  }
  return best
}
