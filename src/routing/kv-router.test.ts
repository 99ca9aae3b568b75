import { describe, expect, it } from 'vitest'
import { TokensWithHashes } from '../core/hashing/index.js'
import { toBigInts } from '../core/protocol/index.js'
import { SharedCacheHits } from '../core/selection/index.js'
import type { SelectionRequest, WorkerSelector } from '../core/selection/index.js'
import type { FindBestMatch } from './best-match.js'
import { KvRouter } from './kv-router.js'
import { fixedRandomness, LogBook, openScene, plainWorker, StillClock, storedEvent, tokensFrom } from './router.case.js'
import type { RemoteIndexPort, RoutingTimes, SharedCachePort } from './router-ports.js'
import { WorkerRegistry } from './worker-registry.js'

const prompt = tokensFrom(100, 16)
const ask = (contextId: string, change: Partial<FindBestMatch> = {}): FindBestMatch => ({
  contextId,
  tokens: prompt,
  updateStates: true,
  ...change,
})
const tight = { routerQueueThreshold: 0 }
const code = (name: string): unknown => expect.objectContaining({ code: name })

describe('how it starts', () => {
  it('judges the config, builds the index, waits for workers, schedules, subscribes, then serves the index', async () => {
    const steps: string[] = []
    const workers = new WorkerRegistry()
    const watched = {
      current: () => (steps.push(`workers ${workers.current().size}`), workers.current()),
      watch: workers.watch.bind(workers),
    }
    const starting = KvRouter.create({
      blockSize: 4,
      workers: watched,
      config: { routerMinInitialWorkers: 1, serveIndexer: true },
      modelName: 'm',
      clock: new StillClock(),
      random: { ...fixedRandomness(), fill: (words) => (steps.push('index'), void words.fill(1)) },
      subscribe: () => (steps.push('subscribe'), Promise.resolve({ close: () => Promise.resolve() })),
      serveIndexer: (_index, name) => (
        steps.push(`serve ${name}`), Promise.resolve({ close: () => Promise.resolve() })
      ),
    })
    await Promise.resolve()
    expect(steps).toEqual(['index', 'workers 0'])
    workers.set(7n, plainWorker)
    const router = await starting
    expect(steps.slice(2)).toEqual(['workers 1', 'workers 1', 'subscribe', 'serve m'])
    expect(router.activeLoads()).toHaveLength(1)
    await router.close()
  })

  it('fails when the watch closes before enough workers appeared', async () => {
    const workers = new WorkerRegistry([[0n, plainWorker]])
    const starting = KvRouter.create({ blockSize: 4, workers, config: { routerMinInitialWorkers: 3 } })
    workers.close()
    await expect(starting).rejects.toThrow('runtime config watch closed before 3 workers appeared')
  })

  it('gives the wait up with its signal, and does not wait where told not to', async () => {
    const workers = new WorkerRegistry()
    const abort = new AbortController()
    const config = { routerMinInitialWorkers: 3 }
    const starting = KvRouter.create({ blockSize: 4, workers, config, signal: abort.signal })
    abort.abort()
    await expect(starting).rejects.toThrow(code('WR_ROUTER_CLOSED') as Error)
    const router = await KvRouter.create({ blockSize: 4, workers, config: { ...config, skipInitialWorkerWait: true } })
    await router.close()
  })

  it('a signal that fires while it starts leaves no timer, no watch and no subscription', async () => {
    for (const when of ['before', 'subscribing', 'found'] as const) {
      const abort = new AbortController()
      const clock = new StillClock()
      const workers = new WorkerRegistry(when === 'found' ? [] : [[0n, plainWorker]])
      let closed = 0
      let opened = 0
      if (when === 'before') abort.abort()
      const starting = KvRouter.create({
        blockSize: 4,
        workers,
        config: { routerMinInitialWorkers: 1 },
        clock,
        signal: abort.signal,
        subscribe: () => {
          opened++
          if (when === 'subscribing') abort.abort()
          return Promise.resolve({ close: () => Promise.resolve(void closed++) })
        },
      })
      if (when === 'found') {
        workers.set(0n, plainWorker)
        abort.abort()
      }
      await expect(starting).rejects.toThrow(code('WR_ROUTER_CLOSED') as Error)
      expect([clock.timerCount, closed]).toEqual([0, opened])
      expect(opened).toBe(when === 'subscribing' ? 1 : 0)
    }
  })

  it('whoever closes it, first or again, waits until everything is closed', async () => {
    let end = (): void => {}
    const abort = new AbortController()
    const { router } = await openScene(
      {},
      {
        signal: abort.signal,
        subscribe: () => Promise.resolve({ close: () => new Promise<void>((resolve) => (end = resolve)) }),
      },
    )
    abort.abort()
    let isClosed = false
    const closing = router.close().then(() => (isClosed = true))
    for (let i = 0; i < 20; i++) await Promise.resolve()
    expect(isClosed).toBe(false)
    end()
    await closing
  })

  it.each([
    [{ serveIndexer: true }, 'model_name is required when serve_indexer is configured'],
    [{ useRemoteIndexer: true }, 'use_remote_indexer needs a remote index'],
    [{ overlapScoreCredit: 2 }, 'overlap_score_credit must be between 0 and 1'],
    [
      { routerTrackingHash: 'keyed-xxh3-v1', routerTrackingKeyFile: 'k', routerTrackingKeyId: 'i' },
      'keyed-xxh3-v1 requires a model name',
    ],
  ] as const)('refuses %j', async (config, text) => {
    await expect(KvRouter.create({ blockSize: 4, workers: new WorkerRegistry(), config })).rejects.toThrow(text)
  })

  it('says which settings ask for a part that was not given', async () => {
    const config = { routerPrefillLoadModel: 'aic', sharedCacheType: 'hicache', routerReplicaSync: true } as const
    const { router, log } = await openScene(config)
    expect(log.warnings().map((line) => line.split(' ')[0])).toEqual([
      'router_prefill_load_model',
      'shared_cache_type',
      'router_replica_sync',
    ])
    await router.close()
    await expect(openScene({ routerDecodePolicy: 'mine' })).rejects.toThrow(
      'the worker-selection policy mine is not given',
    )
  })

  it('does not subscribe where events do not matter', async () => {
    for (const config of [{ overlapScoreCredit: 0 }, { useKvEvents: false }]) {
      const { router, log } = await openScene(config, { subscribe: () => Promise.reject(new Error('called')) })
      expect(log.lines.map((line) => line.sentence)).toContain('skipping KV event subscription')
      await router.close()
    }
  })

  it('follows the watch on workers, except as of 1.2 when the wait is skipped', async () => {
    for (const [compat, seen] of [
      ['default', 3],
      ['dynamo-1.2', 2],
    ] as const) {
      const { router, workers } = await openScene({ skipInitialWorkerWait: true, compat })
      workers.set(9n, plainWorker)
      expect(router.activeLoads()).toHaveLength(seen)
      await router.close()
    }
  })

  it('tells what it is', async () => {
    const client = { name: 'client' }
    const workers = new WorkerRegistry([
      [1n, { ...plainWorker, dataParallelStartRank: 5 }],
      [2n, { ...plainWorker, dataParallelSize: 2 }],
    ])
    const router = await KvRouter.create({ blockSize: 4, workers, client, workerType: 'prefill', isEagle: true })
    expect([router.client, router.blockSize, router.workerType, router.isEagle]).toEqual([client, 4, 'prefill', true])
    expect([router.kvRouterConfig.overlapScoreCredit, router.indexer === undefined]).toEqual([1, false])
    expect([1n, 2n, 3n].map((id) => router.uniqueDpRankForWorker(id))).toEqual([5, undefined, undefined])
    await router.close()
  })
})

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

