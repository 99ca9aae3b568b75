// How long each half of a request lives, who waits for whom, and what is said of it: over scripted servers.
import type { Attributes, Span, Tracer } from '@opentelemetry/api'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { RouterPort } from '../../routing/index.js'
import { InProcessRouter } from '../../routing/index.js'
import { createMetrics } from '../../telemetry/index.js'
import { chatBody, post } from '../house.case.js'
import type { Act, PairHouse, PairHouseOptions } from './fake-pair.case.js'
import { FakePair, openPairHouse } from './fake-pair.case.js'

/** However slow the machine is. */
const until = (check: () => unknown): Promise<unknown> => vi.waitFor(check, { timeout: 20_000, interval: 5 })

let pair: FakePair
let house: PairHouse | undefined
afterEach(async () => {
  await until(() => {
    expect(house!.gateway.inFlight).toBe(0)
    expect(house!.gateway.workers().every((worker) => worker.in_flight === 0)).toBe(true)
  })
  await house?.close()
  await pair.close()
  house = undefined
  expect(pair.wrongs).toEqual([])
})

interface Open extends Omit<PairHouseOptions, 'pair'> {
  readonly leaseMs?: number
  readonly counts?: readonly [number, number]
}

async function open(engine: 'vllm' | 'sglang', options: Open = {}): Promise<PairHouse> {
  pair = await FakePair.start(engine, options.leaseMs ?? 5_000, options.counts ?? [1, 1])
  return (house = await openPairHouse({ ...options, pair }))
}

/** Each server's acts in order, then `ok`. */
function script(acts: Partial<Record<'prefill' | 'decode', readonly Act[]>>): void {
  const left = { prefill: [...(acts.prefill ?? [])], decode: [...(acts.decode ?? [])] }
  pair.act = (role) => left[role].shift() ?? { kind: 'ok' }
}

const ask = (body: object = {}, path = '/v1/chat/completions'): Promise<Response> =>
  post(house!.url, path, chatBody(body))
const seen = (role: 'prefill' | 'decode'): Record<string, unknown>[] =>
  pair[role].flatMap((engine) => engine.seen.map(({ text }) => JSON.parse(text) as Record<string, unknown>))
const metrics = async (): Promise<string> => (await fetch(`${house!.url}/metrics`)).text()

