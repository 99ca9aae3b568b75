import { describe, expect, it } from 'vitest'
import { TokensWithHashes } from '../core/hashing/index.js'
import { toBigInts } from '../core/protocol/index.js'
import { SharedCacheHits } from '../core/selection/index.js'
import { ask, LogBook, openScene, plainWorker, prompt, storedEvent, tokensFrom } from './router.case.js'
import type { RoutingTimes, SharedCachePort } from './router-ports.js'

const tight = { routerQueueThreshold: 0 }
const code = (name: string): unknown => expect.objectContaining({ code: name })

describe('finding a worker', () => {
  it('goes where the prompt is cached, and says how much', async () => {
    const { router } = await openScene()
    router.applyEvents([storedEvent(1n, prompt, 3)])
    expect(await router.findBestMatch(ask('a'))).toEqual([{ workerId: 1n, dpRank: 0 }, 3])
    expect(router.activeLoads()[1]).toMatchObject({ activePrefillTokens: 4, activeDecodeBlocks: 4, activeRequests: 1 })
    router.free('a')
    expect(router.activeLoads()[1]).toMatchObject({ activePrefillTokens: 0, activeDecodeBlocks: 0, activeRequests: 0 })
    await router.close()
  })

  it('needs an id to book, a token to route, and is over when it is closed', async () => {
    const { router } = await openScene()
    await expect(router.findBestMatch({ tokens: prompt, updateStates: true })).rejects.toThrow(
      'context_id must be provided when update_states is true',
    )
    await expect(router.findBestMatch(ask('a', { tokens: new Uint32Array(0) }))).rejects.toThrow('at least one token')
    await router.close()
    await expect(router.findBestMatch(ask('a'))).rejects.toThrow(code('WR_ROUTER_CLOSED') as Error)
  })

  it('weighs lower tiers in its estimates', async () => {
    const { router } = await openScene({}, { blockSize: 4 })
    const long = tokensFrom(0, 40)
    router.applyEvents([
      storedEvent(0n, long, 2),
      storedEvent(0n, long, 3, 'host_pinned', 2),
      storedEvent(0n, long, 5, 'disk', 3),
      storedEvent(1n, long, 1, 'host_pinned'),
    ])
    const estimate = (workerId: bigint) => router.getCacheHitEstimate({ tokens: long }, { workerId, dpRank: 0 })
    expect(await estimate(0n)).toEqual({ effectiveOverlapBlocks: 3.25, cachedTokens: 13 })
    expect(await estimate(1n)).toEqual({ effectiveOverlapBlocks: 0.75, cachedTokens: 3 })
    expect(await estimate(9n)).toEqual({ effectiveOverlapBlocks: 0, cachedTokens: 0 })
    expect(await router.getOverlapBlocks({ tokens: long }, { workerId: 0n, dpRank: 0 })).toBe(3)
    expect(await router.getOverlapBlocks({ tokens: long }, { workerId: 1n, dpRank: 0 })).toBe(1)
    await router.close()
  })

  it('adapters, namespaces and media are caches of their own', async () => {
    const { router } = await openScene()
    router.applyEvents([storedEvent(1n, prompt, 4)])
    const media = [{ mmObjects: [{ mmHash: 5n, offsets: [[0, 2]] as [number, number][] }] }]
    const on1 = (change: object) => router.getOverlapBlocks({ tokens: prompt, ...change }, { workerId: 1n, dpRank: 0 })
    expect(
      await Promise.all([on1({}), on1({ loraName: 'l' }), on1({ cacheNamespace: 'n' }), on1({ blockMmInfos: media })]),
    ).toEqual([4, 0, 0, 0])
    await router.close()
  })

  it('without reuse every request counts all of its blocks', async () => {
    const { router } = await openScene({ routerQueueThreshold: undefined }, { workerIds: [0n] })
    await router.findBestMatch(ask('a'))
    await router.findBestMatch(ask('b'))
    expect(router.activeLoads()[0]?.activeDecodeBlocks).toBe(4)
    await router.findBestMatch(ask('c', { routerConfigOverride: { assumeKvReuse: false } }))
    expect(router.activeLoads()[0]?.activeDecodeBlocks).toBe(8)
    await router.close()
  })

  it('without tokens load alone decides, and the length given is load', async () => {
    const { router } = await openScene()
    await router.findBestMatch(ask('a', { tokens: undefined, tokenCount: 40 }))
    await router.findBestMatch(ask('b', { tokens: undefined }))
    expect(router.activeLoads().map((it) => [it.activePrefillTokens, it.activeDecodeBlocks])).toEqual(
      expect.arrayContaining([
        [40, 10],
        [4, 1],
      ]),
    )
    await router.close()
  })

  it('hashes that are known are not computed again', async () => {
    const { router } = await openScene()
    router.applyEvents([storedEvent(1n, prompt, 4)])
    const known = new TokensWithHashes(prompt, 4)
    const hashes = { local: known.localHashes(), sequence: known.sequenceHashes() }
    expect(await router.findBestMatch(ask('a', { tokens: undefined, tokenCount: 17, hashes }))).toEqual([
      { workerId: 1n, dpRank: 0 },
      4,
    ])
    expect(router.activeLoads()[1]).toMatchObject({ activePrefillTokens: 1, activeDecodeBlocks: 4 })
    await router.close()
  })

  it('writes down what it was asked, in one debug line', async () => {
    const { router, log } = await openScene()
    await router.findBestMatch(ask('a'))
    const line = log.lines.find((it) => it.level === 'debug')
    expect(line?.sentence).toBe('[ROUTING_INPUT] request local hashes')
    const localHashes = toBigInts(new TokensWithHashes(prompt, 4).localHashes())
    expect(line?.fields).toEqual({
      request_id: 'a',
      isl_tokens: 16,
      block_size: 4,
      num_blocks: 4,
      local_hashes: localHashes,
    })
    await router.close()
  })

  it('its steps are spans by the names of upstream, ended also when they fail', async () => {
    const spans: string[] = []
    const startSpan = (name: string) => ({
      end: () => spans.push(name),
      setStatus: () => spans.push(`failed ${name}`),
    })
    const sharedCache: SharedCachePort = { checkBlocks: () => Promise.reject(new Error('down')) }
    const { router } = await openScene({}, { tracer: { startSpan } as never, sharedCache })
    await router.findBestMatch(ask('a'))
    expect(spans).toEqual([
      'kv_router.compute_block_hashes',
      'kv_router.compute_seq_hashes',
      'failed kv_router.shared_cache_check',
      'kv_router.shared_cache_check',
      'kv_router.find_matches',
      'kv_router.schedule',
    ])
    await router.close()
  })
})

