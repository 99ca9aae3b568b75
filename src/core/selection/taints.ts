/** What a request would like of a worker, as a factor on its cost. */
import type { RoutingConstraints, WorkerTable } from '../protocol/index.js'
import { entriesOf, WarmrouteError } from '../protocol/index.js'
import type { CandidateRows } from './candidates.js'
import type { CostInputs, CostPolicy } from './cost-policy.js'

/** Multiplies every cost by exp(-tanh(sum of the weights of the worker's taints)): above 0 attracts, below 0 repels. */
export function applyPreferences(
  rows: CandidateRows,
  workers: WorkerTable,
  policy: CostPolicy,
  request: CostInputs & { readonly constraints?: RoutingConstraints | undefined },
): void {
  const preferred = request.constraints?.preferredTaints
  if (!preferred) return
  const wishes = [...entriesOf(preferred)]
  if (wishes.length === 0) return
  for (const [taint, weight] of wishes)
    if (!Number.isFinite(weight))
      throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `taint ${taint} weighs ${weight}`, taint, weight })
  const everywhere = policy.everywhere?.(request) ?? 0
  for (let row = 0; row < rows.count; row++)
    rows.costs[row] = (rows.costs[row]! + everywhere) * preferenceFactor(workers.taintsOf(rows.ranks[row]!), wishes)
}

export function preferenceFactor(
  carried: ReadonlySet<string> | undefined,
  wishes: readonly (readonly [taint: string, weight: number])[],
): number {
  let sum = 0
  if (carried) for (const [taint, weight] of wishes) if (carried.has(taint)) sum += weight
  return Math.exp(-Math.tanh(sum))
}
