// Question: what does choosing cost once loads and depths are columns, and together with the load query before it?
import {
  defaultRouterConfig,
  newMatchColumns,
  RankTable,
  resetMatchColumns,
  WorkerTable,
} from '../../src/core/protocol/index.js'
import { costSettingsOf, DefaultWorkerSelector, SharedCacheHits } from '../../src/core/selection/index.js'
import type { SelectionRequest } from '../../src/core/selection/index.js'
import { ActiveSequences, newLoadColumns } from '../../src/core/sequences/index.js'
import type { BenchContext } from '../harness.js'
import { defineBench } from '../harness.js'

async function select({ size, compare, report }: BenchContext): Promise<void> {
  for (const workerCount of [8, 128, 1000]) {
    const workers = new WorkerTable(new RankTable())
    const configs = Array.from({ length: workerCount }, (_, id) => [
      BigInt(id),
      { dataParallelStartRank: 0, dataParallelSize: 1 },
    ])
    workers.reconcile(new Map(configs as [bigint, { dataParallelStartRank: number; dataParallelSize: number }][]))
    const sequences = new ActiveSequences({ ranks: workers.ranks })
    const prompt = Uint32Array.from({ length: 1024 }, (_, word) => Math.imul(word + 1, 0x9e37_79b1) >>> 0)
    for (let rank = 0; rank < workerCount; rank++)
      for (let request = 0; request < 8; request++)
        sequences.book(
          {
            requestId: `${rank}-${request}`,
            rank,
            sequenceHashes: prompt,
            blockCount: 64,
            prefillLoadHint: { tokens: 512 + ((rank * 37) % 4096) },
          },
          0,
        )
    const load = newLoadColumns()
    sequences.fillLoads(load, 0, prompt)
    const match = newMatchColumns()
    resetMatchColumns(match, workerCount)
    for (let rank = 0; rank < workerCount; rank++) match.device[rank] = (rank * 13) % 64
    const base: SelectionRequest = {
      promptTokens: 8192,
      blockTokens: 16,
      trackedBlocks: 512,
      label: 'decode',
      draw: 0.5,
      settings: costSettingsOf(defaultRouterConfig),
      load,
      cache: { match },
    }
    const selector = new DefaultWorkerSelector()
    const repeats = size(10, Math.ceil(6_000_000 / (workerCount + 60)))
    const repeated =
      (request: SelectionRequest, withLoads = false) =>
      (): number => {
        let sum = 0
        for (let turn = 0; turn < repeats; turn++) {
          if (withLoads) sequences.fillLoads(load, turn, prompt)
          sum += selector.select(workers, request)
        }
        return sum
      }
    const tiers = { ...match, hasLowerTiers: true, hostPinned: match.device.slice() }
    const shared = new SharedCacheHits([[0, 400]])
    const timings = await compare(
      {
        select: repeated(base),
        with_loads: repeated(base, true),
        tiers: repeated({ ...base, cache: { match: tiers } }),
        shared: repeated({ ...base, sharedHits: shared, settings: { ...base.settings, sharedCacheMultiplier: 0.5 } }),
        softmax: repeated({ ...base, settings: { ...base.settings, temperature: 0.5 } }),
      },
      { sameChecksum: false },
    )
    for (const [name, { cpuNs, spread, checksum }] of Object.entries(timings)) {
      const id = `selection.${name}.w${workerCount}.us`
      report({ id, value: cpuNs / 1000 / repeats, unit: 'us', spread, checksum })
    }
  }
}

export const benches = [defineBench('selection.select', 'choosing among 8, 128 and 1,000 workers', select)]
