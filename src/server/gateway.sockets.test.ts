import { describe, expect, it } from 'vitest'
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
