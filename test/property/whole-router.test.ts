// Goal: no order of requests, marks, frees, events, cancellations, worker changes and expiry leaves a booking without a
// caller, a caller without an answer, or a counter that does not return to zero.
// Method: one seed drives a router and plain books; they are compared on the way, and everything is drained at the end.
import { expect, it } from 'vitest'
import { RecordingRouter, replay, RouterCore } from '../../src/core/router/index.js'
import { RouterDriver, routerOptions } from './router-driver.js'

it.each([
  { says: 'default', seed: 1, config: {}, withClasses: false, steps: 30_000 },
  { says: 'classes', seed: 2, config: {}, withClasses: true, steps: 10_000 },
  { says: 'as 1.2', seed: 3, config: { compat: 'dynamo-1.2' }, withClasses: false, steps: 10_000 },
  {
    says: 'no events, temperature',
    seed: 4,
    config: { useKvEvents: false, routerTemperature: 0.5 },
    withClasses: true,
    steps: 10_000,
  },
  {
    says: 'milliseconds',
    seed: 5,
    config: { policy: 'warm', routerLateBinding: false },
    withClasses: false,
    steps: 5000,
  },
  { says: 'held', seed: 6, config: { policy: 'warm', routerLateBinding: true }, withClasses: false, steps: 10_000 },
  {
    says: 'held, classes',
    seed: 7,
    config: { policy: 'warm', routerLateBinding: true },
    withClasses: true,
    steps: 5000,
  },
] as const)('$says: $steps random operations, then every counter is zero', ({ seed, config, withClasses, steps }) => {
  const core = new RouterCore(routerOptions(config, withClasses))
  const driver = new RouterDriver(core, core, seed)
  for (let step = 0; step < steps; step++) {
    driver.step()
    if (step % 64 === 0) driver.check()
  }
  driver.drain()
  // The run is worth nothing if it never came to the interesting places.
  for (const count of Object.values(driver.stats)) expect(count).toBeGreaterThan(steps / 2000)
})

it('100,000 operations end at zero, and a fresh router fed with their log decides the same, bit for bit', {
  timeout: 120_000,
}, () => {
  const pieces: Uint8Array[] = []
  const options = routerOptions({}, true)
  const recording = new RecordingRouter(options, (bytes) => pieces.push(bytes))
  const driver = new RouterDriver(recording, recording.core, 11)
  let running = 0
  for (let step = 0; step < 100_000; step++) {
    driver.step()
    if (step % 256 !== 0) continue
    driver.check()
    running = Math.max(running, recording.core.sequences.requestCount)
  }
  driver.drain() // part of the log as well
  recording.flush()
  const log = new Uint8Array(Buffer.concat(pieces))
  const result = replay(log, () => ({ index: options.index }))
  expect(result.firstDifference).toBeUndefined()
  expect(result.records).toBeGreaterThan(100_000)
  expect(result.decisions).toBeGreaterThan(30_000)
  expect(running).toBeGreaterThan(0)
  expect([result.core.sequences.requestCount, result.core.pendingCount]).toEqual([0, 0])
  expect(log.length / result.records).toBeLessThan(200) // a record of this run has nine blocks at most
})

it('a replay notices a log that was tampered with', () => {
  const pieces: Uint8Array[] = []
  const recording = new RecordingRouter(routerOptions({}, false), (bytes) => pieces.push(bytes))
  const driver = new RouterDriver(recording, recording.core, 5)
  for (let step = 0; step < 2000; step++) driver.step()
  recording.flush()
  const log = new Uint8Array(Buffer.concat(pieces))
  const other = routerOptions({ overlapScoreCredit: 0 }, false)
  expect(replay(log, () => other).firstDifference).toBeDefined()
  expect(() => replay(log.subarray(0, log.length - 3), () => other)).toThrow(
    expect.objectContaining({ code: 'WR_INVALID_LOG' }),
  )
  expect(() => replay(log.subarray(4), () => other)).toThrow(expect.objectContaining({ code: 'WR_INVALID_LOG' }))
})
