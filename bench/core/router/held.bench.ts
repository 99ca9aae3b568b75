// Question: what does one look at the held requests cost when 10,000 are held? It happens with every first token and end,
// so it must stay below a millisecond. Sixteen workers; one of them becomes free, and the request that it suits best leaves.
// Wall time; looks during which another process had the processor are left out, and a third of the turns warms up.
import { createPrefixIndex, KvIndex } from '../../../src/core/index/index.js'
import { FleetModel } from '../../../src/core/load/index.js'
import type { HashColumn } from '../../../src/core/protocol/index.js'
import { completeRouterConfig, defaultWorkerConfig, newHashColumn } from '../../../src/core/protocol/index.js'
import { profileFor } from '../../../src/core/queue/index.js'
import { RouterCore } from '../../../src/core/router/index.js'
import type { Bench } from '../../harness.js'
import { defineBench, involuntarySwitches, percentile } from '../../harness.js'

const blockSize = 64
const workerCount = 16

export const benches: Bench[] = [
  defineBench('queue.held', 'one late-binding pass with 10,000 held requests', (context) => {
    const heldCount = context.size(200, 10_000)
    const turns = context.size(20, 6000)
    const config = completeRouterConfig({ policy: 'warm', routerLateBinding: true, routerQueueParkedMax: 100_000 })
    const core = new RouterCore({
      config,
      blockSize,
      profile: profileFor(undefined, undefined, config),
      label: 'decode',
      // Fixed: a clock that makes every prefill last as long as its turn would teach that all prompts are little.
      model: new FleetModel({
        profile: { base: 10, perToken: 0.02, perToken2: 0, perTokenPrefix: 0 },
        isLearning: false,
      }),
      index: (ranks) =>
        new KvIndex({ ranks, device: createPrefixIndex({ seedLo: 1, seedHi: 2 }), startMs: 0, seed: 1 }),
    })
    const moment = { nowMs: 0, draw: () => 0.5 }
    const worker = { ...defaultWorkerConfig, totalKvBlocks: 16_384 }
    core.reconcileWorkers(new Map(Array.from({ length: workerCount }, (_, id) => [BigInt(id), worker])), moment)
    let arrivals = 0
    const arrive = (): void => {
      const n = arrivals++
      const blockCount = 8 + ((n * 7919) % 240)
      const hashes = newHashes(blockCount, n)
      const promptTokens = blockCount * blockSize
      const names = { localHashes: hashes, sequenceHashes: hashes, blockCount }
      core.decide({ requestId: String(n), promptTokens, ...names, isQueryOnly: false }, moment)
    }
    const running: string[] = []
    const collect = (): void => {
      for (const { parked } of core.takeDispatched()) running.push(parked.request.requestId!)
    }
    while (core.pendingCount < heldCount) arrive()
    core.recheck(moment)
    collect()
    const samples: number[] = []
    for (let turn = 0; turn < turns; turn++) {
      moment.nowMs += 10
      while (core.pendingCount < heldCount) arrive()
      const first = running.shift()!
      const switches = involuntarySwitches()
      const started = performance.now()
      core.markPrefillCompleted(first, moment)
      const took = performance.now() - started
      const isOurs = involuntarySwitches() === switches
      if (turn >= turns / 3 && (isOurs || context.isSmoke)) samples.push(took * 1000)
      core.free(first, moment)
      collect()
    }
    const sorted = Float64Array.from(samples).sort()
    const value = sorted.reduce((sum, it) => sum + it, 0) / sorted.length
    const spread = (percentile(sorted, 0.75) - percentile(sorted, 0.25)) / Math.max(1, percentile(sorted, 0.5))
    const checksum = String(running.length)
    context.report({ id: 'queue.held10k.pass_us', value, unit: 'us', spread, checksum })
    context.report({ id: 'queue.held10k.pass_p99_us', value: percentile(sorted, 0.99), unit: 'us', spread, checksum })
  }),
]

function newHashes(count: number, seed: number): HashColumn {
  const column = newHashColumn(count)
  for (let at = 0; at < column.length; at++) column[at] = Math.imul(seed + 1, 2654435761) ^ Math.imul(at, 40503)
  return column
}
