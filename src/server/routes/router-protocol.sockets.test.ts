// The router as a service over a socket: seed 002's request protocol.
import { describe, expect, it } from 'vitest'
import type { RouterPort } from '../../routing/index.js'
import { InProcessRouter } from '../../routing/index.js'
import type { House, HouseOptions } from '../house.case.js'
import { houseOfEachTest, post } from '../house.case.js'

const openAny = houseOfEachTest()
let house: House | undefined

async function open(options: HouseOptions = {}): Promise<House> {
  house = await openAny(options)
  return house
}

async function json(response: Response): Promise<object> {
  return (await response.json()) as object
}

describe('the router protocol', () => {
  const kv = (compat: 'default' | 'dynamo-1.5' = 'default'): Promise<RouterPort> =>
    InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false, compat } })
  const ask = async (body: object, id?: string, query = ''): Promise<object> =>
    json(
      await post(house!.url, `/router${query}`, JSON.stringify(body), id === undefined ? {} : { 'x-request-id': id }),
    )

  it('says of an id that nobody knows: not marked, but free', async () => {
    await open({ engines: 1, router: await kv() })
    await ask({ method: 'new', tokens: [1, 2, 3] }, 'r1')
    const marked = { method: 'prefill_marked' }
    expect(await ask({ method: 'mark_prefill' }, 'r1')).toEqual({ ...marked, success: true })
    expect(await ask({ method: 'mark_prefill' }, 'r2')).toEqual({ ...marked, success: false })
    expect(await ask({ method: 'mark_prefill', request_id: 'r1' }, 'r2')).toEqual({ ...marked, success: true })
    expect(await ask({ method: 'mark_free', request_id: ' ' }, 'r1')).toEqual({ method: 'free_marked', success: true })
    expect(await ask({ method: 'mark_prefill' }, 'r1')).toEqual({ ...marked, success: false })
    expect(await ask({ method: 'mark_free' }, 'r2')).toEqual({ method: 'free_marked', success: true })
  })

  it('as of 1.5 an id that nobody knows is not free either', async () => {
    await open({ engines: 1, router: await kv('dynamo-1.5') })
    expect(await ask({ method: 'mark_free' }, 'r2')).toEqual({ method: 'free_marked', success: false })
  })

  it('tells the potential load of every rank', async () => {
    await open({ engines: 2, router: await kv() })
    const tokens = Array.from({ length: 40 }, (_, at) => at)
    await ask({ method: 'new', tokens }, 'r1')
    const { loads, ...rest } = (await ask({ method: 'potential_loads', tokens: [1, 2] })) as unknown as {
      loads: { potential_prefill_tokens: number; active_requests: number }[]
    }
    expect(rest).toEqual({ method: 'potential_loads', pending_count: 0, pending_isl_tokens: 0 })
    expect(loads.map((it) => it.potential_prefill_tokens).sort((a, b) => a - b)).toEqual([2, 42])
    expect(loads.map((it) => it.active_requests).sort((a, b) => a - b)).toEqual([0, 1])
    await ask({ method: 'mark_free' }, 'r1')
  })

  it('reads many tokens in steps, and makes of them what it makes of few', async () => {
    const router = await kv()
    const asked: unknown[] = []
    const answer = router.answer.bind(router)
    router.answer = (context, request) => {
      asked.push(request)
      return answer(context, request)
    }
    await open({ engines: 1, router })
    const tokens = Array.from({ length: 200_000 }, (_, at) => (at * 7919) % 151_643)
    const more = { lora_name: 'é', priority_jump: 2, block_mm_infos: [null, null] }
    expect(await ask({ method: 'new', tokens, ...more }, 'r1')).toMatchObject({ method: 'new', overlap_blocks: 0 })
    expect(await ask({ ...more, method: 'new', tokens: tokens.slice(0, 1000) }, 'r2')).toMatchObject({ method: 'new' })
    const [long, short] = asked as { tokens: Uint32Array }[]
    expect(long!.tokens).toEqual(Uint32Array.from(tokens))
    expect({ ...long, tokens: [] }).toEqual({ ...short, tokens: [] })
    for (const id of ['r1', 'r2']) await ask({ method: 'mark_free' }, id)
  })

  const ones = Array(50_000).fill(1)
  const text = 'x'.repeat(300_000)
  it.each<[string, () => object, string]>([
    ['an odd token', () => ({ method: 'new', tokens: [...ones, -1] }), 'tokens hold something that is no token'],
    ['lists of tokens', () => ({ method: 'new', tokens: [ones] }), 'tokens hold something that is no token'],
    [
      'no tokens',
      () => ({ method: 'new', lora_name: text.slice(0, 99_999) }),
      'tokens hold something that is no token',
    ],
    ['a long name', () => ({ method: 'new', tokens: ones, lora_name: text }), 'only tokens may be longer'],
    ['an odd method', () => ({ method: 'odd', tokens: ones, more: ones }), 'method must be new, mark_prefill'],
  ])('refuses a long body with %s', async (_, body, reason) => {
    await open({ engines: 1, router: await kv() })
    expect(JSON.stringify(await ask(body(), 'r1'))).toContain(reason)
  })

  it('refuses a request that nobody names, and a model that is not served', async () => {
    await open({ engines: 1 })
    for (const method of ['mark_prefill', 'mark_free'])
      expect((await post(house!.url, '/router', JSON.stringify({ method }))).status).toBe(400)
    expect((await post(house!.url, '/router', JSON.stringify({ method: 'new', tokens: [1] }))).status).toBe(400)
    const other = JSON.stringify({ method: 'mark_free', request_id: 'r' })
    expect((await post(house!.url, '/router?model=x', other)).status).toBe(404)
    expect((await post(house!.url, '/router?model=m', other)).status).toBe(200)
  })

  it('books nothing for a caller that left while its request waited', async () => {
    const config = { useKvEvents: false, routerQueueThreshold: 0 }
    const { url, loads } = await open({ engines: 1, router: await InProcessRouter.create({ blockSize: 16, config }) })
    const tokens = Array.from({ length: 64 }, (_, at) => at)
    await ask({ method: 'new', tokens }, 'r1')
    const leaving = new AbortController()
    const body = JSON.stringify({ method: 'new', tokens: tokens.toReversed() })
    const headers = { 'x-request-id': 'r2' }
    const waiting = fetch(`${url}/router`, { method: 'POST', headers, body, signal: leaving.signal })
    const pending = async (): Promise<number> =>
      ((await ask({ method: 'potential_loads', tokens: [1] })) as unknown as { pending_count: number }).pending_count
    while ((await pending()) === 0);
    leaving.abort()
    await expect(waiting).rejects.toThrow()
    while ((await pending()) === 1);
    await ask({ method: 'mark_free' }, 'r1')
    expect((await loads())[0]!.activeRequests).toBe(0)
  })
})

it('speaks the router protocol', async () => {
  const { url, loads } = await open({ engines: 1 })
  const ask = async (body: object, id = 'r1'): Promise<object> =>
    json(await post(url, '/router', JSON.stringify(body), { 'x-request-id': id }))
  expect(await ask({ method: 'new', tokens: [1, 2, 3] })).toEqual({
    method: 'new',
    worker_id: 1,
    dp_rank: 0,
    overlap_blocks: 0,
  })
  expect((await loads())[0]!.activeRequests).toBe(1)
  expect(await ask({ method: 'mark_prefill' })).toEqual({ method: 'prefill_marked', success: true })
  expect(await ask({ method: 'mark_free', request_id: 'r1' }, 'other')).toEqual({
    method: 'free_marked',
    success: true,
  })
  expect((await loads())[0]!.activeRequests).toBe(0)
  expect((await post(url, '/router', '{"method":"jump"}', { 'x-request-id': 'x' })).status).toBe(400)
})
