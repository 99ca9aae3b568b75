import { expect, it } from 'vitest'
import { completeRouterConfig, newMatchColumns, RankTable, resetMatchColumns, WorkerTable } from '../protocol/index.js'
import { costSettingsOf } from './cost-settings.js'
import { listOverlapScores, selectedTiers } from './overlap-scores.js'
import { SharedCacheHits } from './shared-hits.js'

function fleet() {
  const workers = new WorkerTable(new RankTable())
  workers.set(7n, { dataParallelStartRank: 1, dataParallelSize: 1 })
  workers.set(3n, { dataParallelStartRank: 0, dataParallelSize: 1 })
  const warm = workers.ranks.find(7n, 1)!
  const match = newMatchColumns()
  resetMatchColumns(match, workers.ranks.size)
  match.device[warm] = 2
  match.hostPinned[warm] = 1
  match.external[warm] = 2
  match.hasLowerTiers = true
  return { workers, match, warm }
}

const settings = costSettingsOf(
  completeRouterConfig({
    overlapScoreCredit: 0.5,
    hostCacheHitWeight: 0.25,
    diskCacheHitWeight: 0.1,
    sharedCacheMultiplier: 0.5,
  }),
)

it('adds up tiers, credits as the cost does, and lists idle ranks in order', () => {
  const { workers, match } = fleet()
  const [idle, warm] = listOverlapScores(workers, match, settings, new SharedCacheHits([[0, 4]]))
  expect(idle).toMatchObject({ workerId: 3n, dpRank: 0, deviceBlocks: 0, diskBlocks: 0, sharedBeyondDeviceBlocks: 4 })
  expect(warm).toMatchObject({
    workerId: 7n,
    dpRank: 1,
    deviceBlocks: 2,
    hostPinnedBlocks: 3,
    diskBlocks: 5,
    hostPinnedExtensionBlocks: 1,
    diskExtensionBlocks: 2,
    sharedBeyondDeviceBlocks: 2,
  })
  expect(warm!.routerCreditBlocks).toBeCloseTo(2.45, 12)
})

it('without an answer of the shared cache there is no figure for it', () => {
  const { workers, match } = fleet()
  const [, warm] = listOverlapScores(workers, match, settings, undefined)
  expect([warm!.sharedBeyondDeviceBlocks, warm!.routerCreditBlocks]).toEqual([undefined, 1 + 0.25 + 0.2])
})

it('a rank that nobody owns is listed only while it holds something', () => {
  const { workers, match } = fleet()
  const stray = workers.ranks.intern(9n, 0)
  resetMatchColumns(match, workers.ranks.size)
  expect(listOverlapScores(workers, match, settings, undefined)).toHaveLength(2)
  match.device[stray] = 1
  expect(listOverlapScores(workers, match, settings, undefined).at(-1)).toMatchObject({ workerId: 9n, deviceBlocks: 1 })
})

it('the tiers of a chosen worker name every rank of it, and end where 32 bits do', () => {
  const workers = new WorkerTable(new RankTable())
  workers.set(9n, { dataParallelStartRank: 2, dataParallelSize: 2 })
  const rank = workers.ranks.find(9n, 2)!
  const match = newMatchColumns()
  resetMatchColumns(match, workers.ranks.size)
  match.device[rank] = 0xffff_ffff
  match.hostPinned[rank] = 1
  match.disk[rank] = 1
  match.hasLowerTiers = true
  expect(selectedTiers(workers, match, rank)).toEqual({
    deviceBlocksByRank: [
      [2, 0xffff_ffff],
      [3, 0],
    ],
    deviceBlocks: 0xffff_ffff,
    hostPinnedBlocks: 0xffff_ffff,
    diskBlocks: 0xffff_ffff,
  })
})