describe('a prefill worker that drains', () => {
  const drained = (): { isGone: boolean } => {
    const state = { isGone: false }
    void house!.gateway.drainWorker(1n).then(() => (state.isGone = true))
    return state
  }

  /** Every choice of a decode worker waits until it is let go. */
  function gate(): { around: NonNullable<PairHouseOptions['around']>; hasAsked: () => boolean; letGo: () => void } {
    let isAsked = false
    let letGo: () => void = () => {}
    const isOpen = new Promise<void>((resolve) => (letGo = resolve))
    const around = (router: RouterPort): RouterPort => {
      const route = router.route.bind(router)
      router.route = async (request) => {
        isAsked = true
        await isOpen
        return route(request)
      }
      return router
    }
    return { around, hasAsked: () => isAsked, letGo }
  }

  it('stays for a request that has chosen it and waits for a decode worker before either is asked', async () => {
    const { around, hasAsked, letGo } = gate()
    await open('sglang', { around })
    const answer = ask()
    await until(() => expect(hasAsked()).toBe(true))
    const state = drained()
    letGo()
    expect([(await answer).status, seen('prefill').length, seen('decode').length]).toEqual([200, 1, 1])
    await until(() => expect(state.isGone).toBe(true))
  })

  it('stays until the first token of who reads its KV', async () => {
    await open('vllm')
    script({ decode: [{ kind: 'ok', afterMs: 1_000 }] })
    const answer = ask({ stream: true })
    await until(() => expect(seen('decode')).toHaveLength(1))
    const state = drained()
    await new Promise((resolve) => setTimeout(resolve, 60))
    expect([state.isGone, house!.gateway.workers()[1]]).toMatchObject([false, { state: 'draining', in_flight: 0 }])
    expect((await answer).status).toBe(200)
    await until(() => expect(state.isGone).toBe(true))
  })

  it('stays while its KV waits for a reader, and at most as long as its lease', async () => {
    const { around, hasAsked, letGo } = gate()
    await open('vllm', { leaseMs: 2_000, around })
    const answer = ask()
    await until(() => expect(hasAsked()).toBe(true)) // for a decode worker: the prefill is over
    const state = drained()
    // The server's lease began before the gateway knew of it, so it ends first, however late both clocks ring.
    const looks = { held: 0, gone: 0 }
    while (pair.heldCount === 1) {
      looks.held++
      if (state.isGone) looks.gone++
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    expect(looks.held).toBeGreaterThan(0)
    expect(looks.gone).toBe(0)
    await until(() => expect(state.isGone).toBe(true))
    letGo()
    expect([(await answer).status, seen('decode').length]).toEqual([200, 1]) // the decode worker did it alone
    expect(seen('decode')[0]).not.toHaveProperty('kv_transfer_params')
  })

  it('may go as soon as the decode has failed', async () => {
    await open('vllm', { leaseMs: 5_000 })
    script({ decode: [{ kind: 'drop' }] })
    const answer = ask()
    await until(() => expect(seen('decode').length).toBeGreaterThan(0))
    const state = drained()
    await until(() => expect(state.isGone).toBe(true))
    await answer
  })
})

describe('a prefill that ends the answer', () => {
  it('is the answer, and what it holds is let go of', async () => {
    await open('vllm')
    script({ prefill: [{ kind: 'terminal' }] })
    const response = await ask({ max_tokens: 9 })
    expect([response.status, response.headers.get('x-warmroute-prefill-worker-id')]).toEqual([200, '1'])
    expect(await response.json()).toMatchObject({
      choices: [{ message: { content: 'x' }, finish_reason: 'stop' }],
      kv_transfer_params: null,
    })
    await until(() => expect(pair.heldCount).toBe(0))
    expect(seen('decode')).toMatchObject([{ max_tokens: 1, kv_transfer_params: { remote_request_id: 'hold-1' } }])
    const text = await metrics()
    expect(text).toContain('warmroute_prefill_answers_total{model="m"} 1')
    expect(text).toContain('warmroute_held_kv_released_total{how="read",model="m"} 1')
  })

  it('is a stream where one was asked for', async () => {
    await open('vllm')
    script({ prefill: [{ kind: 'terminal' }] })
    const response = await ask({ stream: true, stream_options: { include_usage: true } })
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    const frames = (await response.text()).split('\n\n').filter(Boolean)
    expect(frames.at(-1)).toBe('data: [DONE]')
    expect(JSON.parse(frames[0]!.slice(6))).toMatchObject({ choices: [{ delta: { content: 'x' } }] })
    expect(JSON.parse(frames.at(-2)!.slice(6))).toMatchObject({ choices: [], usage: { completion_tokens: 1 } })
  })

  it('is not where the client wants more tokens than that', async () => {
    await open('vllm')
    script({ prefill: [{ kind: 'terminal' }] })
    expect(await (await ask({ min_tokens: 3 })).json()).toMatchObject({
      choices: [{ message: { content: 'one two three four' } }],
    })
  })
})

describe('a transfer that hangs', () => {
  it.each([
    ['a stream', { stream: true }],
    ['a whole answer', { max_tokens: 20 }],
  ])('is given up for %s, and another decode worker gets a prefill of its own', async (_says, body) => {
    await open('vllm', {
      counts: [1, 2],
      gateway: { deadlines: { transferMs: 40, transferTokenMs: 2, noProgressMs: 60_000 } },
    })
    script({ decode: [{ kind: 'hang' }] })
    const startedMs = performance.now()
    const response = await ask(body)
    expect(response.status).toBe(200)
    expect(await response.text()).toContain('four')
    expect(performance.now() - startedMs).toBeGreaterThan('stream' in body ? 40 : 80)
    expect([seen('prefill').length, seen('decode').length]).toEqual([2, 2])
    expect(house!.gateway.workers().filter(({ role, faults }) => role === 'decode' && faults > 0)).toHaveLength(1)
  })
})

describe('KV whose decode was sent and failed', () => {
  it.each<[string, Act]>([
    ['refuses it, and says so to the prefill worker', { kind: 'status', status: 500 }],
    ['is gone, so that the lease ends it', { kind: 'drop' }],
  ])('is counted where the decode worker %s', async (_says, act) => {
    await open('vllm', { leaseMs: 300, counts: [1, 2] })
    script({ decode: [act] })
    expect((await ask()).status).toBe(200)
    expect(await metrics()).toContain('warmroute_held_kv_released_total{how="decode_failed",model="m"} 1')
    await until(() => expect(pair.heldCount).toBe(0))
  })
})

describe('SGLang', () => {
  it.each([
    ['short', 'three'],
    ['too long to be read', 'three '.repeat(10_000)],
  ])('several prompts meet in a room each, all of one rank: %s', async (_says, last) => {
    await open('sglang')
    const response = await ask({ prompt: ['one', 'two', last], messages: undefined }, '/v1/completions')
    expect(response.status).toBe(200)
    const [prefill, decode] = [seen('prefill')[0]!, seen('decode')[0]!]
    expect(prefill['bootstrap_room']).toHaveLength(3)
    expect(prefill['bootstrap_room']).toEqual(decode['bootstrap_room'])
  })

  it('ids that the model does not have reach neither half', async () => {
    await open('sglang')
    const response = await ask({ prompt: [1, -1], messages: undefined }, '/v1/completions')
    expect([response.status, await response.text()]).toMatchObject([400, expect.stringContaining('holds -1') as string])
    expect([...seen('prefill'), ...seen('decode')]).toEqual([])
  })

  it('a prefill that has not answered is booked, and its worker stays, until the decode is over', async () => {
    await open('sglang')
    script({ prefill: [{ kind: 'hang' }] })
    let end: () => void = () => {}
    pair.decode[0]!.respond = (_request, response) => {
      end = () => void response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    }
    const answer = ask()
    await until(() => expect([seen('prefill').length, seen('decode').length]).toEqual([1, 1]))
    let isGone = false
    void house!.gateway.drainWorker(1n).then(() => (isGone = true))
    const booked = async (): Promise<number[]> => (await house!.inner[0]!.loads()).map((it) => it.activeRequests)
    await new Promise((resolve) => setTimeout(resolve, 60))
    expect([isGone, house!.gateway.workers()[1]]).toMatchObject([false, { state: 'draining', in_flight: 1 }])
    expect(await booked()).toEqual([1])
    end()
    expect((await answer).status).toBe(200)
    await until(() => expect([isGone, pair.prefill[0]!.aborted()]).toEqual([true, 1]))
    expect((await booked()).filter((count) => count > 0)).toEqual([])
  })

  it('several answers to one prompt are refused: a pair would wait for ever', async () => {
    await open('sglang')
    const response = await ask({ n: 2 })
    expect([response.status, await response.text()]).toMatchObject([
      501,
      expect.stringContaining('sequences') as string,
    ])
    expect([...seen('prefill'), ...seen('decode')]).toEqual([])
  })

  it('or computed by a worker that does both halves', async () => {
    await open('sglang', {
      counts: [1, 2],
      change: (spec) => (spec.id === 12n ? { ...spec, role: 'aggregated' } : spec),
    })
    pair.decode[1]!.respond = (_request, response) => void response.writeHead(200).end('{}')
    const response = await ask({ n: 2 })
    expect([response.status, response.headers.get('x-warmroute-prefill-skipped')]).toEqual([200, 'sequences'])
  })
})

it('the prefill has a span below that of the request, and its context goes to the prefill worker', async () => {
  const ended: { name: string; attributes: Attributes; isChild: boolean; isError: boolean }[] = []
  const tracer = {
    startSpan(name: string, options: { attributes: Attributes }, parent: object) {
      const isChild =
        [...((parent as { _currentContext?: Map<symbol, unknown> })._currentContext?.values() ?? [])].length > 0
      const record = { name, attributes: { ...options.attributes }, isChild, isError: false }
      return {
        setAttribute: (key: string, value: number) => (record.attributes[key] = value),
        setAttributes: (more: Attributes) => Object.assign(record.attributes, more),
        addEvent: () => {},
        setStatus: () => (record.isError = true),
        end: () => ended.push(record),
        spanContext: () => ({ traceId: '', spanId: '', traceFlags: 0 }),
      } as unknown as Span
    },
  } as unknown as Tracer
  await open('vllm', { counts: [2, 1], gateway: { tracer } })
  script({ prefill: [{ kind: 'status', status: 500 }] })
  await (await ask()).text()
  await until(() => expect(ended).toHaveLength(3))
  expect(ended).toMatchObject([
    { name: 'warmroute.prefill', isChild: true, isError: true, attributes: { 'warmroute.worker_id': '1' } },
    {
      name: 'warmroute.prefill',
      isChild: true,
      isError: false,
      attributes: { 'warmroute.worker_id': '2', 'http.response.status_code': 200 },
    },
    { name: 'warmroute.request', isError: false },
  ])
})

it('the router among prefill workers has series of its own', async () => {
  const kv = (): Promise<InProcessRouter> => InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
  await open('vllm', { newRouter: kv, counts: [1, 1], gateway: { metrics: createMetrics() } })
  const before = await metrics()
  expect(before).toMatch(/dynamo_component_router_requests_total\{[^}]*dynamo_component="m\/prefill"[^}]*\} 0/)
  await ask()
  await ask()
  const after = await metrics()
  for (const name of [
    'requests_total',
    'requests_started_total',
    'time_to_first_token_seconds_count',
    'input_sequence_tokens_count',
    'output_sequence_tokens_count',
    'kv_hit_rate_count',
  ])
    expect(after).toMatch(new RegExp(`dynamo_component_router_${name}\\{[^}]*dynamo_component="m/prefill"[^}]*\\} 2\n`))
})
