// What a pair does when something fails, and what it never does, over scripted servers.
import { afterEach, describe, expect, it, vi } from 'vitest'
import { signalOf } from '../../routing/index.js'
import { chatBody, post } from '../house.case.js'
import type { Act, PairHouse, PairHouseOptions } from './fake-pair.case.js'
import { FakePair, openPairHouse } from './fake-pair.case.js'

let pair: FakePair
let house: PairHouse | undefined
afterEach(async () => {
  await nothingIsLeft()
  await house?.close()
  await pair.close()
  house = undefined
  expect(pair.wrongs).toEqual([])
})

async function nothingIsLeft(): Promise<void> {
  await vi.waitFor(async () => {
    for (const router of [house!.main, ...house!.inner])
      for (const load of await router.loads()) expect(load).toMatchObject({ activeRequests: 0, activePrefillTokens: 0 })
    expect(house!.gateway.inFlight).toBe(0)
    expect(house!.gateway.workers().every((worker) => worker.in_flight === 0)).toBe(true)
    expect(pair.heldCount).toBe(0)
  })
}

async function open(
  engine: 'vllm' | 'sglang',
  options: Omit<PairHouseOptions, 'pair'> & {
    readonly leaseMs?: number
    readonly counts?: readonly [number, number]
    readonly now?: () => number
  } = {},
): Promise<PairHouse> {
  pair = await FakePair.start(engine, options.leaseMs ?? 5_000, options.counts ?? [2, 2], { now: options.now })
  return (house = await openPairHouse({ ...options, pair }))
}

/** Each server's acts in order, then `ok`. */
function script(acts: Partial<Record<'prefill' | 'decode', readonly Act[]>>): void {
  const left = { prefill: [...(acts.prefill ?? [])], decode: [...(acts.decode ?? [])] }
  pair.act = (role) => left[role].shift() ?? { kind: 'ok' }
}

const ask = (body: object = {}, headers: Record<string, string> = {}): Promise<Response> =>
  post(house!.url, '/v1/chat/completions', chatBody(body), headers)

const seen = (role: 'prefill' | 'decode'): Record<string, unknown>[] =>
  pair[role].flatMap((engine) => engine.seen.map(({ text }) => JSON.parse(text) as Record<string, unknown>))

async function error(response: Response): Promise<{ status: number; message: string }> {
  const body = (await response.json()) as { error?: { message: string }; message: string }
  return { status: response.status, message: (body.error ?? body).message }
}

