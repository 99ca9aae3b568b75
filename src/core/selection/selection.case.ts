/** One way to write a selection down, so that every case is data. */
import type { WorkerConfig } from '../protocol/index.js'
import { defaultRouterConfig, newMatchColumns, RankTable, resetMatchColumns, WorkerTable } from '../protocol/index.js'
import { newLoadColumns } from '../sequences/index.js'
import type { CostSettings } from './cost-settings.js'
import { costSettingsOf } from './cost-settings.js'
import type { SelectionRequest } from './worker-selector.js'

export interface RankState {
  device?: number
  host?: number
  disk?: number
  external?: number
  /** Weighted blocks from a source without tiers. */
  effective?: number
  activeTokens?: number
  /** Blocks after admission. */
  decode?: number
  requests?: number
  isUntracked?: boolean
}

export interface Fleet {
  readonly workers: WorkerTable
  readonly request: SelectionRequest
}

/** A fleet of one-rank workers, in order of their ids, and a request against it. */
export function fleetOf(
  states: Readonly<Record<string, RankState>>,
  settings: Partial<CostSettings> = {},
  request: Partial<SelectionRequest> = {},
  configs: Readonly<Record<string, Partial<WorkerConfig>>> = {},
): Fleet {
  const workers = new WorkerTable(new RankTable())
  for (const id of Object.keys(states))
    workers.set(BigInt(id), { dataParallelStartRank: 0, dataParallelSize: 1, ...configs[id] })
  const rankCount = workers.ranks.size
  const load = newLoadColumns(rankCount)
  load.rankCount = rankCount
  const match = newMatchColumns()
  resetMatchColumns(match, rankCount)
  const effectiveBlocks = new Float64Array(rankCount)
  for (const [id, state] of Object.entries(states))
    for (const rank of workers.ranks.ofWorker(BigInt(id))) {
      load.isTracked[rank] = state.isUntracked ? 0 : 1
      load.prefillTokens[rank] = state.activeTokens ?? 0
      load.decodeBlocks[rank] = state.decode ?? 0
      load.activeRequests[rank] = state.requests ?? 0
      match.device[rank] = state.device ?? 0
      match.hostPinned[rank] = state.host ?? 0
      match.disk[rank] = state.disk ?? 0
      match.external[rank] = state.external ?? 0
      if (state.host || state.disk || state.external) match.hasLowerTiers = true
      effectiveBlocks[rank] = state.effective ?? 0
    }
  const isSummary = Object.values(states).some((state) => state.effective !== undefined)
  return {
    workers,
    request: {
      promptTokens: 64,
      blockTokens: 16,
      trackedBlocks: 4,
      label: 'decode',
      draw: 0,
      settings: { ...costSettingsOf(defaultRouterConfig), ...settings },
      load,
      cache: isSummary ? { match, effectiveBlocks } : { match },
      ...request,
    },
  }
}
