import { describe, expect, it } from 'vitest'
import type { RouterConfigInput } from '../core/protocol/index.js'
import { parsePolicyConfig } from '../core/queue/index.js'
import type { LesserOverlap, PolicyFactory } from '../core/selection/index.js'
import { SharedCacheHits } from '../core/selection/index.js'
import type { FindBestMatch } from './best-match.js'
import type { KvRouterOptions } from './kv-router-options.js'
import { ask, openScene, plainWorker, prompt, storedEvent, tokensFrom } from './router.case.js'

const worker = (id: number) => ({ workerId: BigInt(id), dpRank: 0 })

describe('policies by name', () => {
  const selectionPolicyTypes = new Map<string, PolicyFactory>([
    [
      'always',
      (name, { worker: id }) => {
        if (typeof id !== 'number') throw new Error('worker is no number')
        return { name, filters: [({ workerId }) => workerId === BigInt(id)] }
      },
    ],
  ])
  const policies = parsePolicyConfig({
    worker_selection: {
      aggregated: 'to-one',
      prefill: 'to-two',
      instances: [0, 1, 2].map((at) => ({
        name: ['to-zero', 'to-one', 'to-two'][at],
        type: 'always',
        parameters: { worker: at },
      })),
    },
  })
  const chosen = async (config: RouterConfigInput, options: Partial<KvRouterOptions> = {}): Promise<bigint> => {
    const { router } = await openScene(config, { workerIds: [0n, 1n, 2n], policies, selectionPolicyTypes, ...options })
    const [{ workerId }] = await router.findBestMatch(ask('a'))
    await router.close()
    return workerId
  }

  it.each([
    { says: 'by the role that workers have unless told', config: {}, options: {}, id: 1n },
    { says: 'by role', config: {}, options: { workerRole: 'prefill' }, id: 2n },
    { says: 'by what gauges call them', config: {}, options: { workerType: 'prefill' }, id: 2n },
    { says: 'by name, for decode', config: { routerDecodePolicy: 'to-zero' }, options: {}, id: 0n },
    {
      says: 'by name, for prefill',
      config: { routerPrefillPolicy: 'to-zero' },
      options: { workerRole: 'prefill' },
      id: 0n,
    },
    { says: 'under the cost in milliseconds too', config: { policy: 'warm' }, options: {}, id: 1n },
  ] as const)('choose $says', async ({ config, options, id }) => {
    expect(await chosen(config, options)).toBe(id)
  })

  it('a selector of one’s own goes before any policy', async () => {
    const selector = {
      selectWorker: () => ({ worker: worker(2), requiredBlocks: 1, effectiveOverlapBlocks: 0, cachedTokens: 0 }),
    }
    expect(await chosen({ routerDecodePolicy: 'nobody' }, { selector })).toBe(2n)
  })

  it.each([
    {
      config: { routerDecodePolicy: 'mine' },
      options: {},
      text: 'mine is not given; given are to-zero, to-one, to-two',
    },
    { config: { routerDecodePolicy: 'mine' }, options: { policies: undefined }, text: 'mine is not given; none is' },
    { config: {}, options: { selectionPolicyTypes: undefined }, text: 'type is no known policy: "always"' },
  ])('one that is not there is refused at start: $text', async ({ config, options, text }) => {
    await expect(chosen(config, options)).rejects.toThrow(text)
  })

  it('a file with nothing else keeps the default queue and its slow recheck; classes with a model recheck often', async () => {
    const classes = parsePolicyConfig({
      default_policy_family: 'f',
      uncached_isl_buckets: [{ min_tokens: 0, bucket: 'b' }],
      policy_classes: [{ name: 'f', policy_family: 'f', cache_bucket: 'b', prefill_busy_threshold: 0 }],
    })
    for (const [given, ms] of [
      [policies, 60_000],
      [classes, 100],
    ] as const) {
      const timers: number[] = []
      const { router } = await openScene(
        { routerPrefillLoadModel: 'aic', routerQueueThreshold: undefined },
        {
          policies: given,
          selectionPolicyTypes,
          clock: {
            nowMs: () => 0,
            every: (every) => (timers.push(every), () => {}),
            once: () => () => {},
            soon: queueMicrotask,
          },
        },
      )
      expect(timers[0]).toBe(ms)
      await router.close()
    }
  })
})