describe('vLLM, the prefill first', () => {
  it('keeps a stream alive while its prompt is computed elsewhere', async () => {
    await open('vllm', { gateway: { keepAliveMs: 20 } })
    script({ prefill: [{ kind: 'ok', afterMs: 150 }] })
    const text = await (await ask({ stream: true })).text()
    expect(text).toMatch(/^:\n\n/)
    expect(text).toMatch(/\[DONE\]\n\n$/)
    expect(seen('prefill')).toHaveLength(1)
  })

  it('tells a refusal of the prefill in a stream that is kept alive already', async () => {
    await open('vllm', { gateway: { keepAliveMs: 20 } })
    script({ prefill: [{ kind: 'status', status: 400 }] })
    const [inner] = house!.inner
    const route = inner!.route.bind(inner)
    let letGo = (): void => {}
    const opened = new Promise<void>((resolve) => (letGo = resolve))
    inner!.route = async (request) => {
      await opened
      return route(request)
    }
    const response = await ask({ stream: true })
    letGo()
    expect(await response.text()).toMatch(/^:\n\n.*status 400.*\[DONE\]\n\n$/s)
    expect(seen('decode')).toHaveLength(0)
  })

  it('passes the checked parameters on as they came, and the rest of the body untouched', async () => {
    await open('vllm')
    const body = chatBody({
      max_tokens: 7,
      min_tokens: 2,
      stream: true,
      stream_options: { include_usage: true },
      seed: 1e3,
    })
    const response = await post(house!.url, '/v1/chat/completions', body)
    expect(await response.text()).toContain('[DONE]')
    const [prefill] = seen('prefill')
    expect(prefill).toMatchObject({ stream: false, max_tokens: 1, seed: 1000 })
    expect(Object.keys(prefill!)).not.toContain('stream_options')
    expect(Object.keys(prefill!)).not.toContain('min_tokens')
    const [decode] = seen('decode')
    expect(decode).toMatchObject({
      max_tokens: 7,
      min_tokens: 2,
      stream: true,
      kv_transfer_params: { remote_request_id: 'hold-1' },
    })
    expect(response.headers.get('x-warmroute-prefill-worker-id')).toBe('1')
    expect(response.headers.get('x-warmroute-worker-id')).toBe('11')
  })

  it.each<[string, Act]>([
    ['does not answer', { kind: 'drop' }],
    ['answers 500', { kind: 'status', status: 500 }],
    ['answers 503', { kind: 'status', status: 503 }],
    ['names no blocks', { kind: 'params', params: { do_remote_prefill: true, do_remote_decode: false } }],
    ['sends a text', { kind: 'params', params: 'no object' }],
  ])('a prefill worker that %s is replaced by another', async (_says, act) => {
    await open('vllm')
    script({ prefill: [act] })
    const response = await ask()
    expect([response.status, response.headers.get('x-warmroute-prefill-worker-id')]).toEqual([200, '2'])
    expect(seen('prefill')).toHaveLength(2)
    expect(seen('decode')).toHaveLength(1)
    expect(seen('decode')[0]).toHaveProperty('kv_transfer_params')
  })

  it('after two failed prefills the decode worker does it alone, and says so', async () => {
    await open('vllm')
    script({ prefill: [{ kind: 'drop' }, { kind: 'status', status: 500 }] })
    const response = await ask()
    expect([response.status, response.headers.get('x-warmroute-prefill-skipped')]).toEqual([200, 'prefill_failed'])
    expect(seen('decode')[0]).not.toHaveProperty('kv_transfer_params')
    expect(await (await fetch(`${house!.url}/metrics`)).text()).toMatch(
      /warmroute_remote_prefill_skipped_total\{model="m",reason="prefill_failed"\} 1/,
    )
  })

  it.each([
    ['it is enforced', { disagg: { enforce: true } }],
    ['it is not allowed', { disagg: { fallsBack: false } }],
  ])('where %s, the error names the leg and the worker instead', async (_says, options) => {
    await open('vllm', options)
    script({ prefill: [{ kind: 'drop' }, { kind: 'status', status: 500 }] })
    expect(await error(await ask())).toMatchObject({
      status: 502,
      message: expect.stringContaining('prefill leg on worker 2: it answered with status 500') as string,
    })
    expect(seen('decode')).toHaveLength(0)
  })

  it('a prefill worker that holds nothing leaves the prompt to the decode worker', async () => {
    await open('vllm')
    script({ prefill: [{ kind: 'params', params: null }] })
    const response = await ask()
    expect([response.status, response.headers.get('x-warmroute-prefill-skipped')]).toEqual([200, 'no_params'])
    expect(seen('decode')[0]).not.toHaveProperty('kv_transfer_params')
  })

  it.each([
    ['disaggregation is enforced', { disagg: { enforce: true } }],
    ['decode workers may not prefill', { disagg: { fallsBack: false } }],
  ])('where %s, another prefill worker is asked, and then the request fails', async (_says, options) => {
    const nothing: Act = { kind: 'params', params: null }
    await open('vllm', options)
    script({ prefill: [nothing] })
    expect((await ask()).headers.get('x-warmroute-prefill-worker-id')).toBe('2')
    script({ prefill: [nothing, nothing] })
    const message = expect.stringMatching(/prefill leg on worker \d: it holds nothing for a decode worker/) as string
    expect(await error(await ask())).toMatchObject({ status: 502, message })
    expect(seen('decode')).toHaveLength(1)
  })

  it.each<[string, Act]>([
    ['fail', { kind: 'status', status: 500 }],
    ['hold nothing', { kind: 'params', params: null }],
  ])('strict: a request whose prefills %s fails in upstream’s shape, and is not decoded alone', async (_says, act) => {
    await open('vllm', { gateway: { strict: 'dynamo' } })
    script({ prefill: [act, act] })
    expect(await error(await ask())).toEqual({ status: 500, message: 'Internal server error' })
    expect(seen('decode')).toHaveLength(0)
  })

  it('what a prefill worker refuses is the answer: every worker would refuse it', async () => {
    await open('vllm')
    script({ prefill: [{ kind: 'status', status: 400 }] })
    expect(await error(await ask())).toEqual({ status: 400, message: 'scripted' })
    expect(seen('decode')).toHaveLength(0)
  })

  it.each<[string, Act]>([
    ['leaves', { kind: 'drop' }],
    ['answers 500', { kind: 'status', status: 500 }],
    ['answers 503', { kind: 'status', status: 503 }],
  ])('when a decode worker %s, another gets a prefill of its own: parameters are used once', async (_says, act) => {
    await open('vllm', { leaseMs: 1_000 })
    script({ decode: [act] })
    expect((await ask()).status).toBe(200)
    expect(seen('prefill')).toHaveLength(2)
    const names = seen('decode').map(
      (body) => (body['kv_transfer_params'] as { remote_request_id: string }).remote_request_id,
    )
    expect(names).toEqual(['hold-1', 'hold-2'])
  })

  it('an error in place of the first token is not the answer yet: another prefill may do better', async () => {
    await open('vllm')
    script({ decode: [{ kind: 'status', status: 500, isInStream: true }] })
    const text = await (await ask({ stream: true })).text()
    expect([text.includes('scripted'), text.includes('four')]).toEqual([false, true])
    script({ decode: [1, 2].map(() => ({ kind: 'status', status: 500, isInStream: true })) })
    expect(await (await ask({ stream: true })).text()).toContain('scripted')
  })

  it('a decode worker that cannot be reached at all has read nothing: the same prefill serves another', async () => {
    await open('vllm', { counts: [2, 2] })
    await pair.decode[0]!.close()
    expect((await ask()).status).toBe(200)
    expect(seen('prefill')).toHaveLength(1)
    expect(seen('decode')).toMatchObject([{ kv_transfer_params: { remote_request_id: 'hold-1' } }])
  })

  it('a decode that fails twice is an error that names the leg', async () => {
    await open('vllm', { leaseMs: 1_000 })
    script({ decode: [{ kind: 'drop' }, { kind: 'drop' }] })
    expect(await error(await ask())).toMatchObject({ message: expect.stringContaining('decode leg') as string })
  })

  it('a decode that would come after the lease is not sent: the prefill is made again', async () => {
    let passedMs = 0
    const now = (): number => performance.now() + passedMs
    const around = (router: PairHouse['main']): PairHouse['main'] => {
      vi.spyOn(router, 'route').mockImplementationOnce((request) => {
        passedMs += 20_000 // the choice of a decode worker takes longer than the lease
        return router.route(request)
      })
      return router
    }
    await open('vllm', { leaseMs: 20_000, now, gateway: { now }, around })
    expect((await ask()).status).toBe(200)
    expect(seen('prefill')).toHaveLength(2)
    expect(seen('decode').map((body) => body['kv_transfer_params'])).toMatchObject([{ remote_request_id: 'hold-2' }])
    expect(await (await fetch(`${house!.url}/metrics`)).text()).toContain(
      'warmroute_prefill_lease_missed_total{model="m"} 1',
    )
  })

  it("a client's own transfer fields reach nobody, even where configuration allows them", async () => {
    await open('vllm', { gateway: { allowedEngineFields: ['kv_transfer_params'] } })
    const own = { kv_transfer_params: { do_remote_prefill: true, do_remote_decode: false } }
    await ask(own)
    script({ prefill: [{ kind: 'params', params: null }] })
    await ask(own)
    expect(seen('prefill').map((body) => body['kv_transfer_params'])).toMatchObject([
      { do_remote_decode: true },
      { do_remote_decode: true },
    ])
    expect(seen('decode')[0]).toMatchObject({ kv_transfer_params: { remote_request_id: 'hold-1' } })
    expect(seen('decode')[1]).not.toHaveProperty('kv_transfer_params')
  })

  it.each([
    ['several sequences', { n: 2 }, 'sequences'],
    ['several prompts', { prompt: ['one', 'two'] }, 'sequences'],
    ['several prompts that are too long to be read', { prompt: ['one', 'two '.repeat(10_000)] }, 'sequences'],
    ['prompt log probabilities', { prompt_logprobs: 1 }, 'prompt_logprobs'],
  ])('%s are computed where they are decoded', async (_says, body, reason) => {
    await open('vllm')
    const path = 'prompt' in body ? '/v1/completions' : '/v1/chat/completions'
    expect((await post(house!.url, path, chatBody(body))).headers.get('x-warmroute-prefill-skipped')).toBe(reason)
    expect(seen('prefill')).toHaveLength(0)
  })

  it('a route whose answers carry no parameters is served by the decode worker', async () => {
    await open('vllm')
    const response = await post(house!.url, '/v1/responses', JSON.stringify({ model: 'm', input: 'hi' }))
    expect(response.headers.get('x-warmroute-prefill-skipped')).toBe('route')
  })

  it('a stored response is gone on with where it is kept, and no prefill worker is ever asked for it', async () => {
    await open('vllm')
    for (const server of [...pair.prefill, ...pair.decode])
      server.respond = (_, response) => void response.writeHead(200, { 'content-length': 15 }).end('{"id":"resp_1"}')
    const respond = (previous: string): Promise<Response> =>
      post(house!.url, '/v1/responses', JSON.stringify({ model: 'm', input: 'hi', previous_response_id: previous }))
    const keeper = (await respond('resp_unknown')).headers.get('x-warmroute-worker-id')
    for (let turn = 0; turn < 3; turn++) {
      const { headers } = await respond('resp_1')
      expect(headers.get('x-warmroute-worker-id')).toBe(keeper)
      expect(headers.get('x-warmroute-prefill-skipped')).toBe('route')
    }
    expect(Number(keeper)).toBeGreaterThan(10)
    expect(seen('prefill')).toHaveLength(0)
  })

  it('when the client leaves during the prefill, the prefill worker hears it and nobody decodes', async () => {
    await open('vllm')
    script({ prefill: [{ kind: 'hang' }] })
    const client = new AbortController()
    const answer = fetch(`${house!.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: chatBody(),
      signal: client.signal,
    }).catch(() => undefined)
    await vi.waitFor(() => expect(seen('prefill')).toHaveLength(1))
    const heard = pair.prefill[0]!.nextAbort()
    client.abort()
    await Promise.all([heard, answer])
    await nothingIsLeft()
    expect(seen('decode')).toHaveLength(0)
    expect(house!.gateway.workers().every(({ faults }) => faults === 0)).toBe(true)
  })

  it('when the client leaves between the legs, the held KV is read and thrown away', async () => {
    let isFirst = true
    await open('vllm', { around: (router) => delayed(router, () => (isFirst ? ((isFirst = false), 5_000) : 0)) })
    const client = new AbortController()
    const answer = fetch(`${house!.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: chatBody({ max_tokens: 50, stream: true }),
      signal: client.signal,
    }).catch(() => undefined)
    await vi.waitFor(() => expect(pair.heldCount).toBe(1))
    client.abort()
    await answer
    await vi.waitFor(() => expect(pair.heldCount).toBe(0))
    expect(seen('decode')).toMatchObject([
      { max_tokens: 1, stream: false, kv_transfer_params: { remote_request_id: 'hold-1' } },
    ])
  })

  it('a prefill that takes too long is given up, and its worker left out for a while', async () => {
    await open('vllm', { gateway: { deadlines: { prefillMs: 40 } } })
    script({ prefill: [{ kind: 'hang' }] })
    const response = await ask()
    expect([response.status, response.headers.get('x-warmroute-prefill-worker-id')]).toEqual([200, '2'])
    expect(house!.gateway.workers().find(({ id }) => id === '1')!.faults).toBe(1)
  })

  it('time spent between the legs counts: a request never outlives its whole time', async () => {
    let isFirst = true
    const around: PairHouseOptions['around'] = (router) =>
      delayed(router, () => (isFirst ? ((isFirst = false), 60_000) : 0))
    await open('vllm', { gateway: { deadlines: { totalMs: 100 } }, around })
    expect((await ask()).status).toBe(504)
  })
})

