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
}

export const defaultWorkerConfig: WorkerConfig = Object.freeze({ dataParallelStartRank: 0, dataParallelSize: 1 })

/** What a request demands of a worker, and what it would like. */
export interface RoutingConstraints {
  /** A worker must carry all of them. */
  readonly requiredTaints?: readonly string[] | undefined
  /** Weight per taint: above 0 attracts, below 0 repels. */
  readonly preferredTaints?: Readonly<Record<string, number>> | undefined
}
