import { expect, it } from 'vitest'
import { PrefillClocks } from './prefill-clocks.js'

it('counts time with prompts once, however many there are', () => {
  const clocks = new PrefillClocks()
  clocks.begin(2, 100)
  clocks.begin(2, 150)
  expect(clocks.busyMs(2, 180)).toBe(80)
  clocks.end(2, 200)
  clocks.end(2, 300)
  expect(clocks.busyMs(2, 1000)).toBe(200)
  clocks.begin(2, 1000)
  expect(clocks.busyMs(2, 1010)).toBe(210)
  expect([clocks.busyMs(0, 1000), clocks.busyMs(9, 1000)]).toEqual([0, 0])
})

it('who is busy more often has the larger share, and it fades', () => {
  const clocks = new PrefillClocks()
  for (let at = 0; at < 60_000; at += 1000)
    for (const [rank, ms] of [100, 400].entries()) {
      clocks.begin(rank, at)
      clocks.end(rank, at + ms)
    }
  const [little, much] = [clocks.share(0, 60_000), clocks.share(1, 60_000)]
  expect(little).toBeGreaterThan(0.02)
  expect(much).toBeGreaterThan(2 * little)
  expect(much).toBeLessThan(1)
  expect(clocks.share(1, 600_000)).toBeLessThan(0.1 * much)
})

it('an end without a beginning, or before it, counts for nothing', () => {
  const clocks = new PrefillClocks()
  clocks.end(0, 50)
  clocks.begin(0, 100)
  clocks.end(0, 90)
  clocks.end(0, 900)
  expect(clocks.busyMs(0, 1000)).toBe(0)
  expect(clocks.share(0, 1000)).toBe(0)
})

it('forgets a rank whose number means another one', () => {
  const clocks = new PrefillClocks()
  clocks.begin(0, 0)
  clocks.forget(0)
  expect([clocks.busyMs(0, 100), clocks.share(0, 100)]).toEqual([0, 0])
})