describe('the shared cache', () => {
  const selected: (number | undefined)[] = []
  const inspecting = (workerId: bigint): WorkerSelector => ({
    selectWorker(_workers: unknown, request: SelectionRequest) {
      selected.push(request.sharedHits?.totalHits)
      return { worker: { workerId, dpRank: 0 }, requiredBlocks: 2, effectiveOverlapBlocks: 0, cachedTokens: 0 }
    },
  })
  const config = {
    overlapScoreCredit: 0,
    useKvEvents: false,
    routerTrackActiveBlocks: false,
    sharedCacheMultiplier: 0.5,
  }
  const question: FindBestMatch = { tokens: Uint32Array.of(11, 12, 21, 22), updateStates: false }

  it('its hits reach the selector', async () => {
    const observed: unknown[] = []
    const sharedCache: SharedCachePort = { checkBlocks: () => Promise.resolve(new SharedCacheHits([[0, 2]])) }
    const observer = { sharedCacheHit: (...figures: unknown[]) => observed.push(figures) }
    const { router } = await openScene(config, { blockSize: 2, selector: inspecting(1n), sharedCache, observer })
    expect(await router.findBestMatch(question)).toEqual([{ workerId: 1n, dpRank: 0 }, 0])
    expect([selected.pop(), observed]).toEqual([2, [[1, 2]]])
    await router.close()
  })

  it('its failure is logged and counted, and the decision is made without hits', async () => {
    const observed: string[] = []
    const sharedCache: SharedCachePort = { checkBlocks: () => Promise.reject(new Error('offline')) }
    const observer = { sharedCacheFailed: () => observed.push('failed'), sharedCacheHit: () => observed.push('hit') }
    const { router, log } = await openScene(config, { blockSize: 2, selector: inspecting(0n), sharedCache, observer })
    expect(await router.findBestMatch(question)).toEqual([{ workerId: 0n, dpRank: 0 }, 0])
    expect([selected.pop(), observed, log.warnings()]).toEqual([
      undefined,
      ['failed'],
      ['shared cache query failed, ignoring'],
    ])
    await router.close()
  })

  it('one that does not answer is not waited for', async () => {
    let isToldToStop = false
    const sharedCache: SharedCachePort = {
      checkBlocks: (_tokens, _size, signal) => {
        signal.addEventListener('abort', () => (isToldToStop = true))
        return new Promise(() => {})
      },
    }
    const { router, clock } = await openScene(config, { sharedCache, sharedCacheTimeoutMs: 50 })
    const answer = router.findBestMatch(question)
    await Promise.resolve()
    clock.advance(50)
    expect(await answer).toHaveLength(2)
    expect(isToldToStop).toBe(true)
    await router.close()
  })
})

