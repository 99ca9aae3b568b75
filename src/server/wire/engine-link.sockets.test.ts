import { connect, createServer, Socket as NodeSocket } from 'node:net'
import type { AddressInfo, NetConnectOpts, Server, Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import type { WarmrouteError } from '../../core/protocol/index.js'
import { EngineLink } from './engine-link.js'
import { fetchText } from './fetch-text.js'

let server: Server | undefined
let link: EngineLink | undefined
const sockets = new Set<Socket>()

afterEach(async () => {
  link?.close()
  for (const socket of sockets) socket.destroy()
  await new Promise<void>((resolve) => (server ? server.close(() => resolve()) : resolve()))
  server = undefined
})

/** Answers each request, numbered from 0, with what the script writes. */
async function serve(script: (socket: Socket, request: number) => void, options: object = {}): Promise<EngineLink> {
  let requests = 0
  server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => {})
    socket.on('data', () => script(socket, requests++))
  })
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve))
  link = new EngineLink({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, ...options })
  return link
}

function get(through: EngineLink, timeoutMs = 2_000): Promise<string> {
  return fetchText(through, { method: 'GET', path: '/', headers: [] }, { timeoutMs }).then(
    ({ status, text }) => `${status} ${text}`,
    (error: WarmrouteError) => error.code,
  )
}

const ok = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'

