// Who prefills, who decodes, whether a request is split at all, and who may be seen: over scripted servers.
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { ConditionalPolicy } from '../../core/prefill/index.js'
import { InProcessRouter } from '../../routing/index.js'
import { chatBody, post } from '../house.case.js'
import type { WorkerSpec } from '../options.js'
import { createPolicyRouter } from '../policies/policy-router.js'
import type { PairHouse, PairHouseOptions } from './fake-pair.case.js'
import { FakePair, openPairHouse } from './fake-pair.case.js'

let pair: FakePair
let house: PairHouse | undefined
afterEach(async () => {
  await house?.close()
  await pair.close()
  house = undefined
  expect(pair.wrongs).toEqual([])
})

async function open(
  engine: 'vllm' | 'sglang',
  options: Omit<PairHouseOptions, 'pair'> & { readonly counts?: readonly [number, number] } = {},
): Promise<PairHouse> {
  pair = await FakePair.start(engine, 5_000, options.counts ?? [2, 2])
  return (house = await openPairHouse({ ...options, pair }))
}

const kv = (): Promise<InProcessRouter> => InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
const long = (words: string): object => ({ messages: [{ role: 'user', content: `${words} `.repeat(200) }] })

const ask = (body: object = {}, headers: Record<string, string> = {}): Promise<Response> =>
  post(house!.url, '/v1/chat/completions', chatBody(body), headers)
/** A client that waits until it is told to leave. */
const askUntil = (signal: AbortSignal): Promise<unknown> =>
  fetch(`${house!.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: chatBody({}),
    signal,
  }).catch(() => undefined)
const said = (response: Response, name: string): string | null => response.headers.get(`x-warmroute-${name}`)
const listed = async (): Promise<number> =>
  ((await (await fetch(`${house!.url}/v1/models`)).json()) as { data: unknown[] }).data.length

describe('conditional disaggregation', () => {
  const conditional = { policy: 'isl_bounding', effIslThreshold: 512, effIslRatioThreshold: 0.7 } as const

  it('a prompt that is mostly cached where it decodes is prefilled there', async () => {
    await open('vllm', { newRouter: kv, disagg: { conditional }, counts: [1, 1] })
    const first = await ask(long('tides'))
    expect([said(first, 'prefill-worker-id'), said(first, 'prefill-skipped')]).toEqual(['1', null])
    const second = await ask(long('tides'))
    expect([said(second, 'prefill-worker-id'), said(second, 'prefill-skipped')]).toEqual([null, 'mostly_cached'])
    expect(said(await ask(long('moss')), 'prefill-worker-id')).toBe('1')
  })

  it('who decodes is chosen by what it holds, though the prompt is computed elsewhere', async () => {
    await open('vllm', { newRouter: kv, disagg: { conditional: { ...conditional, effIslThreshold: 0 } } })
    await ask(long('tides'), { 'x-worker-instance-id': '12' })
    for (let at = 0; at < 8; at++) {
      const response = await ask(long('tides'))
      expect([said(response, 'prefill-skipped'), said(response, 'worker-id')]).toEqual([null, '12'])
    }
  })

  it('a busy decode worker, or one of unknown size, takes on no prefill', async () => {
    await open('vllm', {
      newRouter: kv,
      disagg: { conditional: { ...conditional, decodeBusyThreshold: 0.5 } },
      counts: [1, 1],
    })
    await ask(long('tides'))
    expect(said(await ask(long('tides')), 'prefill-worker-id')).toBe('1')
    house!.gateway.setWorker('m', sized(pair.spec('decode', 0), { totalKvBlocks: 10_000 }))
    expect(said(await ask(long('tides')), 'prefill-skipped')).toBe('mostly_cached')
    house!.gateway.setWorker('m', sized(pair.spec('decode', 0), { totalKvBlocks: 20 }))
    expect(said(await ask(long('tides')), 'prefill-worker-id')).toBe('1')
  })

  it.each<[ConditionalPolicy, string | null]>([
    ['prefill_load', null],
    ['isl_or_load', 'mostly_cached'],
  ])('%s: a busy prefill worker is not waited for', async (policy, second) => {
    await open('vllm', {
      newRouter: kv,
      disagg: { conditional: { ...conditional, policy, prefillBusyThreshold: 1 } },
      counts: [1, 1],
      change: (spec) => sized(spec, { maxNumBatchedTokens: 50 }),
    })
    await ask(long('tides'))
    expect(said(await ask(long('tides')), 'prefill-skipped')).toBe(second)
    const before = pair.prefill[0]!.seen.length
    pair.act = (role) => (role === 'prefill' ? { kind: 'hang' } : { kind: 'ok' })
    const client = new AbortController()
    const waiting = fetch(`${house!.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: chatBody(long('shells')),
      signal: client.signal,
    }).catch(() => undefined)
    await vi.waitFor(() => expect(pair.prefill[0]!.seen).toHaveLength(before + 1))
    expect(said(await ask(long('moss')), 'prefill-skipped')).toBe('prefill_busy')
    client.abort()
    await waiting
  })

  it('a prefill worker that was asked for by name is used', async () => {
    await open('vllm', { newRouter: kv, disagg: { conditional }, counts: [1, 1] })
    await ask(long('tides'))
    expect(said(await ask(long('tides'), { 'x-prefill-instance-id': '1' }), 'prefill-worker-id')).toBe('1')
  })
})