describe('an index elsewhere', () => {
  const config = { useRemoteIndexer: true }

  it('is asked with the hashes of the prompt, and its failure fails the request', async () => {
    let rows: unknown = [
      { workerId: 1n, dpRank: 0, device: 2, hostPinned: 1 },
      { workerId: 99n, dpRank: 0, device: 9 },
    ]
    const remoteIndex: RemoteIndexPort = {
      findMatches: () => (rows instanceof Error ? Promise.reject(rows) : Promise.resolve(rows as never)),
      dumpEvents: () => Promise.resolve([storedEvent(1n, prompt, 1)]),
    }
    const { router } = await openScene(config, { remoteIndex })
    expect(router.indexer).toBeUndefined()
    expect(await router.findBestMatchDetails(ask('a'))).toMatchObject({
      worker: { workerId: 1n },
      effectiveOverlapBlocks: 2.75,
      cachedTokens: 11,
    })
    expect(await router.getOverlapBlocks({ tokens: prompt }, { workerId: 1n, dpRank: 0 })).toBe(3)
    expect(await router.dumpEvents()).toHaveLength(1)
    rows = new Error('index offline')
    await expect(router.findBestMatch(ask('b'))).rejects.toThrow('index offline')
    expect(router.activeRequestCount).toBe(1)
    await router.close()
  })

  it('one that does not answer in time fails the request', async () => {
    const remoteIndex: RemoteIndexPort = { findMatches: () => new Promise(() => {}) }
    const { router, clock } = await openScene(config, { remoteIndex, remoteIndexTimeoutMs: 70 })
    const answer = router.findBestMatch(ask('a'))
    await Promise.resolve()
    clock.advance(70)
    await expect(answer).rejects.toThrow(code('WR_TIMEOUT') as Error)
    await router.close()
  })

  it('is asked again for who waited long, and who gives up meanwhile is not booked', async () => {
    const questions: (() => void)[] = []
    let device = 0
    const remoteIndex: RemoteIndexPort = {
      findMatches: () => new Promise((resolve) => questions.push(() => resolve([{ workerId: 0n, dpRank: 0, device }]))),
    }
    const { router, clock } = await openScene({ ...config, ...tight }, { remoteIndex, workerIds: [0n] })
    const start = (id: string, signal?: AbortSignal) => {
      const answer = router.findBestMatchDetails(ask(id, { signal }))
      answer.catch(() => {})
      return answer
    }
    const answerAll = async () => {
      for (const answer of questions.splice(0)) answer()
      for (let turn = 0; turn < 10; turn++) await Promise.resolve()
    }
    void start('running')
    await answerAll()
    const abort = new AbortController()
    const waiting = start('waiting')
    const leaving = start('leaving', abort.signal)
    await answerAll()
    router.addRequest({
      requestId: 'more',
      tokens: tokensFrom(0, 9),
      worker: { workerId: 0n, dpRank: 0 },
      cachedTokens: 0,
    })
    router.free('running')
    clock.advance(20_000)
    router.free('more')
    expect([router.pendingCount, questions.length]).toEqual([0, 2])
    abort.abort()
    device = 4
    await answerAll()
    expect(await waiting).toMatchObject({ cachedTokens: 16, waitedMs: 20_000 })
    await expect(leaving).rejects.toThrow(code('WR_REQUEST_CANCELLED') as Error)
    expect(router.activeRequestCount).toBe(1)
    await router.close()
  })
})

