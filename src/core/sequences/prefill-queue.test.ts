import { describe, expect, it } from 'vitest'
import type { PrefillDecay } from './prefill-queue.js'
import { PrefillQueue } from './prefill-queue.js'

const seconds = 1000

/** A queue of one rank; entries are `[tokens, duration in seconds, added at second]`. */
function queueOf(decay: PrefillDecay, entries: readonly (readonly [number, number | undefined, number])[]) {
  const queue = new PrefillQueue(decay)
  queue.makeRoomForRanks(1)
  for (const [request, [tokens, duration, at]] of entries.entries())
    queue.push(0, request, tokens, duration === undefined ? Number.NaN : duration * seconds, at * seconds)
  const tokensAt = (...times: number[]) => times.map((at) => queue.activeTokens(0, at * seconds))
  return { queue, tokensAt }
}

describe('with anchor decay', () => {
  it('no entry is no token', () => {
    expect(queueOf('anchor', []).tokensAt(0, 100)).toEqual([0, 0])
  })

  it('only the oldest prefill fades', () => {
    const { tokensAt } = queueOf('anchor', [
      [100, 10, 0],
      [60, 6, 2],
    ])
    expect(tokensAt(2, 5, 12)).toEqual([140, 110, 60])
  })

  it('a single prefill of ten seconds is 40 of 100 after six', () => {
    expect(queueOf('anchor', [[100, 10, 0]]).tokensAt(6, 10, 99)).toEqual([40, 0, 0])
  })

  it('removing the oldest starts the next with its full duration', () => {
    const { queue, tokensAt } = queueOf('anchor', [
      [100, 10, 0],
      [60, 6, 2],
    ])
    queue.remove(0, 0, 8 * seconds)
    expect(tokensAt(8, 11, 14)).toEqual([60, 30, 0])
  })

  it('removing another leaves the oldest alone', () => {
    const { queue, tokensAt } = queueOf('anchor', [
      [100, 10, 0],
      [60, 6, 2],
    ])
    queue.remove(0, 1, 4 * seconds)
    expect(tokensAt(4, 5)).toEqual([60, 50])
  })

  it('removing twice changes nothing', () => {
    const { queue, tokensAt } = queueOf('anchor', [
      [100, undefined, 0],
      [60, undefined, 0],
    ])
    expect([queue.remove(0, 0, 0), queue.remove(0, 0, 0), queue.remove(0, 99, 0)]).toEqual([true, false, false])
    expect(tokensAt(50)).toEqual([60])
  })

  it('nothing fades without a duration, and everything at once with a duration of zero', () => {
    expect(queueOf('anchor', [[100, undefined, 0]]).tokensAt(99)).toEqual([100])
    expect(
      queueOf('anchor', [
        [100, 0, 0],
        [60, 6, 0],
      ]).tokensAt(0),
    ).toEqual([60])
  })

  it('a clock that runs backwards fades nothing', () => {
    expect(queueOf('anchor', [[100, 10, 50]]).tokensAt(40)).toEqual([100])
  })

  it('part of a token counts as a token', () => {
    expect(queueOf('anchor', [[3, 10, 0]]).tokensAt(1, 9.99)).toEqual([3, 1])
  })
})

describe('with full decay', () => {
  it('fading spills past the oldest when all durations are known', () => {
    const { tokensAt } = queueOf('full', [
      [100, 10, 0],
      [60, 6, 2],
    ])
    expect(tokensAt(2, 12, 20)).toEqual([140, 40, 0])
  })

  it('one unknown duration brings anchor decay back', () => {
    const { tokensAt } = queueOf('full', [
      [100, 10, 0],
      [60, undefined, 2],
    ])
    expect(tokensAt(5, 12)).toEqual([110, 60])
  })

  it('removing a modelled entry that is not the oldest moves the clock back by its duration', () => {
    const { queue, tokensAt } = queueOf('full', [
      [100, 10, 0],
      [60, 6, 0],
    ])
    expect(tokensAt(8)).toEqual([80])
    queue.remove(0, 1, 8 * seconds)
    expect(tokensAt(8)).toEqual([80]) // 2 of 10 seconds: the six of the removed one were not this one's
    expect(queue.remainingMs(0, 8 * seconds)).toBe(8 * seconds)
  })

  it('but never past the moment of the removal', () => {
    const { queue, tokensAt } = queueOf('full', [
      [100, 10, 0],
      [60, 6, 0],
    ])
    queue.remove(0, 1, 3 * seconds)
    expect(tokensAt(3, 4)).toEqual([100, 90])
  })

  it('removing an unmodelled entry moves no clock', () => {
    const { queue, tokensAt } = queueOf('full', [
      [100, 10, 0],
      [60, undefined, 0],
    ])
    queue.remove(0, 1, 8 * seconds)
    expect(tokensAt(8)).toEqual([20])
  })
})

describe('the time that is left', () => {
  it('is zero without entries, and unknown where a duration is missing', () => {
    expect(queueOf('full', []).queue.remainingMs(0, 5)).toBe(0)
    expect(queueOf('full', [[1, undefined, 0]]).queue.remainingMs(0, 5)).toBe(undefined)
    expect(
      queueOf('full', [
        [1, 3, 0],
        [1, undefined, 0],
      ]).queue.remainingMs(0, 5),
    ).toBe(undefined)
  })

  it('is the sum of durations less what has passed, at least zero', () => {
    const { queue } = queueOf('full', [
      [100, 10, 0],
      [60, 0, 0],
      [60, 6, 0],
    ])
    expect([0, 4, 99].map((at) => queue.remainingMs(0, at * seconds))).toEqual([16_000, 12_000, 0])
  })
})
