import { describe, expect, it } from 'vitest'
import { computeBlockHashes, computeSequenceHashes } from '../core/hashing/index.js'
import { toHashColumn } from '../core/protocol/index.js'
import { replayRouterLog } from './replay-log.js'
import type { PromptHashes } from './router-port.js'
import { ask, openScene, storedEvent, tokensFrom } from './router.case.js'

const tight = { routerQueueThreshold: 0 }
const code = (name: string): unknown => expect.objectContaining({ code: name })

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

  it('a signal that is still to be made is made for a wait alone, and ends that', async () => {
    const { router } = await openScene(tight, { workerIds: [0n] })
    const abort = new AbortController()
    let made = 0
    const signal = (): AbortSignal => (made++, abort.signal)
    await router.findBestMatch(ask('a', { signal }))
    expect(made).toBe(0)
    const waiting = router.findBestMatch(ask('b', { signal }))
    expect(made).toBe(1)
    abort.abort()
    await expect(waiting).rejects.toThrow(code('WR_REQUEST_CANCELLED') as Error)
    expect(router.pendingCount).toBe(0)
    router.free('a')
    expect(router.activeRequestCount).toBe(0)
    await router.close()
  })

  it('whoever was given up before the signal was made does not wait', async () => {
    const { router } = await openScene(tight, { workerIds: [0n] })
    await router.findBestMatch(ask('a'))
    const waiting = router.findBestMatch(ask('b', { signal: () => AbortSignal.abort() }))
    await expect(waiting).rejects.toThrow(code('WR_REQUEST_CANCELLED') as Error)
    expect([router.pendingCount, router.activeRequestCount]).toEqual([0, 1])
    await router.close()
  })

  it('the gauges of the queue hear of who gives up', async () => {
    const seen: [number, number][] = []
    const observer = { queued: (count: number, tokens: number) => void seen.push([count, tokens]) }
    const { router } = await openScene({ routerQueueThreshold: 0 }, { workerIds: [0n], observer })
    await router.findBestMatch(ask('runs'))
    const own = new AbortController()
    const waits = router.findBestMatch(ask('waits', { signal: own.signal }))
    expect(seen.at(-1)).toEqual([1, 16])
    own.abort()
    await expect(waits).rejects.toMatchObject({ code: 'WR_REQUEST_CANCELLED' })
    expect(seen.at(-1)).toEqual([0, 0])
    await router.close()
  })

  it('an observer that throws is logged, and takes nobody’s answer away', async () => {
    const fail = (): never => {
      throw new Error('a full disk')
    }
    const { router, log } = await openScene({}, { observer: { routed: fail, queued: fail } })
    expect(await router.findBestMatch(ask('a'))).toHaveLength(2)
    router.free('a')
    expect([router.activeRequestCount, log.warnings().includes('an observer failed')]).toEqual([0, true])
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

describe('a prompt that several kinds of engines encode differently', () => {
  const worker = { workerId: 0n, dpRank: 0 }
  const hashesOf = (tokens: Uint32Array): PromptHashes => {
    const local = computeBlockHashes(tokens, 4)
    return { local: toHashColumn(local), sequence: toHashColumn(computeSequenceHashes(local)) }
  }

  it.each([
    ['is looked up again by what its worker has by then, where it waited long', 10_000, 2, 4],
    ['goes by what was found when it came, where it did not', 9_999, 0, 3],
  ])('%s', async (_says, waitMs, overlapBlocks, decisions) => {
    const pieces: Uint8Array[] = []
    const recordTo = (bytes: Uint8Array): void => void pieces.push(bytes)
    const { router, clock } = await openScene(tight, { workerIds: [0n], recordTo })
    await router.findBestMatch(ask('a'))
    const encoded = tokensFrom(500, 8)
    const encodings = [{ workerIds: new Set([0n]), hashes: hashesOf(encoded) }]
    const waiting = router.findBestMatchDetails(ask('b', { tokens: tokensFrom(100, 9), encodings }))
    router.applyEvents([storedEvent(0n, encoded, 2)]) // meanwhile it computed the same for somebody else
    clock.advance(waitMs)
    router.markPrefillCompleted('a')
    expect(await waiting).toMatchObject({ worker, effectiveOverlapBlocks: overlapBlocks, waitedMs: waitMs })
    await router.close()
    const replayed = replayRouterLog(new Uint8Array(Buffer.concat(pieces)))
    expect([replayed.decisions, replayed.firstDifference]).toEqual([decisions, undefined])
  })
})
