import { describe, expect, it, vi } from 'vitest'
import { chatFrames } from './fake-engine.case.js'
import { chatBody, houseOfEachTest, post } from './house.case.js'

const open = houseOfEachTest()

describe('the data path', () => {
  it('relays a whole answer byte for byte, with its length', async () => {
    const { url, engines } = await open()
    const direct = await post(engines[0]!.url, '/v1/chat/completions', chatBody())
    const through = await post(url, '/v1/chat/completions', chatBody())
    expect(through.status).toBe(200)
    expect(through.headers.get('content-length')).toBe(direct.headers.get('content-length'))
    expect(await through.text()).toBe(await direct.text())
  })

  it('relays a stream byte for byte', async () => {
    const { url } = await open()
    const through = await post(url, '/v1/chat/completions', chatBody({ stream: true }))
    expect(through.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    expect(await through.text()).toBe(chatFrames('m').join(''))
  })

  it("sends the client's own bytes on", async () => {
    const { url, engines } = await open({ engines: 1 })
    const body = '{ "model":"m",\n "messages": [ {"role":"user","content":"h\\u00e9 1.0"} ], "temperature": 1.0e0 }'
    await (await post(url, '/v1/chat/completions', body)).text()
    expect(engines[0]!.seen[0]!.text).toBe(body)
  })

  it('uses every worker in turn and keeps connections', async () => {
    const { url, engines, gateway } = await open()
    for (let at = 0; at < 6; at++) await (await post(url, '/v1/chat/completions', chatBody())).text()
    expect(engines.map((engine) => engine.seen.length)).toEqual([3, 3])
    expect(gateway.engineConnections).toBe(2)
  })
})

describe('what a request says of its own routing', () => {
  it.each<[string, object, Record<string, string>, object]>([
    [
      'its priorities, of headers',
      {},
      { 'x-dynamo-request-priority': '7', 'x-dynamo-request-strict-priority': '2' },
      { priorityJump: 7, strictPriority: 2 },
    ],
    [
      'its priorities, of its body',
      { agent_hints: { priority: 5, strict_priority: 1, latency_sensitivity: 9, osl: 64 } },
      {},
      { priorityJump: 5, strictPriority: 1, expectedOutputTokens: 64 },
    ],
    ['no jump for a priority below 0', { agent_hints: { priority: -5 } }, {}, { priorityJump: 0 }],
    ['the older name of the jump', { agent_hints: { latency_sensitivity: 2.5 } }, {}, { priorityJump: 2.5 }],
    ['its class', {}, { 'x-dynamo-meta-policy-class': 'urgent' }, { policyClass: 'urgent' }],
    ['its tenant', { cache_salt: 'body' }, { 'x-tenant-id': 'a' }, { cacheNamespace: 'a' }],
    [
      'its taints',
      { routing_constraints: { required_taints: ['a'], preferred_taints: { b: 2 } } },
      {},
      { requiredTaints: ['a'], preferredTaints: { b: 2 } },
    ],
    ['its rank', { backend_instance_id: 1 }, { 'x-dp-rank': '0' }, { pin: { workerId: 1n, dpRank: 0 } }],
    ['a dry run', { annotations: ['query_instance_id:'] }, {}, { isQueryOnly: true }],
  ])('reaches the router: %s', async (_says, nvext, headers, expected) => {
    const { url, router, gateway, engines } = await open({ engines: 1 })
    const config = { dataParallelStartRank: 0, dataParallelSize: 1, taints: new Set(['a']) }
    gateway.setWorker('m', { id: 1n, url: engines[0]!.url, engine: 'vllm', config })
    const route = vi.spyOn(router, 'route')
    const response = await post(url, '/v1/chat/completions', chatBody({ nvext }), headers)
    expect(response.status).toBe(200)
    await response.text()
    expect(route.mock.calls[0]![0]).toMatchObject(expected)
  })
})

describe('a worker that the request names', () => {
  it.each<[string, object, Record<string, string>, string]>([
    ['as its backend', { backend_instance_id: 2 }, {}, '2'],
    ['for the decode, before its backend', { decode_worker_id: 3, backend_instance_id: 2 }, {}, '3'],
    ['in a header, before its body', { backend_instance_id: 2 }, { 'x-dynamo-worker-instance-id': '1' }, '1'],
  ])('%s serves it, every time', async (_says, nvext, headers, worker) => {
    const { url } = await open({ engines: 3 })
    for (let at = 0; at < 3; at++) {
      const response = await post(url, '/v1/chat/completions', chatBody({ nvext }), headers)
      await response.text()
      expect(response.headers.get('x-warmroute-worker-id')).toBe(worker)
    }
  })
})
