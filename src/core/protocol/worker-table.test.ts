import fc from 'fast-check'
import { expect, it } from 'vitest'
import { RankTable } from './rank-table.js'
import type { WorkerConfig } from './worker-config.js'
import { dataParallelSizeMax, defaultWorkerConfig } from './worker-config.js'
import { WorkerTable } from './worker-table.js'

function owning(start: number, size: number, rest: Partial<WorkerConfig> = {}): WorkerConfig {
  return { dataParallelStartRank: start, dataParallelSize: size, ...rest }
}

function pairs(table: WorkerTable): string[] {
  return [...table.served.subarray(0, table.servedCount)].map((rank) => {
    const { workerId, dpRank } = table.ranks.pairOf(rank)
    return `${workerId}/${dpRank}`
  })
}

it('serves the owned range of every worker, in order of worker id and dp rank', () => {
  const table = new WorkerTable(new RankTable())
  table.set(2n ** 64n - 1n, owning(4, 2))
  table.set(3n, defaultWorkerConfig)
  table.set(5n, owning(0, 0))
  expect(pairs(table)).toEqual(['3/0', '18446744073709551615/4', '18446744073709551615/5'])
  expect(table.workerCount).toBe(3)
})

it('knows the one rank of a worker that has one, and of no other', () => {
  const table = new WorkerTable(new RankTable())
  table.set(1n, owning(7, 1))
  table.set(2n, owning(0, 2))
  table.set(3n, owning(0, 0))
  expect([1n, 2n, 3n, 4n].map((id) => table.uniqueDpRank(id))).toEqual([7, undefined, undefined, undefined])
})

it('keeps the facts that a worker tells and stands in for those it does not', () => {
  const table = new WorkerTable(new RankTable())
  const [plain] = table.set(1n, owning(0, 1)).added
  const [full] = table.set(
    2n,
    owning(0, 1, { maxNumBatchedTokens: 8192, totalKvBlocks: 100, taints: new Set(['gpu']) }),
  ).added
  expect([table.maxBatchedTokens[plain!], table.totalKvBlocks[plain!]]).toEqual([10_000_000, Number.NaN])
  expect([table.maxBatchedTokens[full!], table.totalKvBlocks[full!]]).toEqual([8192, 100])
  expect([table.taintsOf(plain!), table.taintsOf(full!)?.has('gpu')]).toEqual([undefined, true])
})

it.each([
  owning(-1, 1),
  owning(0, -1),
  owning(0.5, 1),
  owning(0, Number.NaN),
  owning(0, Number.POSITIVE_INFINITY),
  owning(0, dataParallelSizeMax + 1),
  owning(2 ** 32 - 1, 2),
  owning(0, 1, { maxNumBatchedTokens: Number.NaN }),
  owning(0, 1, { maxNumBatchedTokens: -1 }),
  owning(0, 1, { totalKvBlocks: Number.POSITIVE_INFINITY }),
])('refuses a config that no worker can have: %o', (config) => {
  const table = new WorkerTable(new RankTable())
  expect(() => table.set(1n, config)).toThrow(expect.objectContaining({ code: 'WR_INVALID_ARGUMENT' }))
  expect(() =>
    table.reconcile(
      new Map([
        [7n, defaultWorkerConfig],
        [8n, config],
      ]),
    ),
  ).toThrow(expect.objectContaining({ code: 'WR_INVALID_ARGUMENT' }))
  expect([table.workerCount, table.servedCount]).toEqual([0, 0])
})

// Goal: whatever comes and goes, the served ranks are those of the configs, and the reported changes add up to them.
it('serves exactly what the configs own, after every change', () => {
  const worker = fc.bigInt(0n, 3n)
  const config = fc.record({
    dataParallelStartRank: fc.integer({ min: 0, max: 3 }),
    dataParallelSize: fc.integer({ min: 0, max: 3 }),
  })
  const step = fc.oneof(
    fc.record({ kind: fc.constant('set' as const), worker, config }),
    fc.record({ kind: fc.constant('remove' as const), worker }),
    fc.record({
      kind: fc.constant('reconcile' as const),
      configs: fc.array(fc.tuple(worker, config), { maxLength: 3 }),
    }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const table = new WorkerTable(new RankTable())
      let model = new Map<bigint, WorkerConfig>()
      const reported = new Set<number>()
      for (const it of steps) {
        const change =
          it.kind === 'set'
            ? table.set(it.worker, it.config)
            : it.kind === 'remove'
              ? table.remove(it.worker)
              : table.reconcile(new Map(it.configs))
        if (it.kind === 'set') model.set(it.worker, it.config)
        else if (it.kind === 'remove') model.delete(it.worker)
        else model = new Map(it.configs)
        for (const rank of change.removed) expect(reported.delete(rank)).toBe(true)
        for (const rank of change.added) {
          expect(reported.has(rank)).toBe(false)
          reported.add(rank)
        }
        for (const rank of change.removed) table.ranks.release(rank)
        const expected = [...model]
          .sort(([a], [b]) => (a < b ? -1 : 1))
          .flatMap(([id, { dataParallelStartRank: start, dataParallelSize: size }]) =>
            Array.from({ length: size }, (_, offset) => `${id}/${start + offset}`),
          )
        expect(pairs(table)).toEqual(expected)
        expect(reported).toEqual(new Set(table.served))
        expect(table.servedCount).toBe(table.served.length)
      }
    }),
  )
})
