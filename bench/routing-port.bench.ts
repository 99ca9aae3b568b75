// Question: what does the living router cost around a decision? `RouterPort.route` as the gateway calls it: promise, spans,
// observer and clock included; tokens in, booking made; 8 workers, 8,192 tokens, prompts that share a system prompt.
import { defaultWorkerConfig } from '../src/core/protocol/index.js'
import { InProcessRouter } from '../src/routing/index.js'
import type { Bench } from './harness.js'
import { defineBench, involuntarySwitches, percentile } from './harness.js'

export const benches: Bench[] = [
  defineBench('routing.route', 'a route over the port, 8 workers, 8,192 tokens, `policy: warm`', async (context) => {
    const turns = context.size(8, 12_000)
    const port = await InProcessRouter.create({
      blockSize: 16,
      config: { policy: 'warm' },
      random: { draw: () => 0.5, fill: (words) => void words.fill(1) },
      workers: Array.from({ length: 8 }, (_, id) => [BigInt(id), defaultWorkerConfig] as const),
    })
    const prompts = Array.from({ length: context.size(2, 64) }, (_, seed) =>
      Uint32Array.from({ length: 8192 }, (_, at) => (at < 1024 ? at : Math.imul(seed + 1, 7919) + at * 31)),
    )
    const samples: number[] = []
    let checksum = 0
    for (let turn = 0; turn < turns; turn++) {
      const requestId = `measured-${turn}`
      const tokens = prompts[turn % prompts.length]!
      const switches = involuntarySwitches()
      const started = performance.now()
      const { workerId } = await port.route({ requestId, tokens, expectedOutputTokens: 100 })
      const took = performance.now() - started
      const isOurs = involuntarySwitches() === switches
      port.prefillDone(requestId)
      port.free(requestId)
      checksum = (Math.imul(checksum, 31) + Number(workerId)) | 0
      if (turn >= turns / 3 && (isOurs || context.isSmoke)) samples.push(took * 1000)
    }
    await port.close()
    const sorted = Float64Array.from(samples).sort()
    const spread = (percentile(sorted, 0.75) - percentile(sorted, 0.25)) / percentile(sorted, 0.5)
    const common = { unit: 'us', spread, checksum: String(checksum) }
    context.report({ id: 'routing.route.w8.t8k.p50_us', value: percentile(sorted, 0.5), ...common })
    context.report({ id: 'routing.route.w8.t8k.p99_us', value: percentile(sorted, 0.99), ...common })
  }),
]
