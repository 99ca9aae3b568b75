import { expect, it } from 'vitest'
import { createPrefixIndex, KvIndex, TieredBatch } from '../index/index.js'
import type { RouterConfigInput, RouterEvent } from '../protocol/index.js'
import { toHashColumn } from '../protocol/index.js'
import { Fleet, pin } from './fleet.case.js'
import { strayRanksMax } from './stray-ranks.js'

function fleetWithIndex(config: RouterConfigInput = {}): Fleet {
  return new Fleet({
    workers: 2,
    config,
    index: (ranks) => new KvIndex({ ranks, device: createPrefixIndex({ seedLo: 1, seedHi: 2 }), startMs: 0, seed: 1 }),
  })
}

const stored = (workerId: bigint): RouterEvent => ({
  workerId,
  storageTier: 'device',
  residencyDomain: 'missing',
  event: {
    eventId: 1n,
    dpRank: 0,
    data: {
      kind: 'stored',
      parentHash: null,
      startPosition: null,
      blocks: [{ blockHash: 1n, tokensHash: 2n, mmExtraInfo: null }],
    },
  },
})

const booking = (requestId: string) => ({ requestId, promptTokens: 16, blockCount: 0, isQueryOnly: false })

it('bookings on workers that nobody knows are bounded; those that ended make room', () => {
  const fleet = new Fleet({ workers: 1 })
  const book = (at: number): void =>
    fleet.core.book(booking(`r${at}`), { workerId: BigInt(1000 + at), dpRank: 0 }, 0, fleet.moment)
  for (let at = 0; at < strayRanksMax; at++) book(at)
  expect(() => book(strayRanksMax)).toThrow(expect.objectContaining({ code: 'WR_TRACKER_FULL' }))
  expect(fleet.core.ranks.liveCount).toBe(strayRanksMax + 1)
  for (const at of [5, 6]) fleet.free(`r${at}`)
  book(strayRanksMax)
  expect(fleet.core.ranks.liveCount).toBe(strayRanksMax) // both that were idle are gone, one came
  expect(fleet.core.ranks.find(1005n, 0)).toBeUndefined()
})

it('workers that were registered keep their ranks, and do not take room from others', () => {
  const fleet = new Fleet({ workers: 0 })
  fleet.core.registerWorkers([7n], fleet.moment)
  for (let at = 0; at <= strayRanksMax; at++) {
    fleet.core.book(booking('r'), { workerId: BigInt(1000 + at), dpRank: 0 }, 0, fleet.moment)
    fleet.free('r')
  }
  expect(fleet.core.ranks.find(7n, 0)).toBeDefined()
})

it.each([
  { workerId: -1n, dpRank: 0 },
  { workerId: 1n << 64n, dpRank: 0 },
  { workerId: 9n, dpRank: Number.NaN },
  { workerId: 9n, dpRank: 1.5 },
  { workerId: 9n, dpRank: Number.POSITIVE_INFINITY },
  { workerId: 9n, dpRank: 2 ** 32 },
])('a booking on a rank that cannot be is refused (%#)', (worker) => {
  const fleet = new Fleet()
  expect(() => fleet.core.book(booking('r'), worker, 0, fleet.moment)).toThrow(
    expect.objectContaining({ code: 'WR_INVALID_ARGUMENT' }),
  )
  expect(fleet.core.ranks.liveCount).toBe(2)
})

it('peers cannot name ranks without end either', () => {
  const fleet = new Fleet({ workers: 1 })
  const data = { kind: 'add_request', trackPrefillTokens: true } as const
  const events = Array.from({ length: strayRanksMax + 3 }, (_, at) => {
    return { requestId: `p${at}`, worker: { workerId: BigInt(1000 + at), dpRank: 0 }, routerId: 9n, data }
  })
  expect(fleet.core.applyReplica(events, fleet.moment)).toMatchObject({ applied: strayRanksMax, refused: 3 })
})

it('late events of a worker that left do not bring it back, until it is known again', () => {
  const fleet = fleetWithIndex()
  const { core } = fleet
  expect(core.applyEvents([stored(1n)])).toEqual(['ok'])
  core.removeWorker(1n, fleet.moment)
  expect(core.applyEvents([stored(1n), stored(0n)])).toEqual(['unknown_worker', 'ok'])
  expect([core.ranks.find(1n, 0), core.index!.counts.applied('stored', 'unknown_worker')]).toEqual([undefined, 1])
  core.reconcileWorkers(new Map([[1n, { dataParallelStartRank: 0, dataParallelSize: 1 }]]), fleet.moment)
  expect(core.applyEvents([stored(1n), stored(0n)])).toEqual(['ok', 'unknown_worker']) // worker 0 vanished
  expect(core.index!.blocksOf(fleet.rank(1)).device).toBe(1)
})

it('packed events of a rank that was given back are left out, and its number comes to the next worker empty', () => {
  const fleet = fleetWithIndex()
  const { core } = fleet
  const [gone, stays] = [fleet.rank(1), fleet.rank(0)]
  const [external, local] = [toHashColumn([1n, 2n]), toHashColumn([11n, 12n])]
  const batch = new TieredBatch()
  for (const rank of [gone, stays]) batch.device.stored(rank, undefined, external, local)
  batch.hostPinned.stored(gone, undefined, external, local)
  batch.disk.removed(gone, external)
  batch.cleared(gone)
  core.removeWorker(1n, fleet.moment)
  core.applyBatch(batch)
  core.setWorker(7n, { dataParallelStartRank: 0, dataParallelSize: 1 }, fleet.moment)
  expect(fleet.rank(7)).toBe(gone)
  expect([core.index!.blocksOf(gone), core.index!.blocksOf(stays).device]).toEqual([
    { device: 0, host_pinned: 0, disk: 0, external: 0, predicted: 0 },
    2,
  ])
  const dropped = (['stored', 'removed', 'cleared'] as const).map((it) =>
    core.index!.counts.applied(it, 'unknown_worker'),
  )
  expect(dropped).toEqual([2, 1, 1])
})

it('events may come before their worker is known, though not of workers without end', () => {
  const { core, moment } = fleetWithIndex()
  expect(core.applyEvents([stored(5n)])).toEqual(['ok'])
  core.setWorker(5n, { dataParallelStartRank: 0, dataParallelSize: 1 }, moment)
  expect(core.index!.blocksOf(core.ranks.find(5n, 0)!).device).toBe(1)
  const outcomes = core.applyEvents(Array.from({ length: strayRanksMax + 9 }, (_, at) => stored(BigInt(1000 + at))))
  expect(outcomes.filter((it) => it === 'ok')).toHaveLength(strayRanksMax)
})

it.each([
  { compat: 'default', kept: 1 },
  { compat: 'dynamo-1.5', kept: 0 },
] as const)('what discovery says of workers that were only registered: $compat', ({ compat, kept }) => {
  const fleet = new Fleet({ workers: 1, config: { compat } })
  fleet.core.registerWorkers([8n], fleet.moment)
  fleet.core.book(booking('r'), { workerId: 8n, dpRank: 0 }, 0, fleet.moment)
  fleet.ask('here', pin(0))
  fleet.core.reconcileWorkers(new Map([[0n, { dataParallelStartRank: 0, dataParallelSize: 1 }]]), fleet.moment)
  expect(fleet.core.sequences.requestCount).toBe(1 + kept)
})
