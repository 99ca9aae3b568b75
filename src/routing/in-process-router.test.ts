import { expect, it } from 'vitest'
import { TokensWithHashes } from '../core/hashing/index.js'
import { InProcessRouter } from './in-process-router.js'
import { answerRouterRequest } from './request-handler.js'
import { fixedRandomness, LogBook, openScene, plainWorker, StillClock, storedEvent, tokensFrom } from './router.case.js'

const tokens = tokensFrom(0, 16)
const tight = { routerQueueThreshold: 0 }

function open(options: Partial<Parameters<typeof InProcessRouter.create>[0]> = {}): Promise<InProcessRouter> {
  return InProcessRouter.create({
    blockSize: 4,
    workers: [
      [0n, plainWorker],
      [1n, plainWorker],
    ],
    clock: new StillClock(),
    random: fixedRandomness(),
    ...options,
  })
}

it('routes, follows a request through its life, and ends at zero', async () => {
  const port = await open()
  port.applyEvents([storedEvent(1n, tokens, 3)])
  const answer = await port.route({ requestId: 'a', tokens, wantReceipt: true })
  expect(answer).toMatchObject({ workerId: 1n, dpRank: 0, overlapBlocks: 3, cachedTokens: 12, waitedMs: 0 })
  expect(answer.receipt?.chosen.workerId).toBe(1n)
  port.prefillDone('a')
  port.outputBlock('a', 0.9)
  port.free('a')
  port.free('a')
  expect(await port.loads()).toMatchObject([{ activeRequests: 0 }, { activeRequests: 0, activeDecodeBlocks: 0 }])
  expect(port.lateCalls).toBe(0)
  await port.close()
})

it('lifecycle calls for nobody are counted and logged, never thrown', async () => {
  const log = new LogBook()
  const port = await open({ log })
  port.prefillDone('x')
  port.outputBlock('x')
  port.free('x')
  port.recordDecision({ local: new Uint32Array(2), sequence: new Uint32Array(2) }, { workerId: 9n, dpRank: 0 })
  expect([port.lateCalls, log.warnings()]).toEqual([
    3,
    Array.from({ length: 3 }, () => 'a lifecycle call came for nobody'),
  ])
  await port.close()
})

it('workers come and go through the port, and wake those who wait', async () => {
  const port = await open({ workers: [[0n, plainWorker]], config: tight })
  await port.route({ requestId: 'a', tokens })
  const waiting = port.route({ requestId: 'b', tokens })
  port.setWorker(5n, plainWorker)
  expect(await waiting).toMatchObject({ workerId: 5n })
  port.removeWorker(5n)
  port.removeWorker(5n)
  expect(await port.loads()).toHaveLength(1)
  expect(() => port.setWorker(6n, { ...plainWorker, dataParallelSize: -1 })).toThrow('dataParallelSize is -1')
  await port.close()
})

it('a request that only a vanished worker could serve is refused', async () => {
  const port = await open({ config: tight })
  const pin = { workerId: 1n }
  await port.route({ requestId: 'a', tokens, pin })
  const waiting = port.route({ requestId: 'b', tokens, pin })
  port.removeWorker(1n)
  await expect(waiting).rejects.toThrow(expect.objectContaining({ code: 'WR_NO_ENDPOINTS' }))
  await port.close()
})

it('a pin without a rank is clear only where the worker owns exactly one', async () => {
  const port = await open({
    workers: [
      [0n, { ...plainWorker, dataParallelStartRank: 3 }],
      [1n, { ...plainWorker, dataParallelSize: 2 }],
    ],
  })
  expect(await port.route({ requestId: 'a', tokens, pin: { workerId: 0n } })).toMatchObject({ workerId: 0n, dpRank: 3 })
  expect(await port.route({ requestId: 'b', tokens, pin: { workerId: 1n, dpRank: 0 } })).toMatchObject({ dpRank: 0 })
  await expect(port.route({ requestId: 'c', tokens, pin: { workerId: 1n } })).rejects.toThrow('several ranks; name one')
  await expect(port.route({ requestId: 'd', tokens, pin: { workerId: 9n } })).rejects.toThrow('not known')
  await port.close()
})