describe('bookings', () => {
  it('adding a request never throws: a duplicate is logged', async () => {
    const { router, log } = await openScene()
    const worker = { workerId: 1n, dpRank: 0 }
    const request = { requestId: 'a', tokens: prompt, worker, cachedTokens: 6, expectedOutputTokens: 9, loraName: 'l' }
    router.addRequest(request)
    expect(router.activeLoads()[1]).toMatchObject({ activePrefillTokens: 10, activeDecodeBlocks: 4 })
    router.addRequest(request)
    expect([log.warnings(), router.activeRequestCount]).toEqual([['failed to add a request'], 1])
    expect([...router.activeLoraCounts]).toEqual([['l', 1]])
    await router.close()
  })

  it('an estimator that fails costs only the duration', async () => {
    const { router, log } = await openScene(
      {},
      {
        prefillLoadEstimator: () => {
          throw new Error('no model')
        },
      },
    )
    router.addRequest({ requestId: 'a', tokens: prompt, worker: { workerId: 1n, dpRank: 0 }, cachedTokens: 0 })
    expect([router.activeLoads()[1]?.activePrefillTokens, log.warnings()]).toEqual([
      16,
      ['failed to predict a prefill duration'],
    ])
    await router.close()
  })

  it('unknown ids: free succeeds, mark and output fail', async () => {
    const { router } = await openScene()
    router.free('nobody')
    expect(() => router.markPrefillCompleted('nobody')).toThrow(code('WR_REQUEST_NOT_FOUND') as Error)
    expect(() => router.addOutputBlock('nobody')).toThrow(code('WR_REQUEST_NOT_FOUND') as Error)
    expect(router.freeIfWorker('nobody', { workerId: 0n, dpRank: 0 })).toBe(false)
    await router.close()
  })

  it('a prefill that is marked is load no more, and what decodes stays until it is freed', async () => {
    const { router } = await openScene({}, { workerIds: [0n] })
    await router.findBestMatch(ask('a'))
    const load = (): unknown[] => {
      const { activePrefillTokens, activeDecodeBlocks, activeRequests } = router.activeLoads()[0]!
      return [activePrefillTokens, activeDecodeBlocks, activeRequests]
    }
    expect(load()).toEqual([16, 4, 1])
    router.markPrefillCompleted('a')
    expect(load()).toEqual([0, 4, 1])
    router.free('a')
    expect(load()).toEqual([0, 0, 0])
    await router.close()
  })

  it('output blocks count as load, weighed by what is left of their life', async () => {
    const { router } = await openScene({}, { workerIds: [0n] })
    await router.findBestMatch(ask('a'))
    router.addOutputBlock('a')
    expect(router.activeLoads()[0]?.activeDecodeBlocks).toBe(5)
    router.addOutputBlock('a', 0.5)
    expect(router.activeLoads()[0]?.activeDecodeBlocks).toBe(3)
    await router.close()
  })

  it('a booking that nobody ends is dropped by the sweep', async () => {
    const { router, clock, log } = await openScene()
    await router.findBestMatch(ask('a'))
    clock.advance(300_000)
    expect(router.activeRequestCount).toBe(1)
    clock.advance(60_000)
    expect([router.activeRequestCount, log.warnings()]).toEqual([0, ['dropped a booking that nobody ended']])
    await router.close()
  })

  it('registered workers can be booked on before they are known', async () => {
    const { router } = await openScene({}, { workerIds: [] })
    router.registerWorkers([4n])
    expect(router.activeLoads()).toEqual([
      { workerId: 4n, dpRank: 0, activeDecodeBlocks: 0, activePrefillTokens: 0, activeRequests: 0 },
    ])
    router.addRequest({ requestId: 'a', tokens: prompt, worker: { workerId: 4n, dpRank: 0 }, cachedTokens: 0 })
    expect(router.activeLoads()).toEqual([
      { workerId: 4n, dpRank: 0, activeDecodeBlocks: 4, activePrefillTokens: 16, activeRequests: 1 },
    ])
    await router.close()
  })

  it('listeners hear of each changed rank once per turn', async () => {
    const { router } = await openScene({}, { workerIds: [0n] })
    const heard: number[][] = []
    const stop = router.onLoads((changed) => heard.push(changed.map((it) => it.activePrefillTokens)))
    await router.findBestMatch(ask('a'))
    router.markPrefillCompleted('a')
    router.addOutputBlock('a')
    await Promise.resolve()
    stop()
    router.free('a')
    await Promise.resolve()
    expect(heard.flat().at(-1)).toBe(0)
    expect(heard.length).toBeLessThanOrEqual(2)
    await router.close()
  })
})

