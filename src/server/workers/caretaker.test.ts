// When the caretaker looks at each of many workers, with a clock of its own.
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { GatewayContext } from '../context.js'
import { Caretaker } from './caretaker.js'
import { phaseOf } from './phase.js'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Workers that answer at once; `looks` has the time of every question to each. */
function fleetOf(count: number, intervalMs: number) {
  const looks = new Map<bigint, number[]>()
  const workers: { readonly id: bigint; readonly phase: number; state: string }[] = []
  const join = (): void => {
    const id = BigInt(workers.length + 1)
    workers.push({ id, phase: phaseOf(id), state: 'ready' })
    looks.set(id, [])
  }
  for (let at = 0; at < count; at++) join()
  const fleet = {
    probe(worker: { readonly id: bigint }): Promise<boolean> {
      looks.get(worker.id)!.push(performance.now())
      return Promise.resolve(true)
    },
  }
  const model = { workers: () => workers.values(), fleetOf: () => fleet }
  const context = { health: { intervalMs, metricsMs: 0 }, hub: { all: () => [model] }, now: () => 0 }
  const metrics = { loadPolls: { inc() {} } } as unknown as ConstructorParameters<typeof Caretaker>[1]
  const caretaker = new Caretaker(context as unknown as GatewayContext, metrics)
  caretaker.start()
  return { caretaker, workers, looks, join }
}

it.each([
  { count: 1, inStepMax: 1 },
  { count: 300, inStepMax: 2 },
  { count: 1000, inStepMax: 3 },
])('of $count workers at most $inStepMax are asked in 10 ms, and each once in 5 s', async ({ count, inStepMax }) => {
  const { caretaker, looks } = fleetOf(count, 5_000)
  await vi.advanceTimersByTimeAsync(20_100)
  await caretaker.close()
  const moments = new Map<number, number>()
  for (const times of looks.values()) {
    expect(times.length).toBeGreaterThanOrEqual(3)
    for (const [at, time] of times.entries()) {
      moments.set(time, (moments.get(time) ?? 0) + 1)
      if (at > 0) expect(Math.abs(time - times[at - 1]! - 5_000)).toBeLessThanOrEqual(200)
    }
  }
  expect(Math.max(...moments.values())).toBeLessThanOrEqual(inStepMax)
})

it('one that joins is asked within an interval, and one that is gone or draining is not', async () => {
  const { caretaker, workers, looks, join } = fleetOf(300, 5_000)
  await vi.advanceTimersByTimeAsync(7_770)
  join()
  workers[0]!.state = 'gone'
  workers[1]!.state = 'draining'
  const asked = [1n, 2n].map((id) => looks.get(id)!.length)
  await vi.advanceTimersByTimeAsync(5_100)
  expect(looks.get(301n)!.length).toBeGreaterThan(0)
  expect([1n, 2n].map((id) => looks.get(id)!.length)).toEqual(asked)
  await caretaker.close()
})

it('asks everybody in each of intervals that are too short to be divided', async () => {
  const { caretaker, looks } = fleetOf(40, 5)
  await vi.advanceTimersByTimeAsync(51)
  for (const times of looks.values()) expect(times.length).toBeGreaterThanOrEqual(9)
  await caretaker.close()
})

it('asks nobody after it was closed, though some were due', async () => {
  const { caretaker, looks } = fleetOf(1000, 1_000)
  await vi.advanceTimersByTimeAsync(205)
  await caretaker.close()
  const asked = [...looks.values()].flat().length
  expect(asked).toBeGreaterThan(0)
  await vi.advanceTimersByTimeAsync(3_000)
  expect([...looks.values()].flat().length).toBe(asked)
})