it('honours exclusions, taints, queries and load-only requests', async () => {
  const port = await open({
    workers: [
      [0n, plainWorker],
      [1n, { ...plainWorker, taints: new Set(['big']) }],
    ],
  })
  const excludedWorkerIds = new Set([1n])
  expect(await port.route({ requestId: 'a', tokens, excludedWorkerIds })).toMatchObject({ workerId: 0n })
  expect(await port.route({ requestId: 'b', tokens, requiredTaints: ['big'] })).toMatchObject({ workerId: 1n })
  expect(await port.route({ requestId: 'q', tokens, isQueryOnly: true })).toMatchObject({ waitedMs: 0 })
  expect(await port.route({ requestId: 'l', tokenCount: 8 })).toMatchObject({ overlapBlocks: 0 })
  expect((await port.loads()).reduce((sum, load) => sum + load.activeRequests, 0)).toBe(3)
  await port.close()
})

it('without events it remembers its own decisions, and those it is told of', async () => {
  const port = await open({ config: { useKvEvents: false } })
  const { workerId } = await port.route({ requestId: 'a', tokens })
  port.free('a')
  expect(await port.route({ requestId: 'b', tokens })).toMatchObject({ workerId, overlapBlocks: 4 })
  const other = new TokensWithHashes(tokensFrom(700, 8), 4)
  port.recordDecision({ local: other.localHashes(), sequence: other.sequenceHashes() }, { workerId: 1n, dpRank: 0 })
  port.free('b')
  expect(await port.route({ requestId: 'c', tokens: other.tokens })).toMatchObject({ workerId: 1n, overlapBlocks: 2 })
  await port.close()
})

it('answers the request protocol', async () => {
  const { router } = await openScene(tight, { workerIds: [2n ** 64n - 1n] })
  const say = (id: string, text: string, signal?: AbortSignal) => answerRouterRequest(router, { id, signal }, text)
  const tokenList = JSON.stringify([...tokens])
  expect(await say('c1', `{"method":"new","tokens":${tokenList}}`)).toBe(
    '{"method":"new","worker_id":18446744073709551615,"dp_rank":0,"overlap_blocks":0}',
  )
  expect(await say('c1', '{"method":"mark_prefill"}')).toBe('{"method":"prefill_marked","success":true}')
  expect(await say('c9', '{"method":"mark_prefill"}')).toBe('{"method":"prefill_marked","success":false}')
  expect(await say('c9', '{"method":"mark_free","request_id":"c1"}')).toBe('{"method":"free_marked","success":true}')
  expect(await say('c9', '{"method":"mark_free","request_id":" "}')).toBe('{"method":"free_marked","success":true}')
  expect(router.activeRequestCount).toBe(0)
  expect(await say('c9', `{"method":"potential_loads","tokens":${tokenList}}`)).toBe(
    '{"method":"potential_loads","loads":[{"worker_id":18446744073709551615,"dp_rank":0,"potential_prefill_tokens":16,"potential_decode_blocks":4,"active_requests":0}],"pending_count":0,"pending_isl_tokens":0}',
  )
  await expect(say('c2', '{"method":"new","tokens":[]}')).rejects.toThrow('at least one token')
  await router.close()
})

it('as of 1.5 freeing an unknown id does not succeed', async () => {
  const { router } = await openScene({ compat: 'dynamo-1.5' })
  expect(await answerRouterRequest(router, { id: 'c' }, '{"method":"mark_free"}')).toBe(
    '{"method":"free_marked","success":false}',
  )
  await router.close()
})

