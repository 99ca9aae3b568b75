// The guard around a prefill's booking: every way in which its leg can end, over scripted servers.
import { afterEach, expect, it, vi } from 'vitest'
import type { RouterPort } from '../../routing/index.js'
import { createMetrics } from '../../telemetry/index.js'
import { chatBody } from '../house.case.js'
import { createPolicyRouter } from '../policies/policy-router.js'
import type { Act, PairHouse } from './fake-pair.case.js'
import { FakePair, openPairHouse } from './fake-pair.case.js'

let pair: FakePair
let house: PairHouse
let calls: string[]
afterEach(async () => {
  await house.close()
  await pair.close()
  expect(pair.wrongs).toEqual([])
})

/** What the router among prefill workers is told of each booking, in order and by its number. */
function watched(): RouterPort {
  const router = createPolicyRouter({ policy: 'round-robin' })
  const route = router.route.bind(router)
  const free = router.free.bind(router)
  const say = (what: string, id: string): void => void calls.push(`${what} ${/\.p(\d+)$/.exec(id)?.[1]}`)
  router.route = async (request) => {
    const answer = await route(request)
    if (!request.isQueryOnly) say('book', request.requestId)
    return answer
  }
  router.prefillDone = (id) => say('mark', id)
  router.free = (id) => {
    say('free', id)
    free(id)
  }
  return router
}

interface Exit {
  readonly says: string
  readonly engine: 'vllm' | 'sglang'
  readonly prefill?: readonly Act[]
  readonly decode?: readonly Act[]
  /** When the prefill, or both legs, are on their way. */
  readonly meanwhile?: 'client leaves' | 'worker leaves'
  readonly calls: readonly string[]
  /** Prefills that the router's metrics count, and those of them that had a token. */
  readonly counted: readonly [requests: number, firstTokens: number]
}

const done = ['book 1', 'mark 1', 'free 1']
const unmarked = ['book 1', 'free 1']
const hang: Act = { kind: 'hang' }
/** A leg that meets its decode is not marked: its answer waits for the reader, and its time would teach the router nothing. */
const exits: readonly Exit[] = [
  { says: 'an answer', engine: 'vllm', calls: done, counted: [1, 1] },
  { says: 'a refusal', engine: 'vllm', prefill: [{ kind: 'status', status: 400 }], calls: unmarked, counted: [1, 0] },
  {
    says: 'a status, a closed connection, and nobody else to ask',
    engine: 'vllm',
    prefill: [{ kind: 'status', status: 500 }, { kind: 'drop' }],
    calls: ['book 1', 'free 1', 'book 2', 'free 2'],
    counted: [2, 0],
  },
  {
    says: 'its deadline, then an answer',
    engine: 'vllm',
    prefill: [hang],
    calls: ['book 1', 'free 1', 'book 2', 'mark 2', 'free 2'],
    counted: [2, 1],
  },
  {
    says: 'parameters that are wrong',
    engine: 'vllm',
    prefill: [{ kind: 'params', params: 7 }],
    calls: [...done, 'book 2', 'mark 2', 'free 2'],
    counted: [2, 2],
  },
  {
    says: 'its client leaving',
    engine: 'vllm',
    prefill: [hang, hang],
    meanwhile: 'client leaves',
    calls: unmarked,
    counted: [1, 0],
  },
  {
    says: 'its worker leaving',
    engine: 'vllm',
    prefill: [hang],
    meanwhile: 'worker leaves',
    calls: ['book 1', 'free 1', 'book 2', 'mark 2', 'free 2'],
    counted: [2, 1],
  },
  { says: 'an answer beside its decode', engine: 'sglang', calls: unmarked, counted: [1, 1] },
  {
    says: 'a decode that fails beside it',
    engine: 'sglang',
    decode: [{ kind: 'status', status: 500 }],
    calls: ['book 1', 'free 1', 'book 2', 'free 2'],
    counted: [2, 1],
  },
  {
    says: 'a failure beside its decode',
    engine: 'sglang',
    prefill: [{ kind: 'status', status: 500 }],
    calls: ['book 1', 'free 1', 'book 2', 'free 2'],
    counted: [2, 1],
  },
  {
    says: 'the client of both leaving',
    engine: 'sglang',
    decode: [hang, hang],
    meanwhile: 'client leaves',
    calls: unmarked,
    counted: [1, 0],
  },
]

it.each(exits)('a prefill that ends with $says is freed exactly once, and counted ($engine)', async (exit) => {
  calls = []
  pair = await FakePair.start(exit.engine, 5_000, [2, 2])
  const left = { prefill: [...(exit.prefill ?? [])], decode: [...(exit.decode ?? [])] }
  pair.act = (role) => left[role].shift() ?? { kind: 'ok' }
  house = await openPairHouse({
    pair,
    disagg: { openPrefill: () => Promise.resolve(watched()) },
    gateway: { metrics: createMetrics(), deadlines: { prefillMs: 1_000 } }, // one that does not hang answers sooner
  })
  const client = new AbortController()
  const asked = fetch(`${house.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: chatBody(),
    signal: client.signal,
  }).then(
    (response) => response.text(),
    () => undefined,
  )
  if (exit.meanwhile) {
    await vi.waitFor(() => expect(pair.prefill.flatMap(({ seen }) => seen)).toHaveLength(1))
    if (exit.meanwhile === 'client leaves') client.abort()
    else house.gateway.removeWorker(pair.spec('prefill', pair.prefill[0]!.seen.length === 1 ? 0 : 1).id)
  }
  await asked
  await vi.waitFor(() => expect(house.gateway.inFlight).toBe(0))
  expect(calls).toEqual(exit.calls)
  expect([counted('requests_total'), counted('time_to_first_token_seconds_count')]).toEqual(exit.counted)
})

it('a booking that was made for a decode worker that is not there is freed, and counts as no request', async () => {
  calls = []
  pair = await FakePair.start('sglang', 5_000, [1, 1])
  house = await openPairHouse({
    pair,
    disagg: { openPrefill: () => Promise.resolve(watched()) },
    gateway: { metrics: createMetrics() },
  })
  house.main.route = () => Promise.reject(new Error('no decode worker'))
  await fetch(`${house.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: chatBody(),
  })
  await vi.waitFor(() => expect(house.gateway.inFlight).toBe(0))
  expect([calls, counted('requests_total')]).toEqual([['book 1', 'free 1'], 0])
})

function counted(name: string): number {
  const line = new RegExp(`dynamo_component_router_${name}\\{[^}]*dynamo_component="m/prefill"[^}]*\\} (\\d+)`)
  return Number(line.exec(house.gateway.metrics.registry.text())?.[1])
}
