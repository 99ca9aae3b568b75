import fc from 'fast-check'
import { expect, it } from 'vitest'
import { VirtualClock } from './clock.js'

it('fires events by time, then phase, then order of insertion', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(9), fc.nat(1)), { maxLength: 200 }), (events) => {
      const clock = new VirtualClock()
      const fired: number[] = []
      events.forEach(([time, phase], index) => clock.at(time, () => fired.push(index), phase))
      clock.run()
      const wanted = events
        .map(([time, phase], index) => ({ time, phase, index }))
        .sort((a, b) => a.time - b.time || a.phase - b.phase || a.index - b.index)
      expect(fired).toEqual(wanted.map(({ index }) => index))
    }),
  )
})

it('fires an event that is already past at the present, and stops at the given time', () => {
  const clock = new VirtualClock()
  const fired: [string, number][] = []
  clock.at(5, () => clock.at(1, () => fired.push(['past', clock.now()])))
  clock.at(9, () => fired.push(['later', clock.now()]))
  clock.run(7)
  expect(fired).toEqual([['past', 5]])
  expect(clock.now()).toBe(7)
  clock.run()
  expect(fired).toEqual([
    ['past', 5],
    ['later', 9],
  ])
})
