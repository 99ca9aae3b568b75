import { describe, expect, it } from 'vitest'
import { warningsDuring } from '../../test/warnings.js'
import { TokensWithHashes } from '../core/hashing/index.js'
import { SharedCacheHits } from '../core/selection/index.js'
import type { SelectionRequest, WorkerSelector } from '../core/selection/index.js'
import type { FindBestMatch } from './best-match.js'
import { ask, openScene, prompt, storedEvent, tokensFrom } from './router.case.js'
import type { RemoteIndexPort, SharedCachePort } from './router-ports.js'

const tight = { routerQueueThreshold: 0 }
const code = (name: string): unknown => expect.objectContaining({ code: name })

describe('closing while somebody asks elsewhere', () => {
  const never = (): Promise<never> => new Promise(() => {})

  it.each([
    { says: 'without a signal of its own', signal: undefined },
    { says: 'with one', signal: new AbortController().signal },
  ])('ends the question $says', async ({ signal }) => {
    let stopped: AbortSignal | undefined
    const remoteIndex: RemoteIndexPort = {
      findMatches: (_local, inner) => {
        stopped = inner
        return never()
      },
    }
    const { router, clock } = await openScene({ useRemoteIndexer: true }, { remoteIndex })
    const asked = router.findBestMatch(ask('a', { signal }))
    const closed = router.close()
    await expect(asked).rejects.toEqual(code('WR_ROUTER_CLOSED'))
    await closed
    expect([stopped?.aborted, clock.timerCount, router.activeRequestCount]).toEqual([true, 0, 0])
  })

  it('ends as many questions as there are, and none is taken for a leak', async () => {
    const { router, clock } = await openScene({ useRemoteIndexer: true }, { remoteIndex: { findMatches: never } })
    const warnings = await warningsDuring(async () => {
      const asked = Array.from({ length: 20 }, (_, at) => router.findBestMatch(ask(`a${at}`)))
      const ended = Promise.allSettled(asked)
      await router.close()
      for (const it of await ended) expect(it).toEqual({ status: 'rejected', reason: code('WR_ROUTER_CLOSED') })
    })
    expect([warnings, clock.timerCount]).toEqual([[], 0])
  })

  it('a port that throws before it answers is a failure like any other', async () => {
    const remoteIndex: RemoteIndexPort = {
      findMatches: () => {
        throw new TypeError('no such address')
      },
    }
    const { router, clock } = await openScene({ useRemoteIndexer: true }, { remoteIndex })
    const timers = clock.timerCount
    await expect(router.findBestMatch(ask('a'))).rejects.toThrow('no such address')
    expect(clock.timerCount).toBe(timers)
    await router.close()
  })

  it('what else a remote index is asked has a deadline too, and ends with the router', async () => {
    const remoteIndex: RemoteIndexPort = {
      findMatches: () => Promise.resolve([]),
      dumpEvents: never,
      recordDecision: never,
    }
    const { router, clock } = await openScene({ useRemoteIndexer: true }, { remoteIndex })
    const decided = new TokensWithHashes(prompt, 4)
    const recorded = router.recordRoutingDecision(decided, { workerId: 0n, dpRank: 0 })
    const late = expect(recorded).rejects.toEqual(code('WR_TIMEOUT'))
    clock.advance(5000)
    await late
    const dumped = router.dumpEvents()
    const ended = expect(dumped).rejects.toEqual(code('WR_ROUTER_CLOSED'))
    await router.close()
    await ended
  })

  it('giving up on a shared cache is not counted as its failure', async () => {
    const observed: string[] = []
    const own = new AbortController()
    const sharedCache: SharedCachePort = { checkBlocks: never }
    const { router } = await openScene({}, { sharedCache, observer: { sharedCacheFailed: () => observed.push('x') } })
    const asked = router.findBestMatch(ask('a', { signal: own.signal }))
    own.abort()
    await expect(asked).rejects.toEqual(code('WR_REQUEST_CANCELLED'))
    expect(observed).toEqual([])
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
