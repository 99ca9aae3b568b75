import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createRouter } from 'warmroute'
import { afterEach, expect, it } from 'vitest'
import { createGateway } from './hono-gateway.js'
import { threeWorkers } from './three-workers.js'

const ends: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

it('three workers: a conversation returns to its cache', async () => {
  const [alice, bob, aliceAgain, bobAgain] = (await threeWorkers()).map((line) => /: (\S+), (\d+) of/.exec(line)!)
  expect([aliceAgain![1], bobAgain![1]]).toEqual([alice![1], bob![1]])
  expect([alice![2], aliceAgain![2], bobAgain![2]]).toEqual(['0', '512', '688'])
})

it('hono gateway: passes the answer on, and the second turn goes where the first one went', async () => {
  const urls = new Map<string, string>()
  for (const name of ['gpu-1', 'gpu-2']) {
    const server = createServer((_request, response) => response.end(JSON.stringify({ served_by: name })))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    urls.set(name, `http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    ends.push(() => new Promise((resolve) => server.close(() => resolve())))
  }
  const router = await createRouter({ blockSize: 4, workers: urls.keys() })
  ends.unshift(() => router.close())
  const tokenize = (body: unknown): Uint32Array =>
    new TextEncoder().encode(JSON.stringify(body)) as unknown as Uint32Array
  const app = createGateway({ router, urls, tokenize: (body) => Uint32Array.from(tokenize(body)) })
  const ask = async (content: string): Promise<{ worker: string | null; body: unknown }> => {
    const answer = await app.request('/v1/chat/completions', {
      method: 'POST',
      body: JSON.stringify({ messages: [{ content }] }),
    })
    return { worker: answer.headers.get('x-worker'), body: await answer.json() }
  }
  const first = await ask('a long question about caches and how they are kept warm')
  const second = await ask('a long question about caches and how they are kept warm, and then some')
  expect(second).toEqual({ worker: first.worker, body: { served_by: first.worker } })
})
