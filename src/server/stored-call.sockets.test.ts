// Goal: a response that a worker keeps is looked up, cancelled and deleted at that worker, and nothing of a call is left behind.
// Method: scripted engines behind a gateway; one of them gave the response that is asked for.
import type { ServerResponse } from 'node:http'
import { request } from 'node:http'
import { describe, expect, it } from 'vitest'
import { hashKey } from './http/keys.js'
import type { House } from './house.case.js'
import { errorOf, houseOfEachTest, json, post } from './house.case.js'

const open = houseOfEachTest()

const event = (at: number): string => `event: response.output_text.delta\ndata: {"sequence_number":${at}}\n\n`

function answer(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body)
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': text.length }).end(text)
}

/** The first engine gives `resp_1` and keeps it; neither has a route to delete it unless told. */
async function withResponse(options: Parameters<typeof open>[0] = {}): Promise<House> {
  const house = await open({
    engines: 2,
    respond: (request, response) =>
      request.path === '/v1/responses' ? answer(response, 200, { id: 'resp_1', status: 'queued' }) : undefined,
    ...options,
  })
  const key = options.gateway?.apiKeyHashes ? { authorization: 'Bearer secret' } : {}
  const pin = { 'x-worker-instance-id': '1', ...key }
  const given = await post(house.url, '/v1/responses', '{"model":"m","input":"x","background":true}', pin)
  expect(await json(given)).toMatchObject({ id: 'resp_1' })
  return house
}

