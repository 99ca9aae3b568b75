import { createMetrics, RouterMetrics, workerLabels } from '../src/telemetry/index.js'
import { defineBench, summarise } from './harness.js'

export const benches = [
  defineBench(
    'metrics.scrape',
    'does a scrape of a large fleet stay short, and does it let the loop run?',
    async (bench) => {
      const workers = bench.size(50, 1000)
      const metrics = createMetrics()
      const router = new RouterMetrics(metrics, { namespace: 'ns', component: 'c', routerId: 1n })
      for (let id = 0; id < workers; id++) {
        router.observeLoad(BigInt(id), 0, 'decode', id, id)
        const labels = workerLabels(BigInt(id), '0', 'decode')
        metrics.workerLastTimeToFirstToken.set(labels, id / 1000)
        metrics.workerLastInterTokenLatency.set(labels, id / 9000)
        metrics.workerLastInputSequenceTokens.set(labels, id)
      }
      const slices: number[] = []
      const { scrape } = await bench.compare({
        scrape: async () => {
          let length = 0
          let started = performance.now()
          const pause = (): Promise<void> => {
            slices.push(performance.now() - started)
            started = performance.now()
            return Promise.resolve()
          }
          for await (const slice of metrics.registry.stream(pause)) length += slice.length
          return length
        },
      })
      const id = `metrics.scrape.w1000`
      const { checksum, spread } = scrape
      bench.report({ id: `${id}.ms`, value: scrape.cpuNs / 1e6, unit: 'ms', spread, checksum })
      const longest = Math.max(...slices)
      bench.report({ id: `${id}.slice_ms`, value: longest, unit: 'ms', spread: summarise(slices).spread, checksum })
    },
  ),
]
