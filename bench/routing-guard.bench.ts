import { RequestGuard } from '../src/routing/index.js'
import { defineBench } from './harness.js'

const tokens = 200

export const benches = [
  defineBench('guard.lifecycle', 'is guarding a stream small beside relaying it?', async (bench) => {
    const requests = bench.size(20, 20_000)
    const { guard } = await bench.compare({ guard: () => runRequests(requests) })
    const { checksum, spread } = guard
    bench.report({ id: 'guard.lifecycle.us', value: guard.cpuNs / requests / 1000, unit: 'us', spread, checksum })
  }),
]

/** One guard around 200 single tokens each, with every hook in place and a port that only counts. */
function runRequests(requests: number): number {
  let calls = 0
  const count = (): void => void calls++
  const hooks = { onFirstItem: count, onFirstToken: count, onOutputBlock: count, onFinish: count, closeSession: count }
  let now = 0
  for (let i = 0; i < requests; i++) {
    const guard = new RequestGuard(
      { prefillDone: count, outputBlock: count, free: count },
      {
        requestId: `request-${i}`,
        isTracked: true,
        promptTokens: 1000,
        blockSize: 16,
        tracksOutput: true,
        expectedOutputTokens: tokens,
        startedAtMs: now,
      },
      hooks,
      () => (now += 0.1),
    )
    guard.dispatched()
    for (let token = 0; token < tokens; token++) guard.item(1)
    guard.end('completed')
  }
  return calls
}
