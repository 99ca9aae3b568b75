import { WarmrouteError } from './errors.js'

/** What a worker says about itself when it joins, as far as routing needs it. Snake case on the wire, as upstream. */
export interface WorkerConfig {
  /** The worker owns the global ranks from here, `dataParallelSize` of them; a size of 0 owns none. */
  readonly dataParallelStartRank: number
  readonly dataParallelSize: number
  /** Tokens of one engine step: the unit of the queue threshold. Unknown counts as 10,000,000, so it never looks busy. */
  readonly maxNumBatchedTokens?: number | undefined
  readonly totalKvBlocks?: number | undefined
  /** Labels that a request may require or prefer. */
  readonly taints?: ReadonlySet<string> | undefined
  readonly stableRoutingId?: string | undefined
  /** Where the worker stands, by kind of place. */
  readonly topologyDomains?: Readonly<Record<string, string>> | undefined
  readonly kvTransferDomain?: string | undefined
  readonly kvTransferEnforcement?: 'required' | 'preferred' | undefined
  readonly kvTransferPreferredWeight?: number | undefined
}

/** Stands in for `maxNumBatchedTokens` where a worker does not tell. */
export const maxNumBatchedTokensDefault = 10_000_000

/** More ranks than this in one worker is a mistake in its report, not a fleet. */
export const dataParallelSizeMax = 65_536

export const defaultWorkerConfig: WorkerConfig = Object.freeze({ dataParallelStartRank: 0, dataParallelSize: 1 })

/** What a request demands of a worker, and what it would like. */
export interface RoutingConstraints {
  /** A worker must carry all of them. */
  readonly requiredTaints?: readonly string[] | undefined
  /** Weight per taint: above 0 attracts, below 0 repels. */
  readonly preferredTaints?: Readonly<Record<string, number>> | undefined
}

/** Throws `WR_INVALID_ARGUMENT` for a fact that no worker can have: a bad report must not reach the cost function. */
export function validateWorkerConfig(config: WorkerConfig): void {
  const u32Max = 0xffff_ffff
  const { dataParallelStartRank: start, dataParallelSize: size, maxNumBatchedTokens, totalKvBlocks } = config
  requireInteger('dataParallelStartRank', start, u32Max)
  requireInteger('dataParallelSize', size, dataParallelSizeMax)
  requireInteger('last dp rank', start + Math.max(0, size - 1), u32Max)
  if (maxNumBatchedTokens !== undefined)
    requireInteger('maxNumBatchedTokens', maxNumBatchedTokens, Number.MAX_SAFE_INTEGER)
  if (totalKvBlocks !== undefined) requireInteger('totalKvBlocks', totalKvBlocks, Number.MAX_SAFE_INTEGER)
}

function requireInteger(field: string, value: number, max: number): void {
  if (Number.isInteger(value) && value >= 0 && value <= max) return
  throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `${field} is ${value}`, field, value, max })
}
