import { setImmediate, setTimeout } from 'node:timers/promises'
import { createGateway, createPolicyRouter } from '../src/server/index.js'
import type { ModelSpec } from '../src/server/index.js'
import type { Registry } from '../src/telemetry/index.js'
import { RouterMetrics, workerLabels } from '../src/telemetry/index.js'
import type { BenchContext } from './harness.js'
import { defineBench, summarise } from './harness.js'
import { loopThread } from './loop-thread.js'

type FeedStatus = ReturnType<NonNullable<ModelSpec['feedsOf']>>[number]

export const benches = [
  defineBench(
    'metrics.scrape',
    'does a scrape of a large fleet stay short, and does it let the loop run?',
    async (bench) => {
      const workers = bench.size(50, 1000)
      const gateway = gatewayOf(workers)
      const { registry } = gateway.metrics
      await setTimeout(bench.size(200, 4000)) // what a new gateway does by itself is over: series of workers exist
      const first = await LoopWatch.over(() => read(registry)) // most code is not yet compiled
      const { scrape } = await bench.compare({ scrape: () => read(registry) })
      const { checksum, spread } = scrape
      const id = 'metrics.scrape.w1000'
      bench.report({ id: `${id}.ms`, value: scrape.cpuNs / 1e6, unit: 'ms', spread, checksum })
      const longest: number[] = []
      for (let at = 0; at < bench.size(2, 100); at++) longest.push(await LoopWatch.over(() => read(registry)))
      reportTurns(bench, `${id}.turn`, longest, checksum)
      const crowded: number[] = []
      for (let at = 0; at < bench.size(1, 10); at++)
        crowded.push(await LoopWatch.over(() => Promise.all(Array.from({ length: 8 }, () => read(registry)))))
      reportTurns(bench, `${id}.overlapping_turn`, crowded, checksum)
      bench.report({ id: `${id}.first_turn_ms`, value: first, unit: 'ms', spread: 0, checksum })
      await gateway.close()
      const young = gatewayOf(workers)
      await setTimeout(20)
      const atOnce = await LoopWatch.over(() => read(young.metrics.registry)) // makes the series
      bench.report({ id: `${id}.at_once_turn_ms`, value: atOnce, unit: 'ms', spread: 0, checksum })
      await young.close()
      bench.report({ id: `${id}.first_kept_mb`, value: await keptMb(workers), unit: 'MB', spread: 0, checksum })
    },
  ),
]

/** What the first scrape makes that stays: the collector copies it, and the loop waits. Without `--expose-gc`, garbage too. */
async function keptMb(workers: number): Promise<number> {
  const gateway = gatewayOf(workers)
  await setTimeout(20)
  globalThis.gc?.()
  const before = process.memoryUsage().heapUsed
  await read(gateway.metrics.registry)
  globalThis.gc?.()
  const kept = process.memoryUsage().heapUsed - before
  await gateway.close()
  return kept / 1e6
}

/** The longest turn of each scrape: of the median scrape, and of the worst. */
function reportTurns(bench: BenchContext, id: string, longest: readonly number[], checksum: string): void {
  const { median, spread } = summarise(longest)
  bench.report({ id: `${id}_ms`, value: median, unit: 'ms', spread, checksum })
  bench.report({ id: `${id}_max_ms`, value: Math.max(...longest), unit: 'ms', spread: 0, checksum })
}

/** Reads as the server does: encoded slice by slice, with a turn of the loop between them. */
async function read(registry: Registry): Promise<number> {
  let bytes = 0
  for await (const slice of registry.stream(() => setImmediate())) bytes += slice.length
  return bytes > 0 ? 1 : 0
}

/**
 * Times every turn of the loop, with all that runs in it, garbage collection included. A turn counts with the lesser of
 * its CPU time, which has threads in it that did not hold the loop, and its wall time less what the loop's thread waited
 * for a core: on a shared machine that is the time of other processes.
 */
class LoopWatch {
  #longestMs = 0
  #isOver = false

  static async over(work: () => Promise<unknown>): Promise<number> {
    const watch = new LoopWatch()
    const done = watch.#run()
    await work()
    watch.#isOver = true
    await done
    return watch.#longestMs
  }

  async #run(): Promise<void> {
    while (!this.#isOver) {
      const [wall, cpu, waited] = [performance.now(), process.cpuUsage(), waitedMs()]
      await setImmediate()
      const { user, system } = process.cpuUsage(cpu)
      const heldMs = performance.now() - wall - (waitedMs() - waited)
      this.#longestMs = Math.max(this.#longestMs, Math.min(heldMs, (user + system) / 1000))
    }
  }
}

const thread = loopThread()

function waitedMs(): number {
  return thread?.().waitedMs ?? 0
}

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
