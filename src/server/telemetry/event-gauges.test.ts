import { expect, it } from 'vitest'
import { createMetrics } from '../../telemetry/index.js'
import type { FeedStatus } from '../../events/index.js'
import { liveFeed } from './live-feed.case.js'
import { EventGauges } from './event-gauges.js'

it('ends the series of streams that are not shown again, and goes on with those that are', () => {
  const metrics = createMetrics()
  const gauges = new EventGauges(metrics, 'm', '1')
  const show = (...ranks: readonly number[]): string => {
    gauges.show(ranks.map((dpRank) => ({ ...feed, dpRank })))
    return metrics.registry.text()
  }
  expect(gauges.isEmpty).toBe(true)
  expect(show(0, 1, 2)).toContain('warmroute_events_total{dp_rank="2",model="m",worker="1"} 5\n')
  const left = show(1, 3)
  expect(new Set(left.match(/dp_rank="\d"/g))).toEqual(new Set(['dp_rank="1"', 'dp_rank="3"']))
  expect(left).toContain('warmroute_events_total{dp_rank="1",model="m",worker="1"} 5\n') // and not 10
  gauges.end()
  expect(metrics.registry.text()).not.toContain('dp_rank')
})

it('shows what a stream went through, and counts on when it is followed anew', () => {
  const metrics = createMetrics()
  const gauges = new EventGauges(metrics, 'm', '1')
  const show = (times: number): string => {
    const machine = { applied: times, gaps: times, replays: times, restarts: times, droppedFrames: times }
    const hurt = { ...feed, machine, purges: { restart: times }, decodeErrors: { not_msgpack: times } }
    gauges.show([hurt as unknown as FeedStatus])
    return metrics.registry.text()
  }
  const lines = (times: number): string[] => [
    ...['gaps', 'replays', 'restarts'].map(
      (it) => `warmroute_event_${it}_total{dp_rank="0",model="m",worker="1"} ${times}`,
    ),
    `warmroute_event_dropped_frames_total{dp_rank="0",model="m",worker="1"} ${times}`,
    `warmroute_event_purges_total{dp_rank="0",model="m",reason="restart",worker="1"} ${times}`,
    `warmroute_event_decode_errors_total{dp_rank="0",model="m",reason="not_msgpack",worker="1"} ${times}`,
  ]
  for (const line of lines(2)) expect(show(2)).toContain(`${line}\n`)
  for (const line of lines(3)) expect(show(3)).toContain(`${line}\n`)
  for (const line of lines(4)) expect(show(1)).toContain(`${line}\n`) // a new stream counts from zero
})

const feed = { ...liveFeed, purges: { gap: 1 } } as unknown as FeedStatus
