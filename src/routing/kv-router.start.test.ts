import { describe, expect, it } from 'vitest'
import { KvRouter } from './kv-router.js'
import { fixedRandomness, openScene, plainWorker, StillClock } from './router.case.js'
import { WorkerRegistry } from './worker-registry.js'

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
      serveIndexer: ({ modelName }) => (
        steps.push(`serve ${modelName}`), Promise.resolve({ close: () => Promise.resolve() })
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

  it.each([
    [true, 'event-driven'],
    [false, 'approximate'],
  ])('offers its index until it is closed, and says how it is filled (events: %s)', async (useKvEvents, mode) => {
    const steps: unknown[] = []
    const { router } = await openScene(
      { serveIndexer: true, useKvEvents },
      {
        modelName: 'm',
        serveIndexer: (served) => {
          steps.push([served.index, served.modelName, served.mode])
          return Promise.resolve({ close: () => Promise.resolve(void steps.push('closed')) })
        },
      },
    )
    expect(steps).toEqual([[router.indexer, 'm', mode]])
    await router.close()
    expect(steps.at(-1)).toBe('closed')
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

  it('gives up on a subscription that never comes, and closes it should it come later', async () => {
    const abort = new AbortController()
    let come: (it: { close: () => Promise<void> }) => void = () => {}
    const starting = openScene(
      {},
      { signal: abort.signal, subscribe: () => new Promise((resolve) => (come = resolve)) },
    )
    const refused = expect(starting).rejects.toThrow(code('WR_ROUTER_CLOSED') as Error)
    for (let i = 0; i < 20; i++) await Promise.resolve()
    abort.abort()
    await refused
    let closed = 0
    come({ close: () => Promise.resolve(void closed++) })
    for (let i = 0; i < 5; i++) await Promise.resolve()
    expect(closed).toBe(1)
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
