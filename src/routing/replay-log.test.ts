// Goal: whatever feeds a living router (packed batches, plain events, doubt about a stream, peers, sessions, lots, its
// clock, an estimator that fails), its log alone repeats every decision.
import { expect, it } from 'vitest'
import { BlockHashes, createBlockHasher, createHashScheme } from '../core/hashing/index.js'
import { TieredBatch } from '../core/index/index.js'
import type { SelectionRequest } from '../core/selection/index.js'
import { DefaultWorkerSelector } from '../core/selection/index.js'
import { readLogHeader } from '../core/router/index.js'
import type { EventIntake, KvRouterOptions } from './kv-router-options.js'
import { replayRouterLog } from './replay-log.js'
import { openScene, storedEvent, tokensFrom } from './router.case.js'

/** Follows the conversation where it says which worker it was with. */
const follower = {
  selectWorker(...args: Parameters<DefaultWorkerSelector['selectWorker']>) {
    const [workers, request] = args
    const inner = new DefaultWorkerSelector()
    return inner.selectWorker(workers, { ...request, ...followed(request) })
  },
}

function followed({ session }: SelectionRequest): Partial<SelectionRequest> {
  if (typeof session !== 'object' || session === null || !('with' in session)) return {}
  return { allowedWorkerIds: new Set([BigInt(session['with'] as number)]) }
}

async function record(options: Partial<KvRouterOptions>): Promise<{ log: Uint8Array; placed: number }> {
  const pieces: Uint8Array[] = []
  let intake: EventIntake | undefined
  let estimates = 0
  const { router, clock } = await openScene(
    { routerQueueThreshold: 0, routerTemperature: 0.3, routerPredictedTtlSecs: 2, routerReplicaSync: true },
    {
      workerIds: [0n, 1n, 2n],
      recordTo: (bytes) => pieces.push(bytes),
      replica: { routerId: 5n, port: { publish() {} } },
      prefillLoadEstimator: (tokens) => {
        if (estimates++ % 3 === 2) throw new Error('not now')
        return tokens
      },
      subscribe(it) {
        intake = it
        return Promise.resolve({ close: () => Promise.resolve() })
      },
      ...options,
    },
  )
  const hasher = createBlockHasher()
  const hashes = new BlockHashes()
  const batch = new TieredBatch()
  const waiting: Promise<unknown>[] = []
  let placed = 0
  for (let n = 0; n < 400; n++) {
    clock.advance(7 * (n % 5))
    const tokens = tokensFrom((n % 7) * 100, 8 + 4 * (n % 9))
    hasher.hash(tokens, createHashScheme({ blockSize: 4 }), hashes)
    const rank = n % 3
    if (n % 4 === 0) {
      batch.device.stored(rank, undefined, hashes.sequence, hashes.local, hashes.count)
      if (n % 20 === 0) batch.cleared((rank + 1) % 3)
      intake!.applyBatch(batch)
      batch.clear()
    }
    if (n % 11 === 0) intake!.setWithheld(rank, n % 22 === 0)
    if (n % 13 === 0) router.applyEvents([storedEvent(BigInt(rank), tokens, 2)])
    const worker = { workerId: BigInt(rank), dpRank: 0 }
    if (n % 17 === 0)
      router.applyReplicaEvents(
        [5n, 6n].map((routerId) => {
          return { requestId: `r${n - 3}`, worker, routerId, data: { kind: 'mark_prefill_completed' } as const }
        }),
      )
    const session = n % 5 === 0 ? { with: rank, turn: n / 2 } : undefined
    const asked = router.findBestMatch({
      tokens,
      contextId: `r${n}`,
      updateStates: true,
      session,
      recordsDecision: n % 2 === 0,
    })
    waiting.push(asked.then(() => placed++).catch(() => {}))
    await Promise.resolve()
    if (options.prefillLoadEstimator === 'online') markIfBooked(router, `r${n - 3}`)
    if (n >= 6) router.free(`r${n - 6}`)
  }
  await router.close()
  await Promise.all(waiting)
  return { log: new Uint8Array(Buffer.concat(pieces)), placed }
}

function markIfBooked(router: Awaited<ReturnType<typeof openScene>>['router'], requestId: string): void {
  try {
    router.markPrefillCompleted(requestId)
  } catch (error) {
    expect(error).toMatchObject({ code: 'WR_REQUEST_NOT_FOUND' }) // it still waits, or its peer ended it
  }
}

it.each([
  { says: 'with the default selector', options: {} },
  { says: 'with a selector that reads the session', options: { selector: follower } },
])('a living router is repeated from its log alone, $says', async ({ options }) => {
  const { log, placed } = await record(options)
  const result = replayRouterLog(log, options)
  expect(result.firstDifference).toBeUndefined()
  expect([placed > 300, result.decisions > placed]).toEqual([true, true])
  expect(readLogHeader(log)).toMatchObject({ blockSize: 4, label: 'decode', hasEstimator: true, routerId: '5' })
})

it('prefill times that are learned are learned again from the log', async () => {
  const { log, placed } = await record({ prefillLoadEstimator: 'online' })
  const result = replayRouterLog(log)
  expect([placed > 300, result.firstDifference]).toEqual([true, undefined])
  expect(readLogHeader(log)).toMatchObject({ hasEstimator: false, learnsPrefill: true })
  expect(result.core.learner?.observations).toBeGreaterThan(8)
})

it('the session is part of what is repeated: without it the follower decides otherwise', async () => {
  const { log } = await record({ selector: follower })
  expect(replayRouterLog(log).firstDifference).toBeDefined()
})

it('a sink that throws ends the log and nothing else', async () => {
  const { router, log } = await openScene(
    {},
    {
      recordTo: () => {
        throw new Error('the disk is full')
      },
    },
  )
  for (let n = 0; n < 2000; n++) {
    await router.findBestMatch({ tokens: tokensFrom(n, 64), contextId: `r${n}`, updateStates: true })
    router.free(`r${n}`)
  }
  expect(router.activeRequestCount).toBe(0)
  expect(log.warnings()).toEqual(['the log of inputs ends here: its sink failed'])
  await router.close()
})

it('what a log cannot hold is refused and leaves the log whole', async () => {
  const pieces: Uint8Array[] = []
  const { router } = await openScene({}, { recordTo: (bytes) => pieces.push(bytes) })
  const circle: Record<string, unknown> = {}
  circle['self'] = circle
  const ask = (contextId: string, session?: unknown) =>
    router.findBestMatch({ tokens: tokensFrom(0, 8), contextId, updateStates: true, session: session as never })
  await ask('a')
  for (const bad of [circle, () => 1, { at: Symbol('x') }])
    await expect(ask('b', bad)).rejects.toMatchObject({ code: 'WR_INVALID_ARGUMENT' })
  await ask('c', { deep: [-0, Number.NaN, 2n ** 70n, 'text', null, true], left: undefined })
  await router.close()
  const result = replayRouterLog(new Uint8Array(Buffer.concat(pieces)))
  expect([result.firstDifference, result.decisions, result.core.sequences.requestCount]).toEqual([undefined, 2, 2])
})
