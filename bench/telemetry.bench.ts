import { createGateway, createPolicyRouter } from '../src/server/index.js'
import type { ModelSpec } from '../src/server/index.js'
import { RouterMetrics, workerLabels } from '../src/telemetry/index.js'
import { defineBench, summarise } from './harness.js'

type FeedStatus = ReturnType<NonNullable<ModelSpec['feedsOf']>>[number]

export const benches = [
  defineBench(
    'metrics.scrape',
    'does a scrape of a large fleet stay short, and does it let the loop run?',
    async (bench) => {
      const workers = bench.size(50, 1000)
      const gateway = gatewayOf(workers)
      const { registry } = gateway.metrics
      const longest: number[] = []
      const { scrape } = await bench.compare({
        scrape: async () => {
          let slices = 0
          let longestMs = 0
          let before = process.cpuUsage()
          const pause = (): Promise<void> => {
            const { user, system } = process.cpuUsage(before)
            longestMs = Math.max(longestMs, (user + system) / 1000)
            before = process.cpuUsage()
            return Promise.resolve()
          }
          for await (const _ of registry.stream(pause)) slices++
          longest.push(longestMs)
          return slices
        },
      })
      await gateway.close()
      const id = `metrics.scrape.w1000`
      const { checksum, spread } = scrape
      bench.report({ id: `${id}.ms`, value: scrape.cpuNs / 1e6, unit: 'ms', spread, checksum })
      // CPU time of all threads: garbage that another one collects counts too, so that the median scrape speaks.
      const { median, spread: turnSpread } = summarise(longest)
      bench.report({ id: `${id}.slice_ms`, value: median, unit: 'ms', spread: turnSpread, checksum })
    },
  ),
]

/** A gateway as it stands in front of a large fleet: every gauge of a worker, and the event stream of its rank. */
function gatewayOf(workers: number): ReturnType<typeof createGateway> {
  const gateway = createGateway({
    models: [
      {
        name: 'm',
        blockSize: 16,
        router: createPolicyRouter({ policy: 'round-robin' }),
        feedsOf: () => [feed],
        workers: Array.from({ length: workers }, (_, at) => ({
          id: BigInt(at),
          url: `http://127.0.0.1:${1000 + at}`,
          engine: 'vllm' as const,
        })),
      },
    ],
  })
  const { metrics } = gateway
  const router = new RouterMetrics(metrics, { namespace: 'ns', component: 'c', routerId: 1n })
  for (let id = 0; id < workers; id++) {
    router.observeLoad(BigInt(id), 0, 'decode', id, id)
    const labels = workerLabels(BigInt(id), '0', 'decode')
    metrics.workerLastTimeToFirstToken.set(labels, id / 1000)
    metrics.workerLastInterTokenLatency.set(labels, id / 9000)
    metrics.workerLastInputSequenceTokens.set(labels, id)
  }
  return gateway
}

const feed = {
  dpRank: 0,
  state: 'live',
  lagSeconds: 0.01,
  lastSequence: 7,
  deviceBlocks: 1000,
  events: 100,
  machine: { applied: 10, gaps: 0, replays: 1, restarts: 0 },
  purges: {},
  decodeErrors: {},
} as unknown as FeedStatus
