/** What a request would find on every rank: one column per figure, indexed by rank, filled again and again. */

export interface LoadColumns {
  /** The columns are valid for ranks below this. */
  rankCount: number
  /** 1: the tracker knows the rank. The other columns are 0 where it does not. */
  isTracked: Uint8Array
  /** Prompt tokens that are booked there and not computed yet; the request's own are not among them. */
  prefillTokens: Float64Array
  /** Blocks that the rank would hold with this request: those it holds, and those of the query that it does not share. */
  decodeBlocks: Float64Array
  activeRequests: Uint32Array
  /** Present: filled too. Only a cost in milliseconds reads them. */
  detail?: LoadDetail | undefined
}

/** What a cost in milliseconds needs beyond blocks. Columns indexed by rank. */
export interface LoadDetail {
  /** Predicted time until every booked prompt is computed; what has run of the oldest is taken off. */
  prefillMs: Float64Array
  /** Requests whose prompt is not computed yet. */
  prefillRequests: Uint32Array
  /** Blocks of all running requests, each counted for every request that reads it: decoding reads them all. */
  contextBlocks: Float64Array
  /** Requests that decode there, and `contextBlocks`, averaged over the last half minute or so. */
  usualDecoding: Float64Array
  usualContextBlocks: Float64Array
  /** Leading blocks of the query that running requests of the rank have or are about to compute. */
  sharedBlocks: Uint32Array
  readonly crowds: Crowds
}

/** How crowded the beginning of the query is: stretches of its blocks, from the first on, with the running requests that have them. */
export interface Crowds {
  count: number
  /** By stretch: the number of query blocks up to its end. */
  ends: Uint32Array
  /** By stretch: running requests for each rank that has any. Never grows from one stretch to the next by the same holders. */
  perHolder: Float64Array
}

export function newCrowds(): Crowds {
  return { count: 0, ends: new Uint32Array(8), perHolder: new Float64Array(8) }
}

export function newLoadColumns(rankCapacity = 0): LoadColumns {
  return {
    rankCount: 0,
    isTracked: new Uint8Array(rankCapacity),
    prefillTokens: new Float64Array(rankCapacity),
    decodeBlocks: new Float64Array(rankCapacity),
    activeRequests: new Uint32Array(rankCapacity),
  }
}

export function newLoadDetail(rankCapacity = 0): LoadDetail {
  return {
    prefillMs: new Float64Array(rankCapacity),
    prefillRequests: new Uint32Array(rankCapacity),
    contextBlocks: new Float64Array(rankCapacity),
    usualDecoding: new Float64Array(rankCapacity),
    usualContextBlocks: new Float64Array(rankCapacity),
    sharedBlocks: new Uint32Array(rankCapacity),
    crowds: newCrowds(),
  }
}

/** Makes room; what the columns held is lost. */
export function resetLoadColumns(columns: LoadColumns, rankCount: number): void {
  if (columns.isTracked.length < rankCount) Object.assign(columns, newLoadColumns(Math.max(rankCount, 16) * 2))
  if (columns.detail && columns.detail.prefillMs.length < rankCount)
    columns.detail = newLoadDetail(Math.max(rankCount, 16) * 2)
  columns.rankCount = rankCount
}