it('a listener to loads that throws is logged, and the others hear all the same', async () => {
  const { router, log } = await openScene()
  let heard = 0
  router.onLoads(() => {
    throw new Error('gone')
  })
  router.onLoads(() => void heard++)
  await router.findBestMatch(ask('a'))
  await Promise.resolve()
  expect([heard, log.warnings()]).toEqual([1, ['a listener to loads failed']])
  await router.close()
})

describe('potential loads', () => {
  it('are what a request would find, with its own tokens and blocks', async () => {
    const { router } = await openScene()
    router.applyEvents([storedEvent(1n, prompt, 2)])
    router.addRequest({ requestId: 'a', tokens: prompt, worker: { workerId: 0n, dpRank: 0 }, cachedTokens: 0 })
    expect(await router.getPotentialLoads({ tokens: prompt })).toEqual([
      { workerId: 0n, dpRank: 0, potentialPrefillTokens: 32, potentialDecodeBlocks: 4, activeRequests: 1 },
      { workerId: 1n, dpRank: 0, potentialPrefillTokens: 8, potentialDecodeBlocks: 4, activeRequests: 0 },
    ])
    await router.close()
  })

  it('fall with time, and can leave the request’s own tokens out', async () => {
    const { router, clock } = await openScene({}, { workerIds: [0n], prefillLoadEstimator: () => 10_000 })
    const tokens = tokensFrom(0, 100)
    router.addRequest({ requestId: 'a', tokens, worker: { workerId: 0n, dpRank: 0 }, cachedTokens: 0 })
    clock.time = 6000
    const loads = (trackPrefillTokens: boolean) =>
      router.getPotentialLoads({ tokens: prompt, routerConfigOverride: { trackPrefillTokens } })
    expect((await loads(false))[0]?.potentialPrefillTokens).toBe(40)
    expect((await loads(true))[0]?.potentialPrefillTokens).toBe(56)
    await router.close()
  })
})

