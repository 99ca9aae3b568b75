import { expect, it } from 'vitest'
import type { PolicyClass } from './policy-class.js'
import { isRankBusy, judgeLimits, mayPark } from './policy-class.js'

const policy = (change: Partial<PolicyClass>): PolicyClass => ({
  name: 'c',
  queuePolicy: 'fcfs',
  quantum: 1,
  ...change,
})

it('a rank is busy strictly above a threshold, and an idle one never', () => {
  const half = policy({ prefillBusyThresholdFrac: 0.5 })
  expect([50, 51].map((tokens) => isRankBusy(half, tokens, 100))).toEqual([false, true])
  const zero = policy({ prefillBusyThresholdFrac: 0 })
  expect([0, 1].map((tokens) => isRankBusy(zero, tokens, 100))).toEqual([false, true])
})

it('with both thresholds either makes a rank busy', () => {
  const both = policy({ prefillBusyThreshold: 10, prefillBusyThresholdFrac: 0.5 })
  expect([10, 11].map((tokens) => isRankBusy(both, tokens, 1000))).toEqual([false, true])
  expect(isRankBusy(both, 9, 10)).toBe(true)
})

it('a class without a threshold never parks', () => {
  expect([mayPark(policy({})), mayPark(policy({ prefillBusyThreshold: 0 }))]).toEqual([false, true])
  expect(isRankBusy(policy({}), 1e12, 1)).toBe(false)
})

it('limits scale with workers and are judged before the request counts', () => {
  const limited = policy({
    requestQueueLimitPerWorker: 1,
    rawIslTokenQueueLimitPerWorker: 5,
    cachedTokenQueueLimitPerWorker: 3,
  })
  const judge = (requests: number, rawIslTokens: number, cachedTokens: number, workers = 2) =>
    judgeLimits(limited, { requests, rawIslTokens, cachedTokens }, workers)
  expect(judge(0, 0, 0)).toBeUndefined()
  expect(judge(1, 8, 4)).toBeUndefined()
  expect(judge(2, 108, 104)).toEqual({ policyClass: 'c', limitKind: 'requests', current: 2, limit: 2 })
  expect(judge(1, 10, 4)).toMatchObject({ limitKind: 'raw_isl_tokens', current: 10, limit: 10 })
  expect(judge(1, 9, 6)).toMatchObject({ limitKind: 'cached_tokens', current: 6, limit: 6 })
})

it('a token limit follows the number of workers and evicts nobody', () => {
  const limited = policy({ rawIslTokenQueueLimitPerWorker: 10 })
  const judge = (rawIslTokens: number, workers: number) =>
    judgeLimits(limited, { requests: 1, rawIslTokens, cachedTokens: 0 }, workers)
  expect(judge(11, 1)).toMatchObject({ current: 11, limit: 10 })
  expect(judge(11, 2)).toBeUndefined()
  expect(judge(21, 2)).toMatchObject({ current: 21, limit: 20 })
})

it('no workers, or a limit of 0, reject everything; a huge limit does not overflow', () => {
  const none = { requests: 0, rawIslTokens: 0, cachedTokens: 0 }
  expect(judgeLimits(policy({ requestQueueLimitPerWorker: 5 }), none, 0)).toMatchObject({ limit: 0 })
  expect(judgeLimits(policy({ requestQueueLimitPerWorker: 0 }), none, 3)).toMatchObject({ limit: 0 })
  const huge = policy({ requestQueueLimitPerWorker: Number.MAX_SAFE_INTEGER })
  expect(judgeLimits(huge, { ...none, requests: Number.MAX_SAFE_INTEGER }, 1000)).toMatchObject({
    limit: Number.MAX_SAFE_INTEGER,
  })
})