it('after a remote prefill who decodes is chosen by its load alone, and no prefill is counted there', async () => {
  await open('vllm', { newRouter: kv, counts: [1, 2] })
  const there = { 'content-type': 'application/json', 'x-worker-instance-id': '12' }
  await ask(long('tides'), there) // so that worker 12 holds the prompt
  pair.act = (role) => (role === 'decode' ? { kind: 'hang' } : { kind: 'ok' })
  const client = new AbortController()
  const waiting = fetch(`${house!.url}/v1/chat/completions`, {
    method: 'POST',
    headers: there,
    body: chatBody(long('tides')),
    signal: client.signal,
  }).catch(() => undefined)
  await vi.waitFor(() => expect(pair.decode[1]!.seen).toHaveLength(2))
  const load = (await house!.main.loads()).find(({ workerId }) => workerId === 12n)
  expect(load).toMatchObject({ activeRequests: 1, activePrefillTokens: 0 })
  pair.act = () => ({ kind: 'ok' })
  expect(said(await ask(long('tides')), 'worker-id')).toBe('11')
  client.abort()
  await waiting
})

describe('pins', () => {
  it('each half has one of its own', async () => {
    await open('vllm')
    for (const [prefill, decode] of [
      ['2', '12'],
      ['2', '11'],
      ['1', '12'],
    ] as const) {
      const response = await ask({}, { 'x-prefill-instance-id': prefill, 'x-worker-instance-id': decode })
      expect([said(response, 'prefill-worker-id'), said(response, 'worker-id')]).toEqual([prefill, decode])
    }
  })

  it('a backend that is a prefill worker is meant for the prefill', async () => {
    await open('vllm')
    const response = await ask({ nvext: { backend_instance_id: 2 } })
    expect([said(response, 'prefill-worker-id'), response.status]).toEqual(['2', 200])
  })

  it('direct routing needs a name for each half, and serves nobody alone for want of one', async () => {
    await open('vllm', { newRouter: () => Promise.resolve(createPolicyRouter({ policy: 'direct' })) })
    const decode = { 'x-worker-instance-id': '11' }
    const both = await ask({}, { ...decode, 'x-prefill-instance-id': '2' })
    expect([said(both, 'prefill-worker-id'), said(both, 'worker-id')]).toEqual(['2', '11'])
    expect((await ask({}, decode)).status).toBe(400)
    expect((await ask({}, { 'x-prefill-instance-id': '2' })).status).toBe(400)
    expect(pair.decode.flatMap(({ seen }) => seen)).toHaveLength(1) // what the last prefill left waits for its lease
  })

  it('a prefill worker that was named and fails is not replaced', async () => {
    await open('vllm')
    pair.act = (role) => (role === 'prefill' ? { kind: 'status', status: 500 } : { kind: 'ok' })
    expect((await ask({}, { 'x-prefill-instance-id': '2' })).status).toBe(502)
    expect([pair.prefill[0]!.seen.length, pair.decode.flatMap(({ seen }) => seen)]).toEqual([0, []])
  })

  it('a named decode worker that fails is not replaced', async () => {
    await open('vllm')
    pair.act = (role) => (role === 'decode' ? { kind: 'status', status: 500 } : { kind: 'ok' })
    expect((await ask({}, { 'x-worker-instance-id': '12' })).status).toBe(500)
    expect([pair.decode[0]!.seen.length, pair.decode[1]!.seen.length]).toEqual([0, 1])
  })

  it.each([
    ['prefill', { 'x-worker-instance-id': '12' }],
    ['decode', { 'x-prefill-instance-id': '2' }],
  ] as const)('a %s worker that fails is replaced where only the other half was named', async (half, headers) => {
    await open('vllm')
    let hasFailed = false
    pair.act = (role) => {
      if (role !== half || hasFailed) return { kind: 'ok' }
      hasFailed = true
      return { kind: 'drop' }
    }
    const response = await ask({}, headers)
    expect([response.status, hasFailed]).toEqual([200, true])
    expect(pair[half].map(({ seen }) => seen.length)).toEqual([1, 1])
    if (half === 'prefill') expect(said(response, 'worker-id')).toBe('12')
    else expect(pair.prefill[0]!.seen).toEqual([])
  })

  it('a worker that does both halves and was named does both', async () => {
    await open('vllm')
    house!.gateway.setWorker('m', { ...pair.spec('decode', 1), role: 'aggregated' })
    const response = await ask({}, { 'x-worker-instance-id': '12' })
    expect([said(response, 'worker-id'), said(response, 'prefill-skipped')]).toEqual(['12', 'pinned'])
  })

  it('a dry run names both halves and sends nothing', async () => {
    await open('vllm')
    const body = { nvext: { annotations: ['query_instance_id:'] } }
    const { nvext } = (await (await ask(body, { 'x-prefill-instance-id': '2' })).json()) as {
      nvext: { worker_id: object }
    }
    expect(nvext.worker_id).toMatchObject({ prefill_worker_id: 2, decode_worker_id: 11 })
    expect([...pair.prefill, ...pair.decode].flatMap(({ seen }) => seen)).toEqual([])
  })
})

