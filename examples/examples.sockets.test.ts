import type { RequestListener } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Router } from 'warmroute'
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

/** The example's gateway before two servers that answer so. */
async function openGateway(
  answer: RequestListener,
): Promise<{ app: ReturnType<typeof createGateway>; router: Router }> {
  const urls = new Map<string, string>()
  for (const name of ['gpu-1', 'gpu-2']) {
    const server = createServer((request, response) => {
      response.setHeader('x-name', name)
      answer(request, response)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    urls.set(name, `http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    ends.push(() => new Promise((resolve) => server.close(() => resolve()).closeAllConnections()))
  }
  const router = await createRouter({ blockSize: 4, workers: urls.keys() })
  ends.unshift(() => router.close())
  const tokenize = (body: unknown): Uint32Array => Uint32Array.from(new TextEncoder().encode(JSON.stringify(body)))
  return { app: createGateway({ router, urls, tokenize }), router }
}

const question = 'a long question about caches and how they are kept warm'
const asked = (content: string): RequestInit => ({ method: 'POST', body: JSON.stringify({ messages: [{ content }] }) })
const path = '/v1/chat/completions'

it('hono gateway: passes the answer on, and the second turn goes where the first one went', async () => {
  const { app } = await openGateway((_request, response) =>
    response.end(JSON.stringify({ served_by: response.getHeader('x-name') })),
  )
  const ask = async (content: string): Promise<{ worker: string | null; body: unknown }> => {
    const answer = await app.request(path, asked(content))
    return { worker: answer.headers.get('x-worker'), body: await answer.json() }
  }
  const first = await ask(question)
  const second = await ask(`${question}, and then some`)
  expect(second).toEqual({ worker: first.worker, body: { served_by: first.worker } })
})

const begins: RequestListener = (_request, response) => void response.writeHead(200).write('data: 1\n\n')
const breaks: RequestListener = (request, response) => {
  begins(request, response)
  setTimeout(() => response.destroy(), 5)
}

it.each<[string, RequestListener, (answer: Response) => Promise<unknown>]>([
  ['a plain end', (_request, response) => response.end('{}'), (answer) => answer.text()],
  ['a client that leaves before it read anything', begins, (answer) => answer.body!.cancel()],
  [
    'a client that leaves after a part',
    begins,
    async (answer) => {
      const reader = answer.body!.getReader()
      await reader.read()
      await reader.cancel()
    },
  ],
  ['a worker that breaks off', breaks, (answer) => answer.text().catch(() => {})],
  ['a worker that takes no request', (request) => request.destroy(), async (answer) => expect(answer.status).toBe(502)],
])('hono gateway: nothing stays booked after %s', async (_says, answer, leave) => {
  const { app, router } = await openGateway(answer)
  await leave(await app.request(path, asked(question)))
  // Two idle workers cost the same for a prompt that neither holds.
  const other = await router.route({ tokens: Uint32Array.of(1, 2, 3, 4), wantReceipt: true })
  expect(other.receipt!.margin).toBe(0)
  other.free()
})