describe('SGLang, both at once', () => {
  it('sends the same room to both, and the client gets the decode', async () => {
    await open('sglang')
    expect((await ask({ max_tokens: 9 })).status).toBe(200)
    const [prefill, decode] = [seen('prefill')[0]!, seen('decode')[0]!]
    for (const name of ['bootstrap_host', 'bootstrap_port', 'bootstrap_room', 'max_tokens'])
      expect(prefill[name]).toEqual(decode[name])
    expect(prefill).toMatchObject({ bootstrap_host: '127.0.0.1', bootstrap_port: 8998, max_tokens: 9 })
  })

  it.each<[string, Act]>([
    ['leaves', { kind: 'drop' }],
    ['answers 500', { kind: 'status', status: 500 }],
  ])('when the prefill worker %s, the decode is aborted at once and another pair meets', async (_says, act) => {
    await open('sglang')
    script({ prefill: [act] })
    const response = await ask()
    expect([response.status, response.headers.get('x-warmroute-prefill-worker-id')]).toEqual([200, '2'])
    const rooms = seen('decode').map((body) => body['bootstrap_room'])
    expect(new Set(rooms).size).toBe(rooms.length)
    await vi.waitFor(() =>
      expect(pair.decode.reduce((sum, engine) => sum + engine.aborted(), 0)).toBe(rooms.length - 1),
    )
    expect(house!.gateway.workers().filter(({ role, faults }) => role === 'decode' && faults > 0)).toEqual([])
  })

  it('when the decode worker leaves, the prefill is aborted at once', async () => {
    await open('sglang')
    script({ prefill: [{ kind: 'hang' }], decode: [{ kind: 'drop' }] })
    expect((await ask()).status).toBe(200)
    await vi.waitFor(() => expect(pair.prefill.reduce((sum, engine) => sum + engine.aborted(), 0)).toBe(1))
    expect(house!.gateway.workers().filter(({ role, faults }) => role === 'prefill' && faults > 0)).toEqual([])
  })

  it('two failed prefills are an error: a decode-only server computes no prompts', async () => {
    await open('sglang')
    script({ prefill: [{ kind: 'drop' }, { kind: 'drop' }] })
    expect(await error(await ask())).toMatchObject({
      status: 502,
      message: expect.stringContaining('prefill leg on worker') as string,
    })
  })

  it('a decode server that joins while a request waits to be served by one worker alone is not sent it', async () => {
    let isFirst = true
    await open('sglang', {
      around: (router) => delayed(router, () => (isFirst ? ((isFirst = false), 150) : 0)),
      counts: [1, 2],
    })
    for (const at of [0, 1]) house!.gateway.removeWorker(pair.spec('decode', at).id)
    house!.gateway.setWorker('m', { ...pair.spec('decode', 0), role: 'aggregated' })
    const waiting = ask()
    await new Promise((resolve) => setTimeout(resolve, 40))
    house!.gateway.setWorker('m', pair.spec('decode', 1))
    house!.gateway.removeWorker(11n)
    const response = await waiting
    expect([response.status, response.headers.get('x-warmroute-prefill-worker-id')]).toEqual([200, '1'])
  })

  it('a decode-only server that is pinned without anybody to prefill is an error, not a crash', async () => {
    await open('sglang', { counts: [0, 1] })
    expect(await error(await ask({}, { 'x-worker-instance-id': '11' }))).toMatchObject({ status: 503 })
  })

  it('when the client leaves, both legs hear it', async () => {
    await open('sglang')
    script({ prefill: [{ kind: 'hang' }] })
    const client = new AbortController()
    const answer = fetch(`${house!.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: chatBody({ stream: true }),
      signal: client.signal,
    }).catch(() => undefined)
    await vi.waitFor(() => expect(seen('prefill').length + seen('decode').length).toBe(2))
    client.abort()
    await answer
    await vi.waitFor(() =>
      expect([...pair.prefill, ...pair.decode].reduce((sum, engine) => sum + engine.aborted(), 0)).toBe(2),
    )
  })
})

/** A router whose answers wait, as those of a full queue do. */
function delayed<Router extends PairHouse['main']>(router: Router, waitMs: () => number): Router {
  const route = router.route.bind(router)
  router.route = async (request) => {
    const ms = waitMs()
    if (ms > 0)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms)
        signalOf(request.signal)?.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true })
      })
    return route(request)
  }
  return router
}