it('a full queue is an answer of the protocol, and a context that stops leaves nothing behind', async () => {
  const { router } = await openScene({ ...tight, routerQueueParkedMax: 1 }, { workerIds: [0n] })
  const ask = `{"method":"new","tokens":${JSON.stringify([...tokens])}}`
  await answerRouterRequest(router, { id: 'a' }, ask)
  const abort = new AbortController()
  const waiting = answerRouterRequest(router, { id: 'b', signal: abort.signal }, ask)
  expect(await answerRouterRequest(router, { id: 'c' }, ask)).toBe(
    '{"method":"queue_rejected","rejection":{"policy_class":"default","limit_kind":"parked_requests","current":1,"limit":1}}',
  )
  abort.abort()
  await expect(waiting).rejects.toThrow(expect.objectContaining({ code: 'WR_REQUEST_CANCELLED' }))
  router.free('a')
  expect([router.pendingCount, router.activeRequestCount]).toEqual([0, 0])
  await router.close()
})

it.each([
  { recordsDecisions: undefined, cachedTokens: 16 },
  { recordsDecisions: () => false, cachedTokens: 0 },
  { recordsDecisions: () => true, cachedTokens: 16 },
])(
  'keeps its choices as predictions for those workers that need them: $recordsDecisions, $cachedTokens',
  async (it) => {
    const port = await open({ config: { routerPredictedTtlSecs: 60 }, recordsDecisions: it.recordsDecisions })
    await port.route({ requestId: 'a', tokens })
    expect(await port.route({ requestId: 'b', tokens })).toMatchObject({ cachedTokens: it.cachedTokens })
    await port.close()
  },
)

it('hands those who bring events the numbers of its ranks', async () => {
  let seen: number | undefined
  const port = await open({
    workers: [[7n, plainWorker]],
    subscribe(intake) {
      seen = intake.ranks.find(7n, 0)
      return Promise.resolve({ close: () => Promise.resolve() })
    },
  })
  expect(seen).toBe(0)
  await port.close()
})

it('refuses to wait for more workers at start than it is given, since nobody could add them', async () => {
  const config = { routerMinInitialWorkers: 3 }
  await expect(open({ config })).rejects.toMatchObject({ code: 'WR_INVALID_CONFIG' })
  await (await open({ config: { ...config, skipInitialWorkerWait: true } })).close()
})

it('held requests that are too many are an answer of the protocol too', async () => {
  const config = { policy: 'warm', routerLateBinding: true, routerQueueParkedMax: 1 } as const
  const { router } = await openScene(config, { workerIds: [0n] })
  const prompt = JSON.stringify({ method: 'new', tokens: [...tokensFrom(0, 40_000)] })
  const ask = (id: string): Promise<string> => answerRouterRequest(router, { id }, prompt)
  const waiting = ask('a').catch((error: unknown) => error)
  expect(await ask('b')).toContain('parked_requests')
  await router.close()
  expect(await waiting).toMatchObject({ code: 'WR_ROUTER_CLOSED' })
})

it('held requests whose worker is late do not keep the process busy', async () => {
  let looks = 0
  const config = { policy: 'warm', routerLateBinding: true } as const
  const { router, clock } = await openScene(config, { workerIds: [0n], observer: { queued: () => void looks++ } })
  const worker = { workerId: 0n, dpRank: 0 }
  for (const at of [1, 2]) {
    const tokens = tokensFrom(at * 100_000, 40_000)
    router.addRequest({ requestId: `running${at}`, tokens, cachedTokens: 0, worker })
  }
  const held = router.findBestMatch({ tokens: tokensFrom(0, 40_000), contextId: 'held', updateStates: true })
  clock.advance(3000) // both are overdue by now: only a mark or a free can change anything
  looks = 0
  clock.advance(1000)
  expect([router.pendingCount, looks]).toEqual([1, 0])
  for (const at of [1, 2]) router.free(`running${at}`)
  expect(await held).toEqual([worker, 0])
  await router.close()
})
