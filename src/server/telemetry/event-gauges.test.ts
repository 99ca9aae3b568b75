import { expect, it } from 'vitest'
import { createMetrics } from '../../telemetry/index.js'
import type { FeedStatus } from '../../events/index.js'
import { EventGauges } from './event-gauges.js'

it('ends the series of streams that are not shown again, a step at a time', () => {
  const metrics = createMetrics()
  const gauges = new EventGauges(metrics)
  const show = (workers: readonly string[]): number => {
    gauges.begin()
    for (const worker of workers) gauges.show('m', worker, [feed])
    return [...gauges.end()].length
  }
  expect(show(['1', '2', '3'])).toBe(0)
  expect(metrics.registry.text()).toContain('warmroute_events_total{dp_rank="0",model="m",worker="3"} 5\n')
  expect(show(['2'])).toBe(2)
  const left = metrics.registry.text().match(/worker="\d"/g)
  expect(new Set(left)).toEqual(new Set(['worker="2"']))
})

it('shows what a stream went through, and counts on when it is followed anew', () => {
  const metrics = createMetrics()
  const gauges = new EventGauges(metrics)
  const show = (times: number): string => {
    const machine = { applied: times, gaps: times, replays: times, restarts: times, droppedFrames: times }
    gauges.begin()
    const hurt = { ...feed, machine, purges: { restart: times }, decodeErrors: { not_msgpack: times } }
    gauges.show('m', '1', [hurt as unknown as FeedStatus])
    for (const _ of gauges.end());
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

const feed = {
  dpRank: 0,
  state: 'live',
  lastSequence: 7,
  deviceBlocks: 1,
  events: 5,
  machine: { applied: 1, gaps: 0, replays: 0, restarts: 0, droppedFrames: 0 },
  purges: { gap: 1 },
  decodeErrors: {},
} as unknown as FeedStatus
