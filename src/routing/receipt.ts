/** Why this worker, for whoever embeds the router: by the names of the workers, and plain enough for `JSON.stringify`. */
import type { WorkerRank } from '../core/protocol/index.js'
import type { Receipt as DecisionReceipt } from '../core/router/index.js'

/** By its name, as in `Placement.worker`. */
type Named<Row extends WorkerRank> = Omit<Row, 'workerId'> & { readonly worker: string }

/**
 * Why this worker: every candidate with its terms, who was left out and why, and how close it was.
 *
 * @example
 * import { createRouter, type Receipt } from 'warmroute'
 *
 * const router = await createRouter({ blockSize: 16, workers: ['gpu-1', 'gpu-2'] })
 * const { receipt } = await router.route({ tokens: Uint32Array.of(1, 2, 3), excludedWorkers: ['gpu-2'], wantReceipt: true })
 * const why = ({ chosen, exclusions }: Receipt): string => `${chosen.worker}; ${JSON.stringify(exclusions)}`
 * console.log(why(receipt!)) // => gpu-1; [{"worker":"gpu-2","dpRank":0,"reason":"excluded"}]
 * await router.close()
 */
export interface Receipt extends Omit<DecisionReceipt, 'chosen' | 'runnerUp' | 'candidates' | 'exclusions'> {
  readonly chosen: Named<DecisionReceipt['chosen']>
  /** The cheapest of the others. */
  readonly runnerUp: Named<DecisionReceipt['chosen']> | undefined
  readonly candidates: readonly Named<DecisionReceipt['chosen']>[]
  readonly exclusions: readonly Named<DecisionReceipt['exclusions'][number]>[]
}

export function namedReceipt(receipt: DecisionReceipt, nameOf: (workerId: bigint) => string): Receipt {
  const named = <Row extends WorkerRank>({ workerId, ...rest }: Row): Named<Row> => ({
    worker: nameOf(workerId),
    ...rest,
  })
  const { chosen, runnerUp, candidates, exclusions } = receipt
  return {
    ...receipt,
    chosen: named(chosen),
    runnerUp: runnerUp && named(runnerUp),
    candidates: candidates.map(named),
    exclusions: exclusions.map(named),
  }
}
