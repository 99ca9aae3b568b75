// Question: what do pairs do to the time to the first token and between tokens, and when is a remote prefill worth it? The
// conversation trace on a virtual clock: figures are of the simulated engines, the same on every machine.
import { readTrace } from '../../src/sim/replay/dynamo-cells.case.js'
import type { ReplayReport } from '../../src/sim/index.js'
import { CorePolicy, PairPolicy, replay } from '../../src/sim/index.js'
import type { BenchContext } from '../harness.js'
import { defineBench } from '../harness.js'

const conditional = { policy: 'isl_bounding', effIslThreshold: 2048, effIslRatioThreshold: 0.7 } as const
/** About 64 GB/s for the KV of an 8B model. */
const transferMsPerToken = 0.002

type Trace = ReturnType<typeof readTrace>
type Cell = (trace: Trace, arrivalSpeedup: number) => ReplayReport

const together =
  (workers: number): Cell =>
  (trace, arrivalSpeedup) =>
    replay(trace, { workers, policy: new CorePolicy(), arrivalSpeedup })

const paired =
  (prefillWorkers: number, decodeWorkers: number, isConditional: boolean): Cell =>
  (trace, arrivalSpeedup) =>
    replay(trace, {
      workers: prefillWorkers + decodeWorkers,
      pairs: { prefillWorkers, transferMsPerToken },
      policy: new PairPolicy({ prefillWorkers, conditional: isConditional ? conditional : undefined }),
      arrivalSpeedup,
    })

const cells: Readonly<Record<string, Cell>> = {
  agg4: together(4),
  p2d2: paired(2, 2, false),
  p2d2_conditional: paired(2, 2, true),
  agg8: together(8),
  p4d4: paired(4, 4, false),
  p4d4_conditional: paired(4, 4, true),
}

export const benches = Object.entries(cells).map(([name, cell]) =>
  defineBench(`disagg.virtual.${name}`, 'the conversation trace: time to first token, time between tokens', (bench) =>
    run(bench, name, cell),
  ),
)

function run(bench: BenchContext, name: string, cell: Cell): void {
  const trace = readTrace().slice(0, bench.size(100, 12_031))
  const report = cell(trace, Number(process.env['PAIR_SPEEDUP'] ?? 1))
  if (report.completed !== trace.length)
    throw new Error(`${report.completed} of ${trace.length} requests were completed`)
  const figures = {
    ttft_p50_ms: report.ttft_ms.p50,
    ttft_p99_ms: report.ttft_ms.p99,
    itl_p50_ms: report.itl_ms.p50,
    itl_p99_ms: report.itl_ms.p99,
    reuse: report.reuse,
    remote_prefills: report.remote_prefills,
  }
  for (const [figure, value] of Object.entries(figures))
    bench.report({
      id: `disagg.virtual.${name}.${figure}`,
      value,
      unit: figure.endsWith('_ms') ? 'ms (virtual)' : figure === 'reuse' ? 'share' : 'count',
      spread: 0,
      checksum: `${report.ttft_ms.mean.toFixed(6)} ${report.cached_tokens}`,
    })
}