describe('a response that is kept', () => {
  it('is looked up at its worker, with its query and without the rest of what a client sends', async () => {
    const { url, engines } = await withResponse()
    engines[0]!.pages.set('/v1/responses/resp_1?include=a+b&n=1', '{"id":"resp_1"}')
    const found = await fetch(`${url}/v1/responses/resp_1?include=a%20b&n=1`, {
      headers: { 'x-request-id': 'mine', cookie: 'no', authorization: 'Bearer of-the-client' },
    })
    expect([found.status, await found.text()]).toEqual([200, '{"id":"resp_1"}'])
    expect(found.headers.get('x-warmroute-worker-id')).toBe('1')
    expect(found.headers.get('x-request-id')).toBe('mine')
    const { headers } = engines[0]!.asked.at(-1)!
    expect(headers).toMatchObject({ 'x-request-id': 'mine', authorization: 'Bearer of-the-client' })
    expect(headers.cookie).toBeUndefined()
    expect(engines[1]!.asked).toEqual([])
  })

  it('is cancelled without a body, and forgotten once its worker has deleted it', async () => {
    const { url, engines } = await withResponse()
    engines[0]!.respond = ({ method }, response) => answer(response, 200, { id: 'resp_1', said: method })
    const cancelled = await fetch(`${url}/v1/responses/resp_1/cancel`, { method: 'POST' })
    expect(await json(cancelled)).toEqual({ id: 'resp_1', said: 'POST' })
    expect(engines[0]!.seen.at(-1)).toMatchObject({ path: '/v1/responses/resp_1/cancel', text: '' })
    expect(engines[0]!.seen.at(-1)!.headers['content-length']).toBe('0')
    expect(await json(await fetch(`${url}/v1/responses/resp_1`, { method: 'DELETE' }))).toMatchObject({
      said: 'DELETE',
    })
    const again = await errorOf(await fetch(`${url}/v1/responses/resp_1`))
    expect(again).toMatchObject({ status: 404, code: 'WR_RESPONSE_NOT_FOUND', param: 'response_id' })
  })

  it('stays known where its worker refuses to delete it', async () => {
    const { url, engines } = await withResponse()
    engines[0]!.respond = (_, response) => answer(response, 405, { detail: 'Method Not Allowed' })
    const refused = await fetch(`${url}/v1/responses/resp_1`, { method: 'DELETE' })
    expect([refused.status, await json(refused)]).toEqual([405, { detail: 'Method Not Allowed' }])
    engines[0]!.pages.set('/v1/responses/resp_1', '{}')
    expect((await fetch(`${url}/v1/responses/resp_1`)).status).toBe(200)
  })

  it('is told again as a stream, untouched, and its worker hears when the client leaves', async () => {
    const { url, engines } = await withResponse()
    engines[0]!.pages.set('/v1/responses/resp_1?stream=true&starting_after=3', (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
      response.write(event(4) + event(5))
    })
    const leaving = new AbortController()
    const told = await fetch(`${url}/v1/responses/resp_1?stream=true&starting_after=3`, { signal: leaving.signal })
    expect(told.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    const { value } = await told.body!.getReader().read()
    expect(new TextDecoder().decode(value)).toBe(event(4) + event(5))
    const gone = engines[0]!.nextAbort()
    leaving.abort()
    await gone
  })

  it('that says nothing more ends with an error in its stream, and its worker goes on serving', async () => {
    const { url, gateway, engines } = await withResponse({ gateway: { deadlines: { noProgressMs: 60 } } })
    engines[0]!.pages.set('/v1/responses/resp_1?stream=true', (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(event(0))
    })
    const text = await (await fetch(`${url}/v1/responses/resp_1?stream=true`)).text()
    expect(text).toContain(event(0))
    expect(text).toContain('WR_ENGINE_TIMEOUT')
    expect(gateway.workers().map(({ is_quarantined: isOut }) => isOut)).toEqual([false, false])
  })

  it('is not found any more when its worker has left', async () => {
    const { url, gateway } = await withResponse()
    gateway.removeWorker(1n)
    const error = await errorOf(await fetch(`${url}/v1/responses/resp_1/cancel`, { method: 'POST' }))
    expect(error).toMatchObject({ status: 404, code: 'WR_RESPONSE_NOT_FOUND' })
    expect(error.message).toContain('worker 1, which held it, has left')
  })

  it('leaves a worker out that cannot be reached, and says so', async () => {
    const { url, gateway, engines } = await withResponse()
    await engines[0]!.close()
    const error = await errorOf(await fetch(`${url}/v1/responses/resp_1`))
    expect(error).toMatchObject({ status: 503, code: 'WR_ENGINE_UNREACHABLE' })
    expect(gateway.workers()[0]).toMatchObject({ id: '1', is_quarantined: true })
  })
})

describe('an id that nobody gave', () => {
  it('is not found among several workers, and asked of the one that the request names', async () => {
    const { url, engines } = await open({ engines: 2 })
    expect(await errorOf(await fetch(`${url}/v1/responses/resp_9`))).toMatchObject({
      status: 404,
      code: 'WR_RESPONSE_NOT_FOUND',
      type: 'not_found_error',
      param: 'response_id',
    })
    engines[1]!.pages.set('/v1/responses/resp_9', '{"id":"resp_9"}')
    const named = await fetch(`${url}/v1/responses/resp_9`, { headers: { 'x-worker-instance-id': '2' } })
    expect(await json(named)).toEqual({ id: 'resp_9' })
    const nobody = await fetch(`${url}/v1/responses/resp_9`, { headers: { 'x-worker-instance-id': '3' } })
    expect(await errorOf(nobody)).toMatchObject({ status: 404, code: 'WR_WORKER_NOT_FOUND' })
    expect(engines[0]!.asked).toEqual([])
  })

  it('is asked of the only worker there is', async () => {
    const { url, engines } = await open({ engines: 1 })
    engines[0]!.pages.set('/v1/responses/resp_9', '{"id":"resp_9"}')
    expect(await json(await fetch(`${url}/v1/responses/resp_9`))).toEqual({ id: 'resp_9' })
  })

  it.each(['..', '%2e%2e', 'a%2Fb', 'a%0d%0ab', '%ff', 'a%20b', 'x'.repeat(257)])(
    'never reaches a worker as %s',
    async (id) => {
      const { url, engines } = await open({ engines: 1 })
      const status = await new Promise((resolve, reject) => {
        const { hostname, port } = new URL(url)
        request({ hostname, port, path: `/v1/responses/${id}` }, (it) => resolve(it.resume().statusCode)) // as it is: fetch would tidy it
          .on('error', reject)
          .end()
      })
      expect(status).toBe(404)
      expect(engines[0]!.asked).toEqual([])
    },
  )
})

it('needs a key where keys are set, has methods of its own, and is counted', async () => {
  const { url } = await withResponse({ gateway: { apiKeyHashes: [hashKey('secret')] } })
  expect((await fetch(`${url}/v1/responses/resp_1`)).status).toBe(401)
  const wrong = await fetch(`${url}/v1/responses/resp_1`, { method: 'PUT' })
  expect([wrong.status, wrong.headers.get('allow')]).toEqual([405, 'GET, DELETE'])
  const keyed = { headers: { authorization: 'Bearer secret' } }
  await (await fetch(`${url}/v1/responses/resp_1`, keyed)).text()
  const metrics = await (await fetch(`${url}/metrics`)).text()
  expect(metrics).toMatch(/requests_total\{[^}]*endpoint="native"[^}]*model="m"[^}]*\} 1\n/)
})

it("speaks in upstream's shape where it is asked to", async () => {
  const { url } = await open({ engines: 2, gateway: { strict: 'dynamo' } })
  const body = await json(await fetch(`${url}/v1/responses/resp_9`))
  expect(body).toMatchObject({ type: 'Not Found', code: 404 })
})
