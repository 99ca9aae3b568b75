// Who may ask, and how workers are managed.
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { get } from 'node:http'
import { hostname } from 'node:os'
import { describe, expect, it } from 'vitest'
import { chatBody, errorOf, houseOfEachTest, json, openHouse, post } from './house.case.js'
import { createGateway } from './gateway.js'
import { hashKey } from './http/keys.js'
import { createPolicyRouter } from './policies/policy-router.js'

const open = houseOfEachTest()

describe('worker admin', () => {
  it('lists, adds, drains and removes', async () => {
    const { url, engines } = await open({ engines: 2 })
    await fetch(`${url}/workers/2`, { method: 'DELETE' })
    const added = await post(
      url,
      '/workers',
      JSON.stringify({ model: 'm', url: engines[1]!.url, engine: 'sglang', api_key: 'secret', data_parallel_size: 2 }),
    )
    expect(added.status).toBe(201)
    expect(await added.text()).not.toContain('secret')
    const { workers } = (await json(await fetch(`${url}/workers`))) as unknown as {
      workers: { id: string; engine: string; data_parallel_size: number }[]
    }
    expect(workers.map((worker) => [worker.id, worker.engine, worker.data_parallel_size])).toEqual([
      ['1', 'vllm', 1],
      ['2', 'sglang', 2],
    ])
    expect((await fetch(`${url}/workers/1/drain`, { method: 'POST' })).status).toBe(202)
    const { workers: left } = (await json(await fetch(`${url}/workers`))) as unknown as { workers: object[] }
    expect(left).toHaveLength(1)
    expect((await fetch(`${url}/workers/9`, { method: 'DELETE' })).status).toBe(404)
    expect((await fetch(`${url}/workers/9/drain`, { method: 'POST' })).status).toBe(404)
  })

  it('refuses an engine that is a worker already, however its address is written, and takes news of that worker', async () => {
    const { url, engines } = await open({ engines: 1 })
    const twin = { model: 'm', url: `${engines[0]!.url}/` }
    for (const again of [twin.url, twin.url.replace('127.0.0.1', 'localhost')]) {
      const refused = await post(url, '/workers', JSON.stringify({ ...twin, url: again }))
      expect(refused.status).toBe(400)
      expect(await refused.text()).toContain('worker 1 has the url')
    }
    expect((await post(url, '/workers', JSON.stringify({ ...twin, id: '1' }))).status).toBe(201)
  })

  it('refuses to give the id of a worker of one model to another', async () => {
    const { url, gateway, engines } = await open({ engines: 1 })
    gateway.addModel({ name: 'other', blockSize: 16, router: createPolicyRouter({ policy: 'round-robin' }) })
    const refused = await post(url, '/workers', JSON.stringify({ model: 'other', url: engines[0]!.url, id: '1' }))
    expect(await errorOf(refused)).toMatchObject({
      status: 400,
      message: 'worker 1 serves m; remove it first, or name another id',
    })
  })

  it.each([
    [{ model: 'm' }, 400],
    [{ model: 'm', url: 'ftp://x' }, 400],
    [{ model: 'm', url: 'http://user:secret@x' }, 400],
    [{ model: 'm', url: 'http://x', engine: 'abacus' }, 400],
    [{ model: 'x', url: 'http://x' }, 404],
    [{ model: 'm', url: 'http://x', id: 'x' }, 400],
    [{ model: 'm', url: 'http://x', data_parallel_size: -1 }, 400],
    [{ model: 'm', url: 'http://x', role: 'prefill' }, 400],
    [{ model: 'm', url: 'http://x', role: 'prefill', engine: 'vllm' }, 400],
  ])('refuses %j', async (body, status) => {
    const { url } = await open({ engines: 1 })
    const refused = await post(url, '/workers', JSON.stringify(body))
    expect(refused.status).toBe(status)
    expect(await refused.text()).not.toContain('secret')
  })
})

