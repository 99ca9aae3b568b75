import { expect, it } from 'vitest'
import { createMetrics } from '../../telemetry/index.js'
import type { ModelHub } from '../model-hub.js'
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