describe('places', () => {
  const inZone = (zone: string, enforcement: 'required' | 'preferred') => (spec: WorkerSpec) =>
    sized(spec, {
      topologyDomains: { zone: spec.role === 'prefill' || spec.id === 12n ? zone : 'elsewhere' },
      kvTransferDomain: 'zone',
      kvTransferEnforcement: enforcement,
    })

  it('a decode worker must stand where the KV can reach it', async () => {
    await open('vllm', { change: inZone('a', 'required') })
    for (let at = 0; at < 4; at++) expect(said(await ask(), 'worker-id')).toBe('12')
  })

  it('nobody there: the request is refused, not sent astray', async () => {
    await open('vllm', { change: inZone('a', 'required'), counts: [1, 1] })
    expect((await ask()).status).toBe(503)
    await vi.waitFor(() => expect(pair.heldCount).toBeLessThanOrEqual(1))
  })

  it('or should, where a preference is enough', async () => {
    await open('vllm', { change: inZone('a', 'preferred'), newRouter: kv })
    for (let at = 0; at < 4; at++) expect(said(await ask(long('tides')), 'worker-id')).toBe('12')
  })
})

describe('membership', () => {
  it('a strict model is hidden without prefill workers and comes back with them; it is built once', async () => {
    await open('vllm', { disagg: { enforce: true } })
    expect([await listed(), (await ask()).status]).toEqual([1, 200])
    for (const at of [0, 1]) house!.gateway.removeWorker(pair.spec('prefill', at).id)
    expect([await listed(), (await ask()).status]).toEqual([0, 503])
    const ready = (await (await fetch(`${house!.url}/v1/models/m/ready`)).json()) as { namespaces: { default: object } }
    expect(ready.namespaces.default).toMatchObject({
      ready: false,
      worker_types: { decode: { workers: 2, needs: [['prefill']] } },
      missing_worker_types: ['prefill'],
    })
    house!.gateway.setWorker('m', pair.spec('prefill', 0))
    expect([await listed(), (await ask()).status, house!.inner.length]).toEqual([1, 200, 1])
  })

  it('a strict model whose last prefill worker does not answer is hidden until it does', async () => {
    const health = { intervalMs: 0, metricsMs: 0, quarantineMs: [1_500, 1_500] as const }
    await open('vllm', { disagg: { enforce: true }, counts: [1, 1], gateway: { health } })
    pair.act = (role) => (role === 'prefill' ? { kind: 'drop' } : { kind: 'ok' })
    const response = await ask()
    expect([response.status, await response.text()]).toEqual([502, expect.stringContaining('prefill leg')])
    expect([await listed(), (await ask()).status, pair.prefill[0]!.seen.length]).toEqual([0, 503, 1])
    pair.act = () => ({ kind: 'ok' })
    await vi.waitFor(async () => expect(await listed()).toBe(1), 10_000)
    expect([(await ask()).status, house!.inner.length]).toEqual([200, 1])
  })

  it.each([true, false])('who drains is not there for new requests (strict: %s)', async (enforce) => {
    await open('vllm', { disagg: { enforce }, counts: [1, 1] })
    pair.act = (role) => (role === 'prefill' ? { kind: 'hang' } : { kind: 'ok' })
    const client = new AbortController()
    const waiting = askUntil(client.signal)
    await vi.waitFor(() => expect(pair.prefill[0]!.seen).toHaveLength(1))
    const drained = house!.gateway.drainWorker(1n)
    const response = await ask()
    const alone = enforce ? null : 'deactivated'
    expect([await listed(), response.status, said(response, 'prefill-skipped')]).toEqual(
      enforce ? [0, 503, null] : [1, 200, alone],
    )
    client.abort()
    await Promise.all([waiting, drained])
    pair.act = () => ({ kind: 'ok' })
    house!.gateway.setWorker('m', pair.spec('prefill', 0))
    expect([await listed(), said(await ask(), 'prefill-worker-id'), house!.inner.length]).toEqual([1, '1', 1])
  })

  it('a worker that could do both halves and drains does not stand in for a prefill worker', async () => {
    await open('sglang', { counts: [0, 2] })
    house!.gateway.setWorker('m', { ...pair.spec('decode', 1), role: 'aggregated' })
    expect(await listed()).toBe(1)
    pair.act = () => ({ kind: 'hang' })
    const client = new AbortController()
    const waiting = askUntil(client.signal)
    await vi.waitFor(() => expect(pair.decode[1]!.seen).toHaveLength(1))
    const drained = house!.gateway.drainWorker(12n)
    expect([await listed(), (await ask()).status]).toEqual([0, 503])
    client.abort()
    await Promise.all([waiting, drained])
  })

  it.each<[string, object, Record<string, string>]>([
    ['sequences', { n: 2 }, {}],
    ['prompt_logprobs', { prompt_logprobs: 1 }, {}],
    ['pinned', {}, { 'x-worker-instance-id': '12' }],
  ])('a strict model serves alone what a pair does not carry: %s', async (reason, body, headers) => {
    await open('vllm', { disagg: { enforce: true } })
    house!.gateway.setWorker('m', { ...pair.spec('decode', 1), role: 'aggregated' })
    const response = await ask(body, headers)
    expect([response.status, said(response, 'prefill-skipped')]).toEqual([200, reason])
  })

  it('a strict model serves alone a route that carries no transfer, and where nobody only decodes', async () => {
    await open('vllm', { disagg: { enforce: true } })
    const other = await post(house!.url, '/v1/responses', JSON.stringify({ model: 'm', input: 'hi' }))
    expect(said(other, 'prefill-skipped')).toBe('route')
    house!.gateway.setWorker('m', { ...pair.spec('decode', 1), role: 'aggregated' })
    house!.gateway.removeWorker(11n)
    expect(said(await ask(), 'prefill-skipped')).toBe('no_decode_worker')
  })

  it('a strict model serves alone what conditional disaggregation leaves where it is', async () => {
    const conditional = { policy: 'isl_bounding', effIslThreshold: 512, effIslRatioThreshold: 0.7 } as const
    await open('vllm', { newRouter: kv, disagg: { enforce: true, conditional }, counts: [1, 1] })
    await ask(long('tides'))
    expect(said(await ask(long('tides')), 'prefill-skipped')).toBe('mostly_cached')
  })

  it('a router that cannot be made is tried again, and counted', async () => {
    let tries = 0
    await open('vllm', {
      disagg: {
        enforce: true,
        openPrefill: () => {
          if (++tries === 1) return Promise.reject(new Error('not yet'))
          return Promise.resolve(createPolicyRouter({ policy: 'round-robin' }))
        },
      },
    })
    const name = 'warmroute_prefill_activation_failures_total{model="m"}'
    expect(house!.gateway.metrics.registry.text()).toContain(`${name} `)
    await vi.waitFor(async () => expect((await ask()).status).toBe(200), 5_000)
    expect(house!.gateway.metrics.registry.text()).toContain(`${name} 1\n`)
  })

  it('workers that come back as another pool get a router of their own', async () => {
    const closed: unknown[] = []
    await open('vllm', {
      disagg: { enforce: true, closePrefill: (router) => Promise.resolve(void closed.push(router)) },
    })
    for (const at of [0, 1]) house!.gateway.removeWorker(pair.spec('prefill', at).id)
    house!.gateway.setWorker('m', { ...pair.spec('prefill', 0), blockSize: 32 })
    await vi.waitFor(async () => expect(await listed()).toBe(1))
    expect([(await ask()).status, house!.inner.length, closed]).toEqual([200, 2, [house!.inner[0]]])
    expect(() => house!.gateway.setWorker('m', pair.spec('prefill', 1))).toThrow('those of the model are vllm/nixl/32')
  })

  it('without enforcement the decode workers of vLLM do it alone, and SGLang’s cannot', async () => {
    await open('vllm', { counts: [0, 1] })
    const response = await ask()
    expect([await listed(), response.status, said(response, 'prefill-skipped')]).toEqual([1, 200, 'not_activated'])
    await house!.close()
    await pair.close()
    await open('sglang', { counts: [1, 1] })
    expect([await listed(), (await ask()).status]).toEqual([1, 200])
    house!.gateway.removeWorker(1n)
    expect([await listed(), (await ask()).status]).toEqual([0, 503])
  })

  it('a connector that finds engines by their ids needs them, and one there must be', async () => {
    await open('vllm', { counts: [1, 1] })
    house!.gateway.removeWorker(1n)
    const spec = (transfer: WorkerSpec['transfer']): WorkerSpec => ({ ...pair.spec('prefill', 0), transfer })
    expect(() => house!.gateway.setWorker('m', spec({ connector: 'mooncake' }))).toThrow('needs engine_ids')
    const nameless: WorkerSpec = { ...pair.spec('prefill', 0), engine: 'trtllm', transfer: {} }
    expect(() => house!.gateway.setWorker('m', nameless)).toThrow('name its engine or its connector')
    house!.gateway.setWorker('m', spec({ connector: 'mooncake', engineIds: ['e-0'] }))
    expect(house!.gateway.workers().map(({ role }) => role)).toContain('prefill')
  })

  it.each(['prefill', 'decode'] as const)(
    'a %s worker with a connector that is not spoken is refused',
    async (role) => {
      await open('vllm', { counts: [1, 1] })
      const spec: WorkerSpec = { ...pair.spec(role, 0), id: 99n, transfer: { unspoken: 'P2pNcclConnector' } }
      expect(() => house!.gateway.setWorker('m', spec)).toThrow(
        expect.objectContaining({
          code: 'WR_INVALID_CONFIG',
          details: { reason: expect.stringContaining('by P2pNcclConnector, which is not spoken') as string },
        }),
      )
      house!.gateway.setWorker('m', { ...spec, role: 'aggregated' })
      expect(house!.gateway.workers().map(({ id }) => id)).toContain('99')
    },
  )

  it('roles come with POST /workers as well', async () => {
    await open('vllm', { counts: [1, 1], model: { workers: [] } })
    const join = (role: 'prefill' | 'decode'): Promise<Response> => {
      const { id, url } = pair.spec(role, 0)
      const spec = { id: String(id), url, model: 'm', engine: 'vllm', role, kv_lease_ms: 4_000 }
      return post(house!.url, '/workers', JSON.stringify(spec))
    }
    expect(await (await join('decode')).json()).toMatchObject({ worker: { role: 'decode' } })
    expect(await (await join('prefill')).json()).toMatchObject({ worker: { role: 'prefill' } })
    await vi.waitFor(async () => expect(said(await ask(), 'prefill-worker-id')).toBe('1'))
    const bad = await post(house!.url, '/workers', JSON.stringify({ url: 'http://a:1', model: 'm', role: 'both' }))
    expect(bad.status).toBe(400)
  })

  it('aggregated workers stand in where nobody else decodes, and keep out of pairs', async () => {
    await open('vllm', { counts: [1, 2] })
    house!.gateway.setWorker('m', { ...pair.spec('decode', 1), role: 'aggregated' })
    for (let at = 0; at < 3; at++) expect(said(await ask(), 'worker-id')).toBe('11')
    house!.gateway.removeWorker(11n)
    const response = await ask()
    expect([said(response, 'worker-id'), said(response, 'prefill-skipped')]).toEqual(['12', 'no_decode_worker'])
  })

  it('of a rank that the decode worker takes by itself nothing is claimed', async () => {
    await open('vllm', { newRouter: kv, counts: [1, 1] })
    house!.gateway.setWorker('m', sized(pair.spec('decode', 0), { dataParallelSize: 2 }))
    const names = ['prefill-skipped', 'worker-id', 'dp-rank', 'cached-tokens']
    const whole = await post(house!.url, '/v1/responses', JSON.stringify({ model: 'm', input: 'tides' }))
    expect(names.map((name) => said(whole, name))).toEqual(['route', '11', null, null])
    expect(said(await ask(), 'dp-rank')).toMatch(/^[01]$/)
  })

  it('an adapter is prefilled only where it is', async () => {
    const adaptersOf = (id: bigint): readonly string[] => (id === 1n ? [] : ['french'])
    await open('vllm', {
      counts: [2, 1],
      model: { sessionAffinityTtlSecs: 60 },
      change: (spec) => ({ ...spec, adapters: adaptersOf(spec.id) }),
    })
    for (let at = 0; at < 3; at++) expect(said(await ask({ model: 'french' }), 'prefill-worker-id')).toBe('2')
    const session = { 'x-dynamo-session-id': 's' }
    while (said(await ask({}, session), 'prefill-worker-id') !== '1') session['x-dynamo-session-id'] += 's'
    expect(said(await ask({ model: 'french' }, session), 'prefill-worker-id')).toBe('2')
    house!.gateway.removeWorker(2n)
    const alone = await ask({ model: 'french' })
    expect([alone.status, said(alone, 'prefill-worker-id')]).toEqual([200, null])
  })

  it('an adapter that nobody decodes is no name of the model', async () => {
    const adaptersOf = (id: bigint): readonly string[] => (id === 1n ? ['french'] : [])
    await open('vllm', { counts: [1, 1], change: (spec) => ({ ...spec, adapters: adaptersOf(spec.id) }) })
    expect((await ask({ model: 'french' })).status).toBe(404)
    expect(await (await fetch(`${house!.url}/v1/models`)).text()).not.toContain('french')
  })

  it('says of both legs what happened', async () => {
    await open('vllm', { counts: [1, 1] })
    await (await ask({ stream: true })).text()
    await ask({ n: 2 })
    const text = await (await fetch(`${house!.url}/metrics`)).text()
    for (const line of [
      'warmroute_prefill_legs_total{model="m",outcome="completed",worker="1"} 1',
      'warmroute_decode_legs_total{model="m",prefill="remote",worker="11"} 1',
      'warmroute_decode_legs_total{model="m",prefill="local",worker="11"} 1',
      'warmroute_remote_prefill_skipped_total{model="m",reason="sequences"} 1',
      'warmroute_prefill_leg_seconds_count{model="m"} 1',
      'warmroute_kv_transfer_upper_bound_seconds_count{model="m"} 1',
      'warmroute_decode_leg_first_token_seconds_count{model="m"} 1',
    ])
      expect(text).toContain(line)
  })
})

function sized(spec: WorkerSpec, more: Partial<NonNullable<WorkerSpec['config']>>): WorkerSpec {
  return { ...spec, config: { dataParallelStartRank: 0, dataParallelSize: 1, ...spec.config, ...more } }
}
