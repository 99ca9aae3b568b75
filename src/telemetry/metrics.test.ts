import { expect, it } from 'vitest'
import { createMetrics } from './metrics.js'

it('says how many series are not shown because a family is full', () => {
  const metrics = createMetrics({ seriesMax: 2 })
  for (const model of ['a', 'b', 'c', 'd']) metrics.activeRequests.set({ model }, 1)
  const text = metrics.registry.text()
  expect(text).toContain('warmroute_telemetry_dropped_series 2\n')
  expect(text.match(/^dynamo_frontend_active_requests\{/gm)).toHaveLength(2)
})