describe('what is cached', () => {
  it('a dump gives back what events told', async () => {
    const { router } = await openScene()
    router.applyEvents([storedEvent(1n, prompt, 3)])
    const dump = await router.dumpEvents()
    const other = await openScene()
    other.router.applyEvents(dump)
    expect(await other.router.getOverlapBlocks({ tokens: prompt }, { workerId: 1n, dpRank: 0 })).toBe(3)
    await router.close()
    await other.router.close()
  })

  it('without events decisions are remembered for a time', async () => {
    const { router, clock } = await openScene({ useKvEvents: false, routerTtlSecs: 10 })
    const worker = { workerId: 1n, dpRank: 0 }
    await router.recordRoutingDecision(new TokensWithHashes(prompt, 4), worker)
    expect(await router.getOverlapBlocks({ tokens: prompt }, worker)).toBe(4)
    clock.time = 25_000
    expect(await router.getOverlapBlocks({ tokens: prompt }, worker)).toBe(0)
    await expect(
      router.recordRoutingDecision(new TokensWithHashes(prompt, 4), { workerId: 9n, dpRank: 0 }),
    ).rejects.toThrow(code('WR_WORKER_NOT_FOUND') as Error)
    await router.close()
  })

  it('a decision of a request that waited is remembered as well', async () => {
    const { router } = await openScene({ useKvEvents: false, ...tight }, { workerIds: [0n] })
    await router.findBestMatch(ask('a', { recordsDecision: true }))
    const other = tokensFrom(500, 12)
    const waiting = router.findBestMatch(ask('b', { tokens: other, recordsDecision: true }))
    router.free('a')
    await waiting
    const worker = { workerId: 0n, dpRank: 0 }
    expect(await Promise.all([prompt, other].map((tokens) => router.getOverlapBlocks({ tokens }, worker)))).toEqual([
      4, 3,
    ])
    await router.close()
  })

  it('prompts are found while the index grows and forgets under their hashes', async () => {
    const { router, clock, log } = await openScene({ useKvEvents: false, routerTtlSecs: 1 }, { workerIds: [0n] })
    log.isDebug = false
    const worker = { workerId: 0n, dpRank: 0 }
    for (let turn = 0; turn < 30; turn++) {
      const tokens = tokensFrom(100_000 * turn, 8000)
      await router.findBestMatch(ask(`${turn}`, { tokens, recordsDecision: true }))
      router.free(`${turn}`)
      const [, overlap] = await router.findBestMatch(ask(`${turn}`, { tokens }))
      router.free(`${turn}`)
      expect(overlap).toBe(2000)
      clock.time += turn === 20 ? 5000 : 0 // everything before is forgotten by the next request
    }
    expect(await router.getOverlapBlocks({ tokens: tokensFrom(2_000_000, 8000) }, worker)).toBe(0)
    expect(log.warnings()).toEqual([])
    await router.close()
  })

  it('the index is capped as the settings say, in as many shards as they say', async () => {
    for (const config of [{ indexMaxBlocks: 8 }, { indexMaxBlocksPerRank: 8, indexShards: 3 }]) {
      const { router } = await openScene(config)
      for (let turn = 0; turn < 5; turn++) router.applyEvents([storedEvent(1n, tokensFrom(1000 * turn, 16), 4)])
      const { heldBlocks, evictedBlocks } = router.indexer!.stats().device
      expect([heldBlocks, heldBlocks + evictedBlocks]).toEqual([8, 20])
      expect(await router.getOverlapBlocks({ tokens: tokensFrom(4000, 16) }, { workerId: 1n, dpRank: 0 })).toBe(4)
      await router.close()
    }
  })

  it('what a vanished worker held is forgotten with it', async () => {
    const { router, workers } = await openScene()
    router.applyEvents([storedEvent(1n, prompt, 4)])
    workers.remove(1n)
    workers.set(1n, plainWorker)
    expect(await router.getOverlapBlocks({ tokens: prompt }, { workerId: 1n, dpRank: 0 })).toBe(0)
    await router.close()
  })
})

it('observes how long each step took', async () => {
  const times: RoutingTimes[] = []
  const { router, clock } = await openScene(
    {},
    {
      observer: { routed: (it) => times.push(it) },
      sharedCache: { checkBlocks: () => ((clock.time += 5), Promise.resolve(new SharedCacheHits([]))) },
    },
  )
  await router.findBestMatch(ask('a'))
  expect(times).toEqual([{ hashMs: 0, seqHashMs: 0, findMatchesMs: 0, sharedCacheMs: 5, foundMs: 5, totalMs: 5 }])
  await router.close()
})

it('a silent log costs no debug line', async () => {
  const log = new LogBook()
  log.isDebug = false
  const { router } = await openScene({}, { log })
  await router.findBestMatch(ask('a'))
  expect(log.lines.some((line) => line.level === 'debug')).toBe(false)
  await router.close()
})