describe('overlap scores', () => {
  it('are rows by tier for every rank, with what the shared cache holds beyond the device', async () => {
    const sharedCache = { checkBlocks: () => Promise.resolve(new SharedCacheHits([[0, 4]])) }
    const { router } = await openScene({ sharedCacheMultiplier: 0.5 }, { sharedCache })
    router.applyEvents([storedEvent(1n, prompt, 2), storedEvent(1n, prompt, 3, 'host_pinned', 2)])
    const scores = await router.getOverlapScores({ tokens: prompt })
    expect(scores).toMatchObject({
      blockSize: 4,
      numBlocks: 4,
      workers: [
        { workerId: 0n, deviceBlocks: 0, sharedBeyondDeviceBlocks: 4, routerCreditBlocks: 2 },
        { workerId: 1n, deviceBlocks: 2, hostPinnedBlocks: 3, diskBlocks: 3, sharedBeyondDeviceBlocks: 2 },
      ],
      sharedCache: { isEnabled: true, totalHitBlocks: 4, ranges: [[0, 4]], error: undefined },
    })
    expect(scores.workers[1]!.routerCreditBlocks).toBe(2 + 0.75 + 1)
    const own = await router.getOverlapScores({
      tokens: prompt,
      includeShared: false,
      routerConfigOverride: { overlapScoreCredit: 0 },
    })
    expect([own.sharedCache.isEnabled, own.workers[1]!.routerCreditBlocks]).toEqual([false, 0.75])
    expect(router.activeRequestCount).toBe(0)
    await router.close()
  })

  it('say why the shared cache has no answer, and are answered all the same', async () => {
    const sharedCache = { checkBlocks: () => Promise.reject(new Error('offline')) }
    const { router } = await openScene({}, { sharedCache })
    const { sharedCache: shared, workers } = await router.getOverlapScores({ tokens: prompt })
    expect([shared, workers.length]).toEqual([
      { isEnabled: true, totalHitBlocks: 0, ranges: [], error: 'Error: offline' },
      2,
    ])
    await router.close()
  })

  it('do not count predictions whose time has ended', async () => {
    const { router, clock } = await openScene({ useKvEvents: false, routerTtlSecs: 1 })
    const deepest = async () =>
      Math.max(...(await router.getOverlapScores({ tokens: prompt })).workers.map((it) => it.deviceBlocks))
    await router.findBestMatch(ask('a', { recordsDecision: true }))
    expect(await deepest()).toBe(4)
    clock.advance(3000)
    expect(await deepest()).toBe(0)
    await router.close()
  })

  it('ask a remote index where that is the index, and fail with it', async () => {
    const remoteIndex = { findMatches: () => Promise.resolve([{ ...worker(1), device: 3 }]) }
    const { router } = await openScene({ useRemoteIndexer: true }, { remoteIndex })
    const { workers } = await router.getOverlapScores({ tokens: prompt })
    expect(workers.map((it) => it.deviceBlocks)).toEqual([0, 3])
    await router.close()
  })
})

