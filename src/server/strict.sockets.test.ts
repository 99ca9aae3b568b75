/** `strict: dynamo` over sockets: upstream's body shapes around what an engine answers (spec/serving.md 1.2 to 1.4). */
import type { ServerResponse } from 'node:http'
import { afterEach, describe, expect, it } from 'vitest'
import type { House } from './house.case.js'
import { chatBody, openHouse, post } from './house.case.js'

let house: House
afterEach(() => house.close())

async function strictHouse(status: number, body: string, engines = 1): Promise<House> {
  const respond = (_: unknown, response: ServerResponse): void => {
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(body)
  }
  house = await openHouse({ engines, respond, gateway: { strict: 'dynamo' } })
  return house
}

it('when strict, a model that is not ready is said before what is wrong with the body, and that before an unknown model', async () => {
  const { url, gateway } = await strictHouse(200, '{}')
  const ask = async (model: string): Promise<string> => {
    const answer = await post(url, '/v1/chat/completions', chatBody({ model, temperature: 9 }))
    return `${answer.status} ${((await answer.json()) as { message: string }).message}`
  }
  expect(await ask('m')).toMatch(/^400 Validation: temperature/)
  expect(await ask('nobody')).toMatch(/^400 Validation: temperature/)
  gateway.removeWorker(1n)
  expect(await ask('m')).toMatch(/^503 Model `m` is not ready/)
  expect(await ask('nobody')).toMatch(/^400 Validation: temperature/)
})

describe("an engine's own error, when strict,", () => {
  it.each([
    ['{"error":{"message":"too long","type":"BadRequestError","code":400}}', 400, 'too long', 'Bad Request'],
    ['{"object":"error","message":"no such adapter","code":404}', 404, 'no such adapter', 'Not Found'],
    ['{"detail":"slow down"}', 429, 'slow down', 'Too Many Requests'],
    ['plain words', 422, 'plain words', 'Unprocessable Entity'],
    ['[1]', 400, '[1]', 'Bad Request'],
  ])('%s keeps its status and text, flat', async (body, status, message, type) => {
    const { url } = await strictHouse(status, body)
    const answer = await post(url, '/v1/chat/completions', chatBody())
    expect(answer.status).toBe(status)
    expect(await answer.json()).toEqual({ message, type, code: status })
  })

  it.each([500, 501, 502, 504])('%i becomes 500 and says only which status it was', async (status) => {
    const { url } = await strictHouse(status, '{"error":{"message":"CUDA error at /opt/secret.py"}}')
    const answer = await post(url, '/v1/chat/completions', chatBody())
    expect(answer.status).toBe(500)
    expect(await answer.json()).toEqual({
      message: 'Internal server error',
      type: 'Internal Server Error',
      code: 500,
      details: { backend_status: status },
    })
  })

  it('503 and overload keep their status and lose their text', async () => {
    const unavailable = await strictHouse(503, 'worker 7 is down')
    const first = await post(unavailable.url, '/v1/chat/completions', chatBody())
    expect(await first.json()).toEqual({
      message: 'Service temporarily unavailable',
      type: 'Service Unavailable',
      code: 503,
    })
    await unavailable.close()
    const overloaded = await strictHouse(529, 'worker 7 is full')
    const second = await post(overloaded.url, '/v1/chat/completions', chatBody({ stream: true }))
    expect(await second.json()).toEqual({ message: 'Service temporarily overloaded', type: 'Overloaded', code: 529 })
  })

  it('500 is not tried on another worker', async () => {
    const { url, engines } = await strictHouse(500, '{}', 2)
    expect((await post(url, '/v1/chat/completions', chatBody())).status).toBe(500)
    expect(engines.flatMap((engine) => engine.seen)).toHaveLength(1)
  })
})

it('mends control characters before it parses, and the engine gets the mended body', async () => {
  house = await openHouse({ engines: 1, gateway: { strict: 'dynamo' } })
  const raw = '{"model":"m","messages":[{"role":"user","content":"one\ntwo"}]}'
  expect((await post(house.url, '/v1/chat/completions', raw)).status).toBe(200)
  expect(house.engines[0]!.seen[0]!.text).toContain('one\\u000atwo')
})

it('does not mend by default: the client is told', async () => {
  house = await openHouse({ engines: 1 })
  const raw = '{"model":"m","messages":[{"role":"user","content":"one\ntwo"}]}'
  expect((await post(house.url, '/v1/chat/completions', raw)).status).toBe(400)
  expect(house.engines[0]!.seen).toHaveLength(0)
})

describe('when strict', () => {
  it('a method that a route has not gets no body, as recorded', async () => {
    const { url } = await strictHouse(200, '{}')
    const answer = await fetch(`${url}/v1/chat/completions`)
    expect([answer.status, answer.headers.get('allow'), await answer.text()]).toEqual([405, 'POST', ''])
  })

  it.each([undefined, 'text/plain', 'application/xml'])('a body of the type %s is no JSON', async (type) => {
    const { url, engines } = await strictHouse(200, '{}')
    const headers: Record<string, string> = type === undefined ? {} : { 'content-type': type }
    const body = new Blob([chatBody()]) // says no type by itself
    const answer = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body })
    const message = 'Expected request with Content-Type application/json'
    expect([answer.status, await answer.json()]).toEqual([415, { message, type: 'Unsupported Media Type', code: 415 }])
    expect(engines[0]!.seen).toEqual([])
  })

  it('an unknown route is told flat', async () => {
    const { url } = await strictHouse(200, '{}')
    const answer = await fetch(`${url}/v1/nope`)
    expect(await answer.json()).toEqual({ message: 'Route not found: GET /v1/nope', type: 'Not Found', code: 404 })
  })
})
