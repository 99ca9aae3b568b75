// Question: how long does an hour of trace take on the virtual clock? Every routing experiment pays it once per cell. Round robin is the
// price of the engines alone; `dynamo` and `warm` are the product's own core, which hears of every block and decides every request.
import { readTrace } from '../../src/sim/replay/dynamo-cells.case.js'
import { replay, roundRobin, runExperiment } from '../../src/sim/index.js'
import { defineBench } from '../harness.js'

export const benches = [
  defineBench('sim.virtual', 'seconds to replay the conversation trace over 8 workers', async (bench) => {
    const trace = readTrace().slice(0, bench.size(200, 12_031))
    const withCore = (policy: 'dynamo' | 'warm'): string => {
      const report = runExperiment(trace, { workers: 8, policies: [policy] })[0]!
      return `${report.ttft_ms.mean.toFixed(6)} ${report.cached_tokens}`
    }
    const variants = {
      replay: () => {
        const report = replay(trace, { workers: 8, policy: roundRobin(8) })
        return `${report.ttft_ms.mean.toFixed(6)} ${report.cached_tokens}`
      },
      dynamo: () => withCore('dynamo'),
      warm: () => withCore('warm'),
    }
    const timing = await bench.compare(variants, { sameChecksum: false })
    const rows = [
      ['sim.virtual.mooncake8.wall_s', timing.replay],
      ['sim.virtual.mooncake8.dynamo.wall_s', timing.dynamo],
      ['sim.virtual.mooncake8.warm.wall_s', timing.warm],
    ] as const
    for (const [id, { cpuNs, spread, checksum }] of rows)
      bench.report({ id, value: cpuNs / 1e9, unit: 's (CPU)', spread, checksum })
  }),
]