describe('who gives up cache', () => {
  /** Worker 1 holds the prompt; the lower id is taken unless told. */
  async function scene(options: Partial<KvRouterOptions> = {}, config: RouterConfigInput = {}) {
    const seen: [string, LesserOverlap][] = []
    const observer = { lesserOverlap: (id: string, choice: LesserOverlap) => void seen.push([id, choice]) }
    const selector = {
      selectWorker: () => ({ worker: worker(0), requiredBlocks: 4, effectiveOverlapBlocks: 0, cachedTokens: 0 }),
    }
    const opened = await openScene(config, { observer, selector, ...options })
    opened.router.applyEvents([storedEvent(1n, prompt, 3)])
    return { ...opened, seen }
  }

  it('is observed with both workers, after the answer', async () => {
    const { router, seen } = await scene()
    const answer = router.findBestMatch(ask('a'))
    expect(seen).toEqual([])
    await answer
    await Promise.resolve()
    const choice = { selectedOverlapBlocks: 0, highestOverlapWorker: worker(1), highestOverlapBlocks: 3 }
    expect(seen).toEqual([['a', { selectedWorker: worker(0), ...choice }]])
    await router.close()
  })

  it.each([
    { says: 'a tie', change: { tokens: tokensFrom(900, 16) } },
    { says: 'a pin', change: { pinnedWorker: worker(0) } },
    { says: 'somebody who was not eligible', change: { allowedWorkerIds: new Set([0n]) } },
    { says: 'a question that books nothing', change: { updateStates: false } },
  ])('is not $says', async ({ change }) => {
    const { router, seen } = await scene()
    await router.findBestMatchDetails(ask('a', change))
    await Promise.resolve()
    expect(seen).toEqual([])
    await router.close()
  })

  it('is not a request that was given up', async () => {
    const { router, seen } = await scene({}, { routerQueueThreshold: 0 })
    for (const at of [0, 1])
      router.addRequest({ requestId: `busy${at}`, tokens: prompt, cachedTokens: 0, worker: worker(at) })
    const own = new AbortController()
    const waits = router.findBestMatch(ask('a', { signal: own.signal })).catch(() => {})
    router.free('busy0') // it is placed, and goes before it is told
    own.abort()
    await waits
    await Promise.resolve()
    expect([seen, router.activeRequestCount]).toEqual([[], 1])
    await router.close()
  })

  it('is looked for only where somebody listens, and a listener that throws is logged', async () => {
    const observer = {
      lesserOverlap: (): never => {
        throw new Error('full')
      },
    }
    const { router, log } = await scene({ observer })
    expect(await router.findBestMatch(ask('a'))).toEqual([worker(0), 0])
    await Promise.resolve()
    await Promise.resolve()
    expect(log.warnings()).toContain('an observer failed')
    await router.close()
  })
})

describe('adapters', () => {
  const loraWorkers = (name: string) => ({ here: new Set([1n, 9n]), gone: new Set([9n]) })[name]

  it.each([
    { says: 'go to who has them', loraName: 'here', change: {}, id: 1n },
    { says: 'never widen what was allowed', loraName: 'here', change: { allowedWorkerIds: new Set([0n]) }, id: 0n },
    {
      says: 'go anywhere where only unknown workers have them',
      loraName: 'gone',
      change: { excludedWorkerIds: new Set([1n]) },
      id: 0n,
    },
    { says: 'leave a pin alone', loraName: 'here', change: { pinnedWorker: worker(0) }, id: 0n },
  ])('$says', async ({ loraName, change, id }) => {
    const { router } = await openScene({}, { loraWorkers })
    const { worker: chosen } = await router.findBestMatchDetails(ask('a', { loraName, ...change }))
    expect(chosen.workerId).toBe(id)
    await router.close()
  })
})

describe('a request’s own settings', () => {
  it('may use the deprecated name, and are judged by the router’s rules', async () => {
    const { router } = await openScene({}, { workerIds: [0n, 1n] })
    router.applyEvents([storedEvent(1n, prompt, 4)])
    const receiptOf = async (routerConfigOverride: FindBestMatch['routerConfigOverride']) =>
      (await router.findBestMatchDetails(ask('q', { updateStates: false, wantReceipt: true, routerConfigOverride })))
        .receipt
    expect((await receiptOf({ overlapScoreWeight: 2 }))?.candidates.map((it) => it.prefillCost)).toEqual([8, 0])
    await expect(receiptOf({ overlapScoreCredit: 1.5 })).rejects.toMatchObject({ code: 'WR_INVALID_CONFIG' })
    await router.close()
    const later = await openScene({ compat: 'dynamo-1.5' })
    await later.router.findBestMatch(ask('q', { routerConfigOverride: { overlapScoreCredit: 1.5 } }))
    await later.router.close()
  })
})

it('workers that only decode send no events that matter', async () => {
  const subscribe = () => Promise.reject(new Error('called'))
  const { router } = await openScene({}, { workerRole: 'decode', subscribe })
  await router.close()
  await expect(openScene({}, { workerRole: 'aggregated', subscribe })).rejects.toThrow('called')
})

it('a fleet that is empty at start reconciles with it', async () => {
  const { router, workers } = await openScene({}, { workerIds: [] })
  expect(router.activeLoads()).toEqual([])
  workers.set(4n, plainWorker)
  expect(router.activeLoads()).toHaveLength(1)
  await router.close()
})
