// Clients that leave, wait, push and mumble, on bare sockets. None of them may keep a booking, an engine or the loop.
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { WarmrouteError } from '../core/protocol/index.js'
import { signalOf } from '../routing/index.js'
import type { Responder } from './fake-engine.case.js'
import { chatFrames } from './fake-engine.case.js'
import type { House, HouseOptions } from './house.case.js'
import { chatBody, openHouse, post } from './house.case.js'
import { createPolicyRouter } from './policies/policy-router.js'

let house: House | undefined
const clients = new Set<Socket>()

afterEach(async () => {
  for (const client of clients) client.destroy()
  clients.clear()
  await house?.close()
  house = undefined
})

async function open(options: HouseOptions = {}): Promise<House> {
  house = await openHouse(options)
  return house
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setImmediate(resolve))
}

interface Client {
  readonly socket: Socket
  readonly text: () => string
  readonly isClosed: () => boolean
}

function dial(): Client {
  const socket = connect({ port: Number(new URL(house!.url).port), host: '127.0.0.1', allowHalfOpen: true })
  let text = ''
  let isClosed = false
  clients.add(socket)
  socket.on('data', (part) => (text += part.toString('latin1')))
  socket.on('error', () => {})
  socket.on('end', () => (isClosed = true))
  socket.on('close', () => (isClosed = true))
  return { socket, text: () => text, isClosed: () => isClosed }
}

const frames = chatFrames('m')
const request = (body: string, more = ''): string =>
  `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n${more}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`

const hang: Responder = (_request, response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write(frames[0])
}

describe('a client that leaves', () => {
  it.each([
    ['by closing its side only', (socket: Socket) => void socket.end()],
    ['by a reset', (socket: Socket) => void socket.resetAndDestroy()],
  ])('%s stops the engine', async (_says, leave) => {
    const { engines, gateway, loads } = await open({ engines: 1, respond: hang })
    const { socket, text } = dial()
    socket.write(request(chatBody({ stream: true })))
    await until(() => text().includes('data:'))
    const aborted = engines[0]!.nextAbort()
    leave(socket)
    await aborted
    await until(() => gateway.inFlight === 0)
    expect((await loads()).every(({ activeRequests }) => activeRequests === 0)).toBe(true)
  })

  it('takes with it what waits behind its first request on the same connection', async () => {
    const { engines, gateway } = await open({ engines: 1, respond: hang })
    const { socket } = dial()
    socket.write(request(chatBody({ stream: true })).repeat(3))
    await until(() => engines[0]!.seen.length === 3)
    socket.destroy()
    await until(() => gateway.inFlight === 0 && engines[0]!.aborted() === 3)
  })
})

describe('a client that has closed its side', () => {
  const head = (path: string): string => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`
  it.each([
    ['the health', head('/health'), 200],
    ['the models', head('/v1/models'), 200],
    ['a refusal', request(chatBody({ model: 'nobody' })), 404],
    ['a refusal of what it did not send in full', request(chatBody()).slice(0, -5), 400],
  ])('still gets %s, for which no engine is asked', async (_says, bytes, status) => {
    const { engines } = await open({ engines: 1 })
    const { socket, text, isClosed } = dial()
    socket.end(bytes)
    await until(isClosed)
    expect(text()).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    expect(engines[0]!.seen).toHaveLength(0)
  })
})

describe('requests one behind the other', () => {
  it('are answered in order, streams and whole answers alike', async () => {
    await open({ engines: 2 })
    const { socket, text } = dial()
    socket.write(request(chatBody({ stream: true })) + request(chatBody()) + request(chatBody({ stream: true })))
    await until(() => text().split('HTTP/1.1 200 OK').length === 4 && text().endsWith('0\r\n\r\n'))
    const [, first, second, third] = text().split('HTTP/1.1 200 OK')
    for (const part of [first!, third!]) expect(part.match(/data: \[DONE\]/g)).toHaveLength(1)
    expect(second).toContain('one two three four')
  })

  it('and rubbish behind one is refused without harm to it', async () => {
    await open({ engines: 1 })
    const { socket, text, isClosed } = dial()
    socket.write(`${request(chatBody())}BLA BLA\r\n\r\n`)
    await until(() => isClosed())
    expect(text()).toMatch(/^HTTP\/1\.1 (?:200|400)/)
  })
})

describe('a whole address in place of a path', () => {
  it.each([
    ['GET http://somewhere:80/v1/models/m HTTP/1.1', '"id":"m"'],
    ['GET HTTPS://somewhere/live HTTP/1.1', '"status":"live"'],
    ['GET http://somewhere?x=/live HTTP/1.1', 'Route not found: GET /"'],
    ['GET http://somewhere HTTP/1.1', 'Route not found: GET /"'],
  ])('is understood, as every server must: %s', async (line, says) => {
    await open({ engines: 1 })
    const { socket, text, isClosed } = dial()
    socket.write(`${line}\r\nhost: somewhere\r\nconnection: close\r\n\r\n`)
    await until(isClosed)
    expect(text()).toContain(says)
  })

  it('reaches an engine, too', async () => {
    const { engines } = await open({ engines: 1 })
    const { socket, text } = dial()
    socket.write(request(chatBody()).replace('POST /v1', 'POST http://somewhere/v1'))
    await until(() => text().includes('one two three four'))
    expect(engines[0]!.seen.map(({ path }) => path)).toEqual(['/v1/chat/completions'])
  })
})

describe('a client that does not read', () => {
  it('is let go of after a while, and its worker is not blamed', async () => {
    const big = `data: ${'x'.repeat(256 * 1024)}\n\n`
    const pour: Responder = (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const more = (): void => {
        while (!response.destroyed && response.write(big));
      }
      response.on('drain', more)
      more()
    }
    const { gateway, engines } = await open({
      engines: 1,
      respond: pour,
      gateway: { deadlines: { noProgressMs: 200 } },
    })
    const { socket } = dial()
    socket.pause()
    socket.write(request(chatBody({ stream: true })))
    await until(() => gateway.inFlight === 1)
    await until(() => gateway.inFlight === 0)
    expect(gateway.workers()[0]).toMatchObject({ is_quarantined: false, faults: 0 })
    await until(() => engines[0]!.aborted() === 1)
  })
})

describe('a body that is announced', () => {
  it('with 100-continue is asked for', async () => {
    const { engines } = await open({ engines: 1 })
    const { socket, text } = dial()
    const body = chatBody()
    const whole = request(body, 'expect: 100-continue\r\n')
    socket.write(whole.slice(0, -body.length))
    await until(() => text().includes('100 Continue'))
    expect(engines[0]!.seen).toHaveLength(0)
    socket.write(body)
    await until(() => text().includes('HTTP/1.1 200 OK'))
  })

  it('with 100-continue is not asked for when it is too long', async () => {
    await open({ engines: 1, gateway: { limits: { bodyBytesMax: 1000 } } })
    const { socket, text } = dial()
    socket.write(
      'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2000\r\n\r\n',
    )
    await until(() => text().includes('HTTP/1.1 413'))
    expect(text()).not.toContain('100 Continue')
  })

  it('may come in chunks, with extensions and trailers', async () => {
    const { engines } = await open({ engines: 1 })
    const { socket, text } = dial()
    const body = chatBody()
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n${body.length.toString(16)};x=y\r\n${body}\r\n0\r\nx-late: 1\r\n\r\n`,
    )
    await until(() => text().includes('HTTP/1.1 200 OK'))
    expect(engines[0]!.seen[0]!.text).toBe(body)
    expect(engines[0]!.seen[0]!.headers['content-length']).toBe(String(body.length))
    expect(engines[0]!.seen[0]!.headers['x-late']).toBeUndefined()
  })
})

