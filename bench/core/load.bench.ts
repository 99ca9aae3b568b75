import { LoadMonitor } from '../../src/core/load/index.js'
import { defineBench } from '../harness.js'

const workers = 1000

export const benches = [
  defineBench(
    'load.update',
    'does one load report cost the same in a fleet of 1,000 as in a small one?',
    async (bench) => {
      const reports = bench.size(1_000, 1_000_000)
      const { update } = await bench.compare({ update: () => countChanges(reports) })
      bench.report({
        id: 'load.update.w1000.us',
        value: update.cpuNs / reports / 1000,
        unit: 'us',
        spread: update.spread,
        checksum: update.checksum,
      })
    },
  ),
]

/** Every worker swings over and under its limit, so that a good share of the reports changes the busy set. */
function countChanges(reports: number): number {
  const monitor = new LoadMonitor({
    thresholds: { activeDecodeBlocksThreshold: 0.5, activePrefillTokensThreshold: 8192 },
  })
  const capacity = { dataParallelStartRank: 0, dataParallelSize: 1, totalKvBlocks: 1000 }
  monitor.reconcile(new Map(Array.from({ length: workers }, (_, id) => [BigInt(id), capacity])))
  const ids = Array.from({ length: workers }, (_, id) => BigInt(id))
  let changes = 0
  for (let i = 0; i < reports; i++) {
    const load = (i * 7919) % 1000
    const changed = monitor.report({
      workerId: ids[(i * 31) % workers]!,
      dpRank: 0,
      activeDecodeBlocks: load,
      activePrefillTokens: load * 9,
    })
    if (changed) changes++
  }
  return changes
}
