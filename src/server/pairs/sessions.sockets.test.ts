// A session has a worker that prefills it and another that decodes it: over scripted servers.
import { afterEach, expect, it } from 'vitest'
import { chatBody, post } from '../house.case.js'
import type { PairHouse } from './fake-pair.case.js'
import { FakePair, openPairHouse } from './fake-pair.case.js'

let pair: FakePair
let house: PairHouse
afterEach(async () => {
  await house.close()
  await pair.close()
  expect(pair.wrongs).toEqual([])
})

async function open(engine: 'vllm' | 'sglang'): Promise<void> {
  pair = await FakePair.start(engine, 5_000, [3, 2])
  house = await openPairHouse({ pair, model: { sessionAffinityTtlSecs: 60 } })
}

const ask = (body: object, headers: Record<string, string>): Promise<Response> =>
  post(house.url, '/v1/chat/completions', chatBody(body), headers)
const session = (id: string): Record<string, string> => ({ 'x-dynamo-session-id': id })
const halves = async (headers: Record<string, string>): Promise<(string | null)[]> => {
  const response = await ask({}, headers)
  await response.text()
  return ['prefill-worker-id', 'worker-id'].map((name) => response.headers.get(`x-warmroute-${name}`))
}

it.each(['vllm', 'sglang'] as const)(
  'a conversation and the worker that prefills it stay together, apart from the one that decodes it (%s)',
  async (engine) => {
    await open(engine)
    const first = await halves(session('a'))
    expect(await halves(session('b'))).not.toEqual(first)
    for (let turn = 0; turn < 4; turn++) expect(await halves(session('a'))).toEqual(first)
    const others = await Promise.all(Array.from({ length: 3 }, () => halves({})))
    expect(new Set(others.map(([prefill]) => prefill)).size).toBe(3) // nobody else is held
  },
)

it('the others wait while the first chooses, and follow it', async () => {
  await open('vllm')
  const all = await Promise.all(Array.from({ length: 5 }, () => halves(session('a'))))
  expect(new Set(all.map(String)).size).toBe(1)
})

it.each(['vllm', 'sglang'] as const)(
  'they part when it fails: another prefills, once and for all (%s)',
  async (engine) => {
    await open(engine)
    const [prefill, decode] = await halves(session('a'))
    pair.act = (role, at) =>
      role === 'prefill' && at === Number(prefill) - 1 ? { kind: 'status', status: 500 } : { kind: 'ok' }
    const [next, stays] = await halves(session('a'))
    expect(next).not.toBe(prefill)
    expect(stays).toBe(decode) // the decode half is another session
    pair.act = () => ({ kind: 'ok' })
    expect(await halves(session('a'))).toEqual([next, decode])
  },
)

it('they part when it leaves', async () => {
  await open('vllm')
  const [prefill, decode] = await halves(session('a'))
  house.gateway.removeWorker(BigInt(prefill!))
  const [next] = await halves(session('a'))
  expect(next).not.toBe(prefill)
  expect(await halves(session('a'))).toEqual([next, decode])
})

it('a request that names another prefill worker than its session has is refused', async () => {
  await open('vllm')
  const [prefill] = await halves(session('a'))
  const named = (id: string): Record<string, string> => ({ ...session('a'), 'x-dynamo-prefill-instance-id': id })
  expect((await halves(named(prefill!)))[0]).toBe(prefill)
  const refused = await ask({}, named(prefill === '1' ? '2' : '1'))
  expect([refused.status, (await refused.text()).includes('WR_SESSION_TARGET_MISMATCH')]).toEqual([400, true])
})

it('a dry run shows it, and neither begins nor ends it', async () => {
  await open('vllm')
  const dry = { nvext: { annotations: ['query_instance_id:'] } }
  const shown = async (): Promise<string> => {
    const answer = (await (await ask(dry, session('a'))).json()) as {
      nvext: { worker_id: { prefill_worker_id: number } }
    }
    return String(answer.nvext.worker_id.prefill_worker_id)
  }
  const first = await shown()
  expect((await halves(session('b')))[0]).toBe(first) // who only asks takes nobody's turn
  const second = await shown()
  expect(second).not.toBe(first)
  expect((await halves(session('a')))[0]).toBe(second)
  await halves(session('c'))
  expect([await shown(), await shown()]).toEqual([second, second])
})