it('HTTP/1.0 gets a stream that ends with its connection', async () => {
  await open({ engines: 1 })
  const { socket, text, isClosed } = dial()
  socket.write(request(chatBody({ stream: true })).replace('HTTP/1.1', 'HTTP/1.0'))
  await until(() => isClosed() || text().includes('[DONE]'))
  await until(() => isClosed())
  expect(text().split('\r\n\r\n')[1]).toBe(frames.join(''))
})

it.each(['HEAD', 'OPTIONS', 'PUT', 'DELETE', 'GET'])(
  '%s on a route that ends in an engine is not allowed',
  async (method) => {
    const { url, engines } = await open({ engines: 1 })
    const response = await fetch(`${url}/v1/chat/completions`, { method })
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST'])
    await response.text()
    expect(engines[0]!.seen).toHaveLength(0)
  },
)

it.each([
  ['/v1/chat/completions', 'GET', 405],
  ['/workers', 'DELETE', 405],
  ['/nowhere', 'GET', 404],
  ['/workers/9', 'DELETE', 404],
])(
  '%s by %s is %i, with the name that the client gave it and none where it gave none',
  async (path, method, status) => {
    const { url } = await open({ engines: 1 })
    for (const headers of [{ 'x-request-id': 'mine' }, {}]) {
      const response = await fetch(url + path, { method, headers })
      await response.text()
      expect([response.status, response.headers.get('x-request-id')]).toEqual([status, headers['x-request-id'] ?? null])
    }
  },
)

it('nobody waits for ever for a worker', async () => {
  const router = createPolicyRouter({ policy: 'round-robin' })
  const parked: RouterPortRoute = ({ signal }) =>
    new Promise((_resolve, reject) =>
      signalOf(signal)!.addEventListener('abort', () => reject(new WarmrouteError('WR_REQUEST_CANCELLED', {}))),
    )
  const { url, engines } = await open({
    engines: 1,
    router: Object.assign(router, { route: parked }),
    gateway: { deadlines: { totalMs: 80 } },
  })
  const response = await post(url, '/v1/chat/completions', chatBody())
  expect(await response.text()).toContain('WR_REQUEST_TIMEOUT')
  expect(engines[0]!.seen).toHaveLength(0)
})

type RouterPortRoute = ReturnType<typeof createPolicyRouter>['route']

it('whoever asks the router as a service and leaves is not booked', async () => {
  const { gateway, loads, router } = await open({ engines: 1 })
  let place: () => void = () => {}
  let heard: AbortSignal | undefined
  let wasBooked = false
  const real = router.route.bind(router)
  router.route = async (asked) => {
    heard = signalOf(asked.signal)
    await new Promise<void>((resolve) => (place = resolve))
    const answer = await real({ ...asked, signal: undefined }) // it was placed before it heard
    wasBooked = (await loads()).some(({ activeRequests }) => activeRequests === 1)
    return answer
  }
  const { socket } = dial()
  const body = '{"method":"new","tokens":[1,2,3]}'
  socket.write(`POST /router HTTP/1.1\r\nhost: x\r\nx-request-id: a\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
  await until(() => heard !== undefined)
  socket.destroy()
  await until(() => heard!.aborted)
  place()
  await until(() => wasBooked)
  await until(async () => (await loads()).every(({ activeRequests }) => activeRequests === 0))
  expect(gateway.inFlight).toBe(0)
})
