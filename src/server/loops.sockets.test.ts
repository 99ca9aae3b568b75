// Goal: routers that are each other's workers send no request round for ever, and say what is wrong with them.
import { afterEach, expect, it } from 'vitest'
import type { Gateway } from './gateway.js'
import { createGateway } from './gateway.js'
import type { House } from './house.case.js'
import { chatBody, errorOf, openHouse, post } from './house.case.js'
import { createPolicyRouter } from './policies/policy-router.js'

let house: House | undefined
let other: Gateway | undefined
afterEach(async () => {
  await other?.close()
  await house?.close() // where nothing may be left of either
  house = other = undefined
})

async function open(engines: number): Promise<House> {
  house = await openHouse({ engines, engine: 'unknown' })
  return house
}

/** A router without engines whose worker is at `url`. */
async function routerBefore(url: string): Promise<string> {
  const router = createPolicyRouter({ policy: 'round-robin' })
  const workers = [asWorker(url)]
  const health = { intervalMs: 0, metricsMs: 0 }
  other = createGateway({ listen: { port: 0 }, health, models: [{ name: 'm', blockSize: 16, router, workers }] })
  return (await other.listen()).url
}

const asWorker = (url: string) => ({ id: 9n, url, engine: 'unknown' as const })

it.each(['/v1/chat/completions', '/v1/messages'])(
  'two routers that name each other answer %s with a typed error, after one round',
  async (path) => {
    const { url, gateway } = await open(0)
    gateway.setWorker('m', asWorker(await routerBefore(url)))
    const error = await errorOf(await post(url, path, chatBody()))
    expect(error).toMatchObject({ status: 508, type: path === '/v1/messages' ? 'api_error' : 'server_error' })
    if (path !== '/v1/messages') expect(error.code).toBe('WR_ROUTING_LOOP')
  },
)

it('a router that is its own worker answers so, too', async () => {
  const { url, gateway } = await open(0)
  gateway.setWorker('m', asWorker(url))
  expect((await errorOf(await post(url, '/v1/chat/completions', chatBody()))).code).toBe('WR_ROUTING_LOOP')
})

it('an engine that one of them has is found instead', async () => {
  const { url, gateway, engines } = await open(1)
  gateway.setWorker('m', asWorker(await routerBefore(url)))
  for (let asked = 1; asked <= 4; asked++) {
    const response = await post(url, '/v1/chat/completions', chatBody())
    expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('four') as string])
    expect(engines[0]!.seen).toHaveLength(asked)
  }
})

it('routers behind each other without a loop pass a request on, with the way that it came', async () => {
  const { url, engines } = await open(1)
  const front = await routerBefore(url)
  const response = await post(front, '/v1/chat/completions', chatBody(), { via: '1.1 edge' })
  expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('four') as string])
  expect(engines[0]!.seen[0]!.headers['via']).toMatch(/^1\.1 edge, 1\.1 warmroute-\w+, 1\.1 warmroute-\w+$/)
})

it('an engine of a known kind is told nothing of it', async () => {
  house = await openHouse({ engines: 1 })
  await (await post(house.url, '/v1/chat/completions', chatBody(), { via: '1.1 edge' })).text()
  expect(house.engines[0]!.seen[0]!.headers['via']).toBeUndefined()
})