describe('keys', () => {
  const options = {
    engines: 1,
    gateway: { apiKeyHashes: [hashKey('k1'), hashKey('k2')], adminKeyHashes: [hashKey('boss')] },
  }

  it('are asked for on client routes, and not for health', async () => {
    const { url } = await open(options)
    const refused = await post(url, '/v1/chat/completions', chatBody())
    expect(refused.headers.get('www-authenticate')).toBe('Bearer')
    expect(await errorOf(refused)).toMatchObject({ status: 401, type: 'authentication_error' })
    expect((await post(url, '/v1/chat/completions', chatBody(), { authorization: 'Bearer wrong' })).status).toBe(401)
    expect((await post(url, '/v1/chat/completions', chatBody(), { authorization: 'Bearer k2' })).status).toBe(200)
    expect((await post(url, '/v1/messages', chatBody(), { 'x-api-key': 'k1' })).status).toBe(200)
    expect((await fetch(`${url}/v1/models`)).status).toBe(401)
    expect((await fetch(`${url}/health`)).status).toBe(200)
  })

  it('of an admin are needed from elsewhere; a proxy on this machine is elsewhere', async () => {
    const { url } = await open(options)
    expect((await fetch(`${url}/workers`)).status).toBe(200)
    for (const name of ['x-forwarded-for', 'forwarded', 'x-real-ip', 'via']) {
      const status = async (key?: string): Promise<number> => {
        const headers = { [name]: '10.0.0.1', ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) }
        return (await fetch(`${url}/workers`, { headers })).status
      }
      expect([name, await status(), await status('k1'), await status('boss')]).toEqual([name, 403, 403, 200])
    }
  })

  it('of an admin are needed from a page in a browser on this machine, whose it may not be', async () => {
    const { url, engines } = await open({ engines: 1 })
    const order = JSON.stringify({ model: 'm', url: 'http://elsewhere:1' })
    const headers = { 'content-type': 'text/plain', origin: 'http://elsewhere' }
    const refused = await post(url, '/workers', order, headers)
    expect(await errorOf(refused)).toMatchObject({ status: 403, code: 'WR_FORBIDDEN' })
    const { workers } = (await json(await fetch(`${url}/workers`))) as unknown as { workers: { url: string }[] }
    expect(workers.map((worker) => worker.url)).toEqual([engines[0]!.url])
  })

  it.each([
    ['evil.example', 403],
    ['evil.example:8080', 403],
    ['127.0.0.1.evil.example', 403],
    ['127.0.0.1:1', 200],
    ['[::1]:1', 200],
    ['localhost', 200],
    ['Warm.LOCALHOST.:1', 200],
    ['gpu7:8080', 200],
    [`${hostname()}:1`, 200],
  ])('of an admin are needed where a name of somebody else leads to this machine: %s', async (host, status) => {
    const { url } = await open({ engines: 1 })
    const asked = get(`${url}/workers`, { headers: { host }, agent: false })
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    await once(answer.resume(), 'end')
    expect(answer.statusCode).toBe(status)
  })
})

it('a key in place of its hash is refused before anything is served', async () => {
  const gateway = createGateway({ listen: { port: 0 }, apiKeyHashes: ['my plain key'] })
  await expect(gateway.listen()).rejects.toThrow('a key hash has 64 hex digits')
  await gateway.close()
})

it("an admin's key opens the routes of clients, and a client's none of the admin's", async () => {
  const gateway = { apiKeyHashes: [hashKey('client')], adminKeyHashes: [hashKey('boss')] }
  const { url } = await open({ engines: 1, gateway })
  const status = async (path: string, key: string): Promise<number> =>
    (await fetch(url + path, { headers: { authorization: `Bearer ${key}`, via: 'a proxy' } })).status
  expect([await status('/v1/models', 'boss'), await status('/workers', 'boss')]).toEqual([200, 200])
  expect([await status('/v1/models', 'client'), await status('/workers', 'client')]).toEqual([200, 403])
})

it('every answer of our own repeats the name of its request', async () => {
  const { url } = await open({ engines: 1 })
  for (const [path, status] of [
    ['/workers', 200],
    ['/live', 200],
    ['/v1/models', 200],
    ['/nowhere', 404],
  ] as const) {
    const response = await fetch(url + path, { headers: { 'x-request-id': 'mine' } })
    expect([path, response.status, response.headers.get('x-request-id')]).toEqual([path, status, 'mine'])
  }
})

it('moves admin routes to a port of their own', async () => {
  const one = await openHouse({ engines: 1, gateway: { adminListen: { port: 0 } } })
  expect((await fetch(`${one.url}/workers`)).status).toBe(404)
  expect((await fetch(`${one.adminUrl}/workers`)).status).toBe(200)
  expect((await post(one.adminUrl!, '/v1/chat/completions', chatBody())).status).toBe(404)
  await one.close()
})
