import fc from 'fast-check'
import { expect, it } from 'vitest'
import { RankTable } from '../protocol/index.js'
import { ActiveSequences } from './active-sequences.js'
import { newLoadColumns, newLoadDetail } from './load-columns.js'
import { UsualLoad } from './usual-load.js'

function usualOf(rankCount: number): { usual: UsualLoad; see: (nowMs: number, running: number[]) => void } {
  const usual = new UsualLoad()
  usual.makeRoomForRanks(rankCount)
  const see = (nowMs: number, running: number[]): void =>
    usual.see(
      nowMs,
      rankCount,
      Uint32Array.from(running),
      new Uint32Array(rankCount),
      Float64Array.from(running, (count) => 10 * count),
    )
  return { usual, see }
}

it('is what was seen first, and forgets two thirds of it in twenty seconds', () => {
  const { usual, see } = usualOf(2)
  see(1000, [4, 0])
  expect(Array.from(usual.decoding)).toEqual([4, 0])
  see(21_000, [0, 4])
  expect(usual.decoding[0]).toBeCloseTo(4 / Math.E, 9)
  expect(usual.contextBlocks[1]).toBeCloseTo(40 * (1 - 1 / Math.E), 9)
})

it('does not count those who prefill as decoding', () => {
  const usual = new UsualLoad()
  usual.makeRoomForRanks(1)
  usual.see(0, 1, Uint32Array.of(2), Uint32Array.of(3), Float64Array.of(7))
  expect([usual.decoding[0], usual.contextBlocks[0]]).toEqual([0, 7])
})

it('changes nothing on a clock that stands still, runs backwards or is no number', () => {
  const { usual, see } = usualOf(1)
  see(1000, [4])
  for (const nowMs of [1000, 500, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) see(nowMs, [9])
  expect(usual.decoding[0]).toBe(4)
})

// Goal: an average. It never leaves what was seen, and how often it looks at a steady load makes no difference.
it('lies between the least and the most that was seen', () => {
  const looks = fc.array(fc.tuple(fc.nat(60_000), fc.nat(50)), { minLength: 1, maxLength: 40 })
  fc.assert(
    fc.property(looks, (steps) => {
      const { usual, see } = usualOf(1)
      let nowMs = 0
      for (const [gapMs, running] of steps) see((nowMs += gapMs + 1), [running])
      const seen = steps.map(([, running]) => running)
      expect(usual.decoding[0]).toBeGreaterThanOrEqual(Math.min(...seen) - 1e-9)
      expect(usual.decoding[0]).toBeLessThanOrEqual(Math.max(...seen) + 1e-9)
    }),
  )
})

it('counts the looks between as it counts one: what is seen stands for the time before it', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 5000 }), { minLength: 1, maxLength: 20 }), (gaps) => {
      const often = usualOf(1)
      const once = usualOf(1)
      for (const { see } of [often, once]) see(0, [8])
      let nowMs = 0
      for (const gapMs of gaps) often.see((nowMs += gapMs), [3])
      once.see(nowMs, [3])
      expect(often.usual.decoding[0]).toBeCloseTo(once.usual.decoding[0]!, 9)
    }),
  )
})

it('starts anew with a rank that is tracked anew', () => {
  const ranks = new RankTable()
  const rank = ranks.intern(1n, 0)
  const sequences = new ActiveSequences({ ranks })
  const loads = { ...newLoadColumns(), detail: newLoadDetail() }
  const usual = (nowMs: number): number => {
    sequences.fillLoads(loads, nowMs)
    return loads.detail!.usualDecoding[rank]!
  }
  sequences.track(rank, 0)
  sequences.book({ requestId: 'r', rank }, 0)
  expect(usual(0)).toBe(1)
  sequences.untrack(rank, 1)
  sequences.track(rank, 1)
  expect(usual(1)).toBe(0)
})
