import { expect, it, vi } from 'vitest'
import { createMetrics } from '../../telemetry/index.js'
import type { ModelHub } from '../model-hub.js'
import type { Worker } from '../workers/worker.js'
import { liveFeed as feed } from './live-feed.case.js'
import { WorkerGauges } from './worker-gauges.js'

it('shows an index as it is at the scrape, and counts what its caps took since the last', () => {
  const metrics = createMetrics()
  let evictedBlocks = 3
  const figures = () => ({ index: { blocks: 7, bytes: 280, evictedBlocks } })
  const model = { name: 'm', spec: { figures }, workers: () => [] }
  const gauges = new WorkerGauges(metrics, { all: () => [model] } as unknown as ModelHub)
  const scraped = () => metrics.registry.text().match(/^warmroute_index_\w+\{.*$/gm)
  const lines = (evicted: number) => [
    `warmroute_index_blocks{model="m"} 7`,
    `warmroute_index_bytes{model="m"} 280`,
    `warmroute_index_evicted_blocks_total{model="m"} ${evicted}`,
  ]
  try {
    expect(scraped()?.sort()).toEqual(lines(3))
    evictedBlocks = 5
    expect([scraped()?.sort(), scraped()?.sort()]).toEqual([lines(5), lines(5)])
  } finally {
    gauges.close()
  }
})

// Goal: a scrape finds its series made. Method: time passes between the workers' coming and the first look at the text,
// and families are asked how many series they have, which makes none.
it('makes the series of workers and of their streams ahead of a scrape, a few at a time, and ends them without one', () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  const metrics = createMetrics()
  const { hub, workers } = hubOf(10)
  const gauges = new WorkerGauges(metrics, hub)
  const sizes = (): number[] => [metrics.workerMode.size, metrics.eventState.size]
  try {
    vi.advanceTimersByTime(10)
    expect(sizes()).toEqual([4, 4])
    vi.advanceTimersByTime(20)
    expect(sizes()).toEqual([10, 10])
    for (const id of [3n, 4n, 5n]) workers.delete(id)
    vi.advanceTimersByTime(100)
    expect(sizes()).toEqual([7, 7])
    workers.set(5n, workerOf(5n))
    vi.advanceTimersByTime(100)
    expect(sizes()).toEqual([8, 8])
  } finally {
    gauges.close()
    vi.useRealTimers()
  }
})

it('shows workers as they are at the scrape, and no longer when they left; whoever takes a place goes on with its counts', () => {
  const metrics = createMetrics()
  const { hub, workers } = hubOf(2)
  const gauges = new WorkerGauges(metrics, hub)
  const lines = (): string[] => metrics.registry.text().match(/^warmroute_(worker_mode|events_total)\{.*[1-9]$/gm) ?? []
  const mode = (worker: string, mode: string): string =>
    `warmroute_worker_mode{mode="${mode}",model="m",worker="${worker}"} 1`
  const events = (worker: string, count: number): string =>
    `warmroute_events_total{dp_rank="0",model="m",worker="${worker}"} ${count}`
  try {
    expect(lines().sort()).toEqual([events('0', 5), events('1', 5), mode('0', 'exact'), mode('1', 'exact')])
    workers.set(1n, workerOf(1n, 'load-only'))
    expect(lines().sort()).toEqual([events('0', 5), events('1', 5), mode('0', 'exact'), mode('1', 'load-only')])
    workers.delete(0n)
    expect(lines().sort()).toEqual([events('1', 5), mode('1', 'load-only')])
  } finally {
    gauges.close()
  }
})

function hubOf(count: number): { readonly hub: ModelHub; readonly workers: Map<bigint, Worker> } {
  const workers = new Map(Array.from({ length: count }, (_, at) => [BigInt(at), workerOf(BigInt(at))]))
  const model = {
    name: 'm',
    spec: { feedsOf: () => [feed] },
    workers: () => workers.values(),
    fleetOf: (id: bigint) => (workers.has(id) ? {} : undefined),
  }
  return { hub: { all: () => [model], get: () => model } as unknown as ModelHub, workers }
}

function workerOf(id: bigint, mode = 'exact'): Worker {
  return { id, label: String(id), mayServe: true, inFlight: 0, mode, config: {}, spec: {} } as unknown as Worker
}
