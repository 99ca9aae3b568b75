// Question: how long does an hour of trace take on the virtual clock? Every routing experiment pays it once per cell.
import { readTrace } from '../../src/sim/replay/dynamo-cells.case.js'
import { replay, roundRobin } from '../../src/sim/index.js'
import { defineBench } from '../harness.js'

export const benches = [
  defineBench('sim.virtual', 'seconds to replay the conversation trace over 8 workers, round robin', async (bench) => {
    const trace = readTrace().slice(0, bench.size(200, 12_031))
    const timing = await bench.compare({
      replay: () => {
        const report = replay(trace, { workers: 8, policy: roundRobin(8) })
        return `${report.ttft_ms.mean.toFixed(6)} ${report.cached_tokens}`
      },
    })
    bench.report({
      id: 'sim.virtual.mooncake8.wall_s',
      value: timing.replay.cpuNs / 1e9,
      unit: 's (CPU)',
      spread: timing.replay.spread,
      checksum: timing.replay.checksum,
    })
  }),
]