describe('waiting', () => {
  it('a parked request is a promise that a free worker settles', async () => {
    const { router, clock } = await openScene(tight, { workerIds: [0n] })
    await router.findBestMatch(ask('a'))
    const waiting = router.findBestMatchDetails(ask('b', { tokens: tokensFrom(0, 5) }))
    expect([router.pendingCount, router.pendingIslTokens]).toEqual([1, 5])
    clock.advance(30)
    router.markPrefillCompleted('a')
    expect(await waiting).toMatchObject({ worker: { workerId: 0n, dpRank: 0 }, waitedMs: 30 })
    expect([router.pendingCount, router.pendingIslTokens]).toEqual([0, 0])
    await router.close()
  })

  it('who gives up is out of the queue at once, and nothing is booked', async () => {
    const { router } = await openScene(tight, { workerIds: [0n] })
    await router.findBestMatch(ask('a'))
    const abort = new AbortController()
    const waiting = router.findBestMatch(ask('b', { signal: abort.signal }))
    abort.abort()
    await expect(waiting).rejects.toThrow(code('WR_REQUEST_CANCELLED') as Error)
    expect(router.pendingCount).toBe(0)
    router.free('a')
    expect(router.activeRequestCount).toBe(0)
    await expect(router.findBestMatch(ask('c', { signal: abort.signal }))).rejects.toThrow(
      code('WR_REQUEST_CANCELLED') as Error,
    )
    await router.close()
  })

  it('who goes between being placed and being told leaves nothing booked', async () => {
    const { router } = await openScene(tight, { workerIds: [0n] })
    await router.findBestMatch(ask('a'))
    const abort = new AbortController()
    const waiting = router.findBestMatch(ask('b', { signal: abort.signal }))
    router.free('a') // places b; its caller is told in a later turn
    abort.abort()
    await expect(waiting).rejects.toThrow(code('WR_REQUEST_CANCELLED') as Error)
    expect(router.activeRequestCount).toBe(0)
    await router.close()
  })

  it('freeing an id that waits ends the wait', async () => {
    const { router } = await openScene(tight, { workerIds: [0n] })
    await router.findBestMatch(ask('a'))
    const waiting = router.findBestMatch(ask('b'))
    router.free('b')
    await expect(waiting).rejects.toThrow(code('WR_REQUEST_CANCELLED') as Error)
    await router.close()
  })

  it('as of 1.2, who held up everybody and gives up lets the others go', async () => {
    const { router } = await openScene({ ...tight, compat: 'dynamo-1.2' })
    const worker = (id: number) => ({ workerId: BigInt(id), dpRank: 0 })
    await router.findBestMatchDetails(ask('a', { pinnedWorker: worker(0) }))
    await router.findBestMatchDetails(ask('b', { pinnedWorker: worker(1) }))
    const abort = new AbortController()
    const head = router.findBestMatchDetails(ask('head', { pinnedWorker: worker(0), signal: abort.signal }))
    const behind = router.findBestMatch(ask('behind'))
    router.markPrefillCompleted('b')
    expect(router.pendingCount).toBe(2)
    abort.abort()
    await expect(head).rejects.toThrow(code('WR_REQUEST_CANCELLED') as Error)
    expect((await behind)[0]).toEqual(worker(1))
    await router.close()
  })

  it('the recheck timer lets go whom falling load allows', async () => {
    const { router, clock } = await openScene(
      { routerQueueThreshold: 0.1, routerPrefillLoadModel: 'aic' },
      {
        workerIds: [0n],
        prefillLoadEstimator: () => 1000,
      },
    )
    await router.findBestMatch(ask('a'))
    const waiting = router.findBestMatchDetails(ask('b'))
    clock.advance(300)
    expect(router.pendingCount).toBe(1)
    clock.advance(100)
    expect(await waiting).toMatchObject({ waitedMs: 400 })
    await router.close()
  })

  it('closing refuses everybody who waits and stops every timer', async () => {
    const { router, clock } = await openScene(tight, { workerIds: [0n] })
    await router.findBestMatch(ask('a'))
    const waiting = router.findBestMatch(ask('b'))
    const closed = router.close()
    await expect(waiting).rejects.toThrow(code('WR_ROUTER_CLOSED') as Error)
    await closed
    await router.close()
    expect(clock.timerCount).toBe(0)
  })

  it("a peer's free lets a request go", async () => {
    const { router } = await openScene(tight, { workerIds: [0n] })
    await router.findBestMatch(ask('a'))
    const waiting = router.findBestMatch(ask('b'))
    const worker = { workerId: 0n, dpRank: 0 }
    router.applyReplicaEvents([{ requestId: 'a', worker, routerId: 5n, data: { kind: 'free' } }])
    expect((await waiting)[0]).toEqual(worker)
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