describe('an answer', () => {
  it.each([
    ['with a length', [ok], '200 ok'],
    ['in single bytes', Array.from(ok), '200 ok'],
    [
      'in chunks',
      ['HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n', '1\r\nk\r\n0', '\r\n\r\n'],
      '200 ok',
    ],
    ['after an interim one', ['HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n', ok], '200 ok'],
    ['without a body', ['HTTP/1.1 204 No Content\r\n\r\n'], '204 '],
    ['with an upgrade', ['HTTP/1.1 101 Switching\r\n\r\n'], 'WR_ENGINE_PROTOCOL'],
    ['that is no HTTP', ['SSH-2.0-OpenSSH\r\n\r\n'], 'WR_ENGINE_PROTOCOL'],
    ['with an endless head', [`HTTP/1.1 200 OK\r\nx: ${'a'.repeat(70_000)}`], 'WR_ENGINE_PROTOCOL'],
    ['with a broken chunk', ['HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n'], 'WR_ENGINE_PROTOCOL'],
  ])('%s', async (_says, parts, expected) => {
    const through = await serve((socket) => {
      void (async () => {
        for (const part of parts) {
          socket.write(part)
          await new Promise((resolve) => setImmediate(resolve))
        }
      })()
    })
    expect(await get(through)).toBe(expected)
  })

  it('may end with the connection', async () => {
    const through = await serve((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\nok'))
    expect(await get(through)).toBe('200 ok')
    expect(through.connectionCount).toBe(0)
  })

  it('that is cut short is an error', async () => {
    const through = await serve((socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nok'))
    expect(await get(through)).toBe('WR_ENGINE_DISCONNECTED')
  })

  it('that does not come is a timeout, and its connection is closed', async () => {
    const through = await serve(() => {})
    expect(await get(through, 30)).toBe('WR_ENGINE_TIMEOUT')
    expect(through.connectionCount).toBe(0)
  })
})

describe('a connection', () => {
  it('is kept and used again', async () => {
    const through = await serve((socket) => void socket.write(ok))
    for (let at = 0; at < 3; at++) expect(await get(through)).toBe('200 ok')
    expect(sockets.size).toBe(1)
  })

  it('that the engine closed while idle is replaced without anybody noticing', async () => {
    const through = await serve((socket, request) => {
      if (request === 1)
        socket.destroy() // the kept one dies with the second request on it
      else socket.write(ok)
    })
    expect(await get(through)).toBe('200 ok')
    expect(await get(through)).toBe('200 ok')
  })

  it('that is new and dies is not tried again', async () => {
    const through = await serve((socket) => void socket.destroy())
    expect(await get(through)).toBe('WR_ENGINE_DISCONNECTED')
  })

  it.each([
    ['says close', 'HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok'],
    ['sends more than it said', `${ok}HTTP/1.1 200 OK\r\n`],
  ])('is not kept when the engine %s', async (_says, answer) => {
    const through = await serve((socket) => void socket.write(answer))
    expect(await get(through)).toBe('200 ok')
    expect(through.connectionCount).toBe(0)
  })

  it('on which bytes arrive unasked is dropped', async () => {
    const through = await serve((socket) => {
      socket.write(ok)
      setTimeout(() => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil'), 20)
    })
    expect(await get(through)).toBe('200 ok')
    while (through.connectionCount > 0) await new Promise((resolve) => setImmediate(resolve))
  })

  it('that has been idle too long is not used', async () => {
    let now = 0
    const through = await serve((socket) => void socket.write(ok), { now: () => now, idleMs: 1_000 })
    await get(through)
    now = 1_001
    await get(through)
    while (sockets.size > 1) await new Promise((resolve) => setImmediate(resolve))
    expect(through.connectionCount).toBe(1)
  })

  it('that cannot be made is an error', async () => {
    const refused = new EngineLink({ url: 'http://127.0.0.1:1' })
    expect(await get(refused)).toBe('WR_ENGINE_UNREACHABLE')
    refused.close()
    expect(await get(refused)).toBe('WR_ENGINE_UNREACHABLE')
  })
})

describe('a request that may be sent once and not too late', () => {
  const once = (through: EngineLink, mayStillSend: () => boolean): Promise<string> =>
    fetchText(through, { method: 'GET', path: '/', headers: [], mayStillSend }, { timeoutMs: 2_000 }).then(
      ({ status, text }) => `${status} ${text}`,
      (error: WarmrouteError) => error.code,
    )

  it('is not sent when its moment is over, and the connection serves the next one', async () => {
    let served = 0
    const through = await serve((socket) => {
      served++
      socket.write(ok)
    })
    expect([await once(through, () => false), served]).toEqual(['WR_ENGINE_UNREACHABLE', 0])
    expect([await once(through, () => true), served, through.connectionCount]).toEqual(['200 ok', 1, 1])
  })

  it('is not sent again when a kept connection turns out to be dead', async () => {
    let served = 0
    const through = await serve((socket) => {
      if (served++ === 0) socket.write(ok)
      else socket.destroy()
    })
    expect(await get(through)).toBe('200 ok')
    expect([await once(through, () => true), served]).toEqual(['WR_ENGINE_DISCONNECTED', 2])
  })
})

describe('a small question', () => {
  const ask = (through: EngineLink, bytesMax: number): Promise<string> =>
    fetchText(through, { method: 'GET', path: '/', headers: [] }, { timeoutMs: 20_000, bytesMax }).then(
      ({ text }) => text,
      (error: WarmrouteError) => error.code,
    )

  it('takes an answer of as many bytes as it may have, and not one more', async () => {
    const through = await serve((socket) => void socket.write('HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nabcdef'))
    expect(await ask(through, 6)).toBe('abcdef')
    expect(await ask(through, 5)).toBe('WR_ENGINE_PROTOCOL')
  })

  it('hangs up on an answer without an end', async () => {
    let isGone = (): void => {}
    const gone = new Promise<void>((resolve) => (isGone = resolve))
    const through = await serve((socket) => {
      socket.once('close', () => isGone())
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n')
      const pour = (): void => {
        while (!socket.destroyed && socket.write('400\r\n' + 'x'.repeat(1024) + '\r\n'));
      }
      socket.on('drain', pour)
      pour()
    })
    expect(await ask(through, 4096)).toBe('WR_ENGINE_PROTOCOL')
    await gone
    expect(through.connectionCount).toBe(0)
  })
})

it('a connection forgets the request that opened it', async () => {
  let opened: Socket | undefined
  const through = await serve((socket) => void socket.write(ok), {
    connect: (address: NetConnectOpts) => (opened = connect(address)),
  })
  expect(await get(through)).toBe('200 ok')
  // Whoever opened it and waited for that would be held by one more listener each.
  expect([opened!.listenerCount('error'), opened!.listenerCount('connect')]).toEqual([1, 0])
  const ofNodeItself = new NodeSocket().listenerCount('close')
  expect(opened!.listenerCount('close')).toBe(ofNodeItself + 1)
})
