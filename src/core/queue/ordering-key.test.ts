import { expect, it } from 'vitest'
import type { OrderingFacts } from './ordering-key.js'
import { orderingScore } from './ordering-key.js'

const facts = (change: Partial<OrderingFacts>): OrderingFacts => ({
  priorityJump: 0,
  arrivedSecs: 0,
  islTokens: 160,
  bestCachedTokens: 0,
  ...change,
})

it.each([
  { policy: 'fcfs', says: 'the earlier arrival goes first', first: { arrivedSecs: 1 }, second: { arrivedSecs: 2 } },
  {
    policy: 'fcfs',
    says: 'a jump overtakes who came that much earlier',
    first: { arrivedSecs: 10, priorityJump: 5 },
    second: { arrivedSecs: 6 },
  },
  {
    policy: 'fcfs',
    says: 'a jump does not overtake who came even earlier',
    first: { arrivedSecs: 4 },
    second: { arrivedSecs: 10, priorityJump: 5 },
  },
  { policy: 'lcfs', says: 'the later arrival goes first', first: { arrivedSecs: 2 }, second: { arrivedSecs: 1 } },
  { policy: 'lcfs', says: 'a jump promotes', first: { arrivedSecs: 1, priorityJump: 5 }, second: { arrivedSecs: 3 } },
  { policy: 'wspt', says: 'the shorter request goes first', first: { islTokens: 16 }, second: { islTokens: 32 } },
  {
    policy: 'wspt',
    says: 'what is cached is no work',
    first: { islTokens: 160, bestCachedTokens: 80 },
    second: { islTokens: 100 },
  },
  { policy: 'wspt', says: 'a jump promotes', first: { priorityJump: 2 }, second: { islTokens: 80 } },
] as const)('$policy: $says', ({ policy, first, second }) => {
  expect(orderingScore(policy, facts(first))).toBeGreaterThan(orderingScore(policy, facts(second)))
})

it('wspt: worked figures', () => {
  expect(orderingScore('wspt', facts({ bestCachedTokens: 80 }))).toBe(1 / 80)
  expect(orderingScore('wspt', facts({ bestCachedTokens: 80, priorityJump: 2 }))).toBe(3 / 80)
})

it('wspt: a fully cached request counts as one token', () => {
  expect(orderingScore('wspt', facts({ bestCachedTokens: 160 }))).toBe(1)
  expect(orderingScore('wspt', facts({ bestCachedTokens: 999 }))).toBe(1)
})

it('wspt: without a cache the whole prompt is work', () => {
  expect(orderingScore('wspt', facts({}))).toBe(1 / 160)
})

it('a jump below 0 is no jump', () => {
  expect(orderingScore('fcfs', facts({ priorityJump: -9, arrivedSecs: 3 }))).toBe(-3)
})
