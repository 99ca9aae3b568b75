// Every way out of a request, over sockets: whatever happens, its booking is freed. The names are those of the guard's
// contract; src/routing/request-guard.test.ts has the same ways without a server.
import { connect } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { InProcessRouter } from '../routing/index.js'
import { answerChat, chatFrames, startFakeEngine } from './fake-engine.case.js'
import type { Responder } from './fake-engine.case.js'
import type { House } from './house.case.js'
import { chatBody, openHouse, post } from './house.case.js'

let house: House | undefined

afterEach(async () => {
  await house?.close()
  house = undefined
})

const path = '/v1/chat/completions'
const stream = chatBody({ stream: true })
const silent: Responder = () => {}
const begins: Responder = (_request, response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for (const frame of chatFrames('m').slice(0, 2)) response.write(frame)
}
const breaks: Responder = (request, response) => {
  void begins(request, response)
  setTimeout(() => response.destroy(), 5)
}

interface Way {
  readonly says: string
  readonly respond?: Responder
  /** What the client sees: a status, or nothing. */
  readonly leave: (house: House) => Promise<number | undefined>
  readonly status: number | undefined
}

const ways: readonly Way[] = [
  { says: 'plain end', leave: ({ url }) => statusOf(url, stream), status: 200 },
  {
    says: 'reject',
    async leave({ url }) {
      await post(url, '/busy_threshold', JSON.stringify({ model: 'm', active_prefill_tokens_threshold: 0 }))
      const held = await post(url, '/router', '{"method":"new","tokens":[1,2,3]}', { 'x-request-id': 'held' })
      await held.text()
      let status = 200
      while (status === 200) status = await statusOf(url, chatBody())
      await (await post(url, '/router', '{"method":"mark_free"}', { 'x-request-id': 'held' })).text()
      return status
    },
    status: 529,
  },
  {
    says: 'select error',
    leave: ({ url }) => statusOf(url, chatBody({ nvext: { backend_instance_id: 99 } })),
    status: 503,
  },
  {
    says: 'session-open error',
    respond: (_request, response) => void response.writeHead(500).end(),
    leave({ url, gateway, engines }) {
      gateway.setWorker('m', { id: 1n, url: engines[0]!.url, engine: 'sglang' })
      return statusOf(url, chatBody({ nvext: { session_control: { session_id: 's', action: 'open' } } }))
    },
    status: 502,
  },
  {
    says: 'dispatch error',
    async leave({ url, engines }) {
      await engines[0]!.close()
      return statusOf(url, chatBody())
    },
    status: 503,
  },
  { says: 'stop before the first token', respond: silent, leave: (it) => leaveAfter(it, 'request'), status: undefined },
  { says: 'mid-stream error', respond: breaks, leave: ({ url }) => statusOf(url, stream), status: 200 },
  { says: 'client gone', respond: begins, leave: (it) => leaveAfter(it, 'token'), status: undefined },
  { says: 'never-iterated stream', respond: begins, leave: neverRead, status: undefined },
  {
    says: 'migration with the same id',
    async leave({ url, engines, gateway }) {
      engines[0]!.respond = (_request, response) => void response.destroy()
      const second = await startFakeEngine(answerChat)
      engines.push(second)
      gateway.setWorker('m', { id: 2n, url: second.url, engine: 'vllm' })
      let status = 0
      while (engines[0]!.seen.length === 0) status = await statusOf(url, stream)
      return status
    },
    status: 200,
  },
]

it.each(ways)('$says: nothing stays booked', async ({ respond, leave, status }) => {
  const router = await InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
  house = await openHouse({ engines: 1, router, ...(respond ? { respond } : {}) })
  expect(await leave(house)).toBe(status)
  const end = performance.now() + 5_000
  while ((house.gateway.inFlight > 0 || router.router.activeRequestCount > 0) && performance.now() < end)
    await new Promise((resolve) => setTimeout(resolve, 2))
  expect(router.router.activeRequestCount).toBe(0)
  for (const load of await house.loads())
    expect(load).toMatchObject({ activeRequests: 0, activePrefillTokens: 0, activeDecodeBlocks: 0 })
})

async function statusOf(url: string, body: string): Promise<number> {
  const response = await post(url, path, body)
  await response.text().catch(() => undefined)
  return response.status
}

/** The client hangs up when the engine has its request, or when it has seen the first token. */
async function leaveAfter({ url, engines }: House, what: 'request' | 'token'): Promise<undefined> {
  const leaving = new AbortController()
  const headers = { 'content-type': 'application/json' }
  const answer = fetch(`${url}${path}`, { method: 'POST', headers, body: stream, signal: leaving.signal })
  if (what === 'token') await (await answer).body!.getReader().read()
  while (engines[0]!.seen.length === 0) await new Promise((resolve) => setTimeout(resolve, 2))
  leaving.abort()
  await answer.catch(() => undefined)
}

/** A socket that sends a request, reads nothing of the answer, and is closed. */
async function neverRead({ url, engines }: House): Promise<undefined> {
  const { port } = new URL(url)
  const socket = connect(Number(port), '127.0.0.1')
  socket.pause()
  const head = `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${stream.length}`
  socket.write(`${head}\r\n\r\n${stream}`)
  while (engines[0]!.seen.length === 0) await new Promise((resolve) => setTimeout(resolve, 2))
  socket.destroy()
}
