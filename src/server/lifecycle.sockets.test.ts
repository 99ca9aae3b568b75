import { once } from 'node:events'
import type { AddressInfo, Socket } from 'node:net'
import { connect, createServer } from 'node:net'
import { describe, expect, it } from 'vitest'
import { InProcessRouter } from '../routing/index.js'
import { createMetrics } from '../telemetry/index.js'
import type { Responder } from './fake-engine.case.js'
import { answerChat, chatFrames, startFakeEngine, startThen } from './fake-engine.case.js'
import { chatBody, houseOfEachTest, post } from './house.case.js'
import { createPolicyRouter } from './policies/policy-router.js'
import { longBytes } from './scan-fields.js'

const open = houseOfEachTest()

const frames = chatFrames('m')

async function readSome(response: Response): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  const reader = response.body!.getReader() as ReadableStreamDefaultReader<Uint8Array>
  await reader.read()
  return reader
}

/** Polls a fact that another process of events will make true; the test's own timeout is the limit. */
async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setImmediate(resolve))
}

describe('a client that leaves', () => {
  it('stops the engine in the middle of a stream and frees what was booked', async () => {
    const { url, engines, loads } = await open({ engines: 1, respond: startThen(() => {}) })
    const abort = new AbortController()
    const aborted = engines[0]!.nextAbort()
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: chatBody({ stream: true }),
      signal: abort.signal,
    })
    await readSome(response)
    expect((await loads())[0]!.activeRequests).toBe(1)
    abort.abort()
    await aborted
    await until(async () => (await loads())[0]!.activeRequests === 0)
  })

  it('stops the engine before its first byte, is counted, and nobody else is asked', async () => {
    const metrics = createMetrics()
    const { url, engines } = await open({ engines: 2, respond: () => {}, gateway: { metrics } })
    const abort = new AbortController()
    const aborted = Promise.race(engines.map((engine) => engine.nextAbort()))
    const sent = (): number => engines.reduce((sum, { seen }) => sum + seen.length, 0)
    const pending = fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: chatBody(),
      signal: abort.signal,
    })
    await until(() => sent() === 1)
    abort.abort()
    await expect(pending).rejects.toThrow()
    await aborted
    await until(() => metrics.disconnectedClients.with({}).value === 1)
    const labels = { model: 'm', endpoint: 'chat_completions', request_type: 'unary' }
    expect(metrics.modelCancellation.with(labels).value).toBe(1)
    expect([sent(), metrics.requestsRetried.with({ model: 'm' }).value]).toEqual([1, 0])
    expect(metrics.requests.with({ ...labels, status: 'error', error_type: 'cancelled' }).value).toBe(1)
  })

  it.each(['end', 'close'] as const)(
    'takes the engine with it in the very turn in which it is heard of: %s',
    async (event) => {
      const toEngine: Socket[] = []
      const dial = ({ port, host }: { port: number; host: string }): Socket => {
        const socket = connect(port, host)
        toEngine.push(socket)
        return socket
      }
      const { gateway } = await open({ engines: 1, respond: startThen(() => {}), gateway: { connect: dial } })
      const door = createServer().listen(0, '127.0.0.1')
      const accepted = new Promise<Socket>((resolve) => door.once('connection', resolve))
      await once(door, 'listening')
      const client = connect((door.address() as AddressInfo).port, '127.0.0.1')
      const socket = await accepted
      gateway.accept(socket)
      const body = chatBody({ stream: true })
      client.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
      await once(client, 'data')
      expect(toEngine.map(({ destroyed }) => destroyed)).toEqual([false])
      socket.emit(event)
      expect(toEngine.map(({ destroyed }) => destroyed)).toEqual([true]) // nothing was awaited
      client.destroy()
      socket.destroy()
      door.close()
    },
  )

  it('may leave in the middle of its own body', async () => {
    const { url, gateway, engines } = await open({ engines: 1 })
    const { port } = new URL(url)
    const socket = connect(Number(port), '127.0.0.1')
    socket.write('POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"model"')
    await until(() => gateway.inFlight === 1)
    socket.destroy()
    await until(() => gateway.inFlight === 0)
    expect(engines[0]!.seen).toHaveLength(0)
  })
})

describe('a worker that fails before its first byte', () => {
  it('is replaced once, by another one', async () => {
    const { url, engines } = await open()
    engines[0]!.respond = (_request, response) => void response.destroy()
    const response = await post(url, '/v1/chat/completions', chatBody())
    expect(response.status).toBe(200)
    expect(response.headers.get('x-warmroute-worker-id')).toBe('2')
    await response.text()
    expect(engines.map((engine) => engine.seen.length)).toEqual([1, 1])
  })

  it('is replaced although its head had arrived', async () => {
    const { url, engines } = await open()
    engines[0]!.respond = (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.flushHeaders()
      setImmediate(() => response.destroy())
    }
    const response = await post(url, '/v1/chat/completions', chatBody({ stream: true }))
    expect(await response.text()).toBe(frames.join(''))
    expect(response.headers.get('x-warmroute-worker-id')).toBe('2')
  })

  it('is replaced when it says 503', async () => {
    const { url, engines } = await open()
    engines[0]!.respond = (_request, response) =>
      void response.writeHead(503).end('{"error":"The request queue is full."}')
    const response = await post(url, '/v1/chat/completions', chatBody())
    expect(response.status).toBe(200)
    await response.text()
  })

  it.each([502, 508])('is replaced when it says %i', async (status) => {
    const { url, engines } = await open()
    engines[0]!.respond = (_request, response) => void response.writeHead(status).end()
    const response = await post(url, '/v1/chat/completions', chatBody())
    expect([response.status, response.headers.get('x-warmroute-worker-id')]).toEqual([200, '2'])
    await response.text()
  })

  it.each(['random', 'kv'] as const)(
    'is left out of the second choice though it is not in quarantine, and the router would take it again: %s',
    async (kind) => {
      const router =
        kind === 'kv'
          ? await InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
          : createPolicyRouter({ policy: 'random', random: () => 0 })
      const { url, engines, gateway } = await open({ router, engines: 3 })
      const body = chatBody({
        messages: [{ role: 'user', content: 'the same words as before, every time. '.repeat(40) }],
      })
      const ask = async (): Promise<{ status: number; worker: number }> => {
        const response = await post(url, '/v1/chat/completions', body)
        await response.text()
        return { status: response.status, worker: Number(response.headers.get('x-warmroute-worker-id')) }
      }
      const { worker: favourite } = await ask()
      expect((await ask()).worker).toBe(favourite) // it would go there again
      engines[favourite - 1]!.respond = (_request, response) => void response.writeHead(503).end()
      const moved = await ask()
      expect(moved.status).toBe(200)
      expect(moved.worker).not.toBe(favourite)
      expect(engines.map((engine) => engine.seen.length).sort((a, b) => b - a)).toEqual([3, 1, 0])
      expect(gateway.workers().some((it) => it.is_quarantined)).toBe(false)
    },
  )

  it('is replaced at most once: the second failure is the answer', async () => {
    const { url, engines } = await open({ engines: 3, respond: (_request, response) => void response.destroy() })
    const response = await post(url, '/v1/chat/completions', chatBody())
    expect(response.status).toBe(502)
    const { error } = (await response.json()) as { error: { code: string } }
    expect(error.code).toBe('WR_ENGINE_DISCONNECTED')
    expect(engines.reduce((sum, engine) => sum + engine.seen.length, 0)).toBe(2)
  })

  it('is not replaced when the client named it', async () => {
    const { url, engines } = await open()
    engines[0]!.respond = (_request, response) => void response.destroy()
    const response = await post(url, '/v1/chat/completions', chatBody(), { 'x-dynamo-worker-instance-id': '1' })
    expect(response.status).toBe(502)
    await response.text()
    expect(engines[1]!.seen).toHaveLength(0)
  })

  it("passes on the last worker's own refusal", async () => {
    const refuse: Responder = (_request, response) =>
      void response.writeHead(503, { 'content-type': 'application/json' }).end('{"error":{"message":"full"}}')
    const { url } = await open({ respond: refuse })
    const response = await post(url, '/v1/chat/completions', chatBody())
    expect(response.status).toBe(503)
    expect(await response.text()).toBe('{"error":{"message":"full"}}')
  })

  it('is not asked again when it refuses the request itself', async () => {
    const refuse: Responder = (_request, response) =>
      void response.writeHead(400, { 'content-type': 'application/json' }).end('{"error":{"message":"too long"}}')
    const { url, engines } = await open({ respond: refuse })
    const response = await post(url, '/v1/chat/completions', chatBody())
    expect(response.status).toBe(400)
    expect(await response.text()).toBe('{"error":{"message":"too long"}}')
    expect(engines.reduce((sum, engine) => sum + engine.seen.length, 0)).toBe(1)
  })
})

describe('a worker that fails in the middle', () => {
  it('ends the stream with an error frame', async () => {
    const { url, engines } = await open({ respond: startThen((response) => response.destroy()) })
    const response = await post(url, '/v1/chat/completions', chatBody({ stream: true }))
    expect(response.status).toBe(200)
    const text = await response.text()
    const began = frames.slice(0, 2).join('')
    expect(text.startsWith(began)).toBe(true)
    expect(text.slice(began.length)).toMatch(
      /^data: \{"error":\{[^\n]*"code":"WR_ENGINE_DISCONNECTED"[^\n]*\n\ndata: \[DONE\]\n\n$/,
    )
    expect(engines.reduce((sum, engine) => sum + engine.seen.length, 0)).toBe(1)
  })

  it("ends an Anthropic stream with Anthropic's error event", async () => {
    const { url } = await open({ respond: startThen((response) => response.destroy()) })
    const text = await (await post(url, '/v1/messages', chatBody({ stream: true }))).text()
    expect(text).toContain('event: error\ndata: {"type":"error","error":{"type":"api_error"')
  })

  it("speaks upstream's language when strict", async () => {
    const { url } = await open({ respond: startThen((response) => response.destroy()), gateway: { strict: 'dynamo' } })
    const text = await (await post(url, '/v1/chat/completions', chatBody({ stream: true }))).text()
    expect(text).toContain(
      'data: {"error":{"message":"Internal server error","type":"internal_server_error","code":500}}\n\ndata: [DONE]\n\n',
    )
  })

  it('cuts a whole answer short, so that the client cannot take it for whole', async () => {
    const respond: Responder = (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': 600_000 })
      response.write('x'.repeat(300_000))
      setTimeout(() => response.destroy(), 5)
    }
    const { url } = await open({ respond })
    const response = await post(url, '/v1/chat/completions', chatBody())
    await expect(response.text()).rejects.toThrow()
  })
})

describe('time', () => {
  it('gives up a stream in which nothing moves', async () => {
    const { url, engines } = await open({
      engines: 1,
      respond: startThen(() => {}),
      gateway: { deadlines: { noProgressMs: 60 } },
    })
    const text = await (await post(url, '/v1/chat/completions', chatBody({ stream: true }))).text()
    expect(text).toContain('no progress within 60 ms')
    await until(() => engines[0]!.sockets() === 0)
    expect(engines[0]!.aborted()).toBe(engines[0]!.seen.length) // on a busy machine it may be given up before it was seen
  })

  it('does not give up while the worker shows signs of life', async () => {
    const { url, gateway } = await open({
      engines: 1,
      respond: (_request, response) => void setTimeout(() => answerChat({ text: '{}' } as never, response), 1200),
      gateway: { deadlines: { noProgressMs: 500 } }, // a busy machine may hold up the pulse
    })
    const pulse = setInterval(() => gateway.noteProgress(1n), 10)
    const response = await post(url, '/v1/chat/completions', chatBody())
    clearInterval(pulse)
    expect(response.status).toBe(200)
    await response.text()
  })

  it('replaces a worker that hangs before its first byte', async () => {
    const { url, engines } = await open({ gateway: { deadlines: { noProgressMs: 60 } } })
    engines[0]!.respond = () => {}
    const response = await post(url, '/v1/chat/completions', chatBody())
    expect(response.headers.get('x-warmroute-worker-id')).toBe('2')
    await response.text()
  })

  it('ends a request that takes too long in all', async () => {
    const respond: Responder = (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const pulse = setInterval(() => response.write(frames[1]), 5)
      response.on('close', () => clearInterval(pulse))
    }
    const { url } = await open({ engines: 1, respond, gateway: { deadlines: { totalMs: 80 } } })
    const text = await (await post(url, '/v1/chat/completions', chatBody({ stream: true }))).text()
    expect(text).toContain('not finished within 80 ms')
  })

  // Found by the soak: each of two workers had the whole deadline to itself. By a clock of the test's, which no machine is too slow for.
  it('gives a second worker no more time than is left', async () => {
    let now = 1_000
    const { url, engines, gateway } = await open({
      respond: () => {},
      gateway: { deadlines: { totalMs: 3_000, noProgressMs: 800 }, now: () => now },
    })
    const asked = post(url, '/v1/chat/completions', chatBody())
    await until(() => engines[0]!.seen.length === 1)
    for (now = 1_850; engines[1]!.seen.length === 0; now = Math.min(now + 50, 3_950))
      await new Promise((resolve) => setTimeout(resolve, 100))
    const pulse = setInterval(() => gateway.noteProgress(2n), 10) // the second worker lives, and never answers
    now = 4_001 // its own time would be over at 4,850 at the earliest
    const ownTime = setTimeout(() => (now = 9_000), 20_000) // which it is given when nothing happens, so that it ends
    const response = await asked
    clearInterval(pulse)
    clearTimeout(ownTime)
    expect(now).toBe(4_001)
    expect(response.status).toBe(504)
    expect(((await response.json()) as { error: { code: string } }).error.code).toBe('WR_REQUEST_TIMEOUT')
    expect(engines.map((engine) => engine.seen.length)).toEqual([1, 1])
  })

  it('keeps a silent stream alive with comments, also before the engine sends its head', async () => {
    const respond: Responder = (request, response) => void setTimeout(() => answerChat(request, response), 120)
    const { url } = await open({ engines: 1, respond, gateway: { keepAliveMs: 20 } })
    const response = await post(url, '/v1/chat/completions', chatBody({ stream: true }))
    expect(response.headers.get('content-type')).toMatch('text/event-stream')
    const text = await response.text()
    expect(text.startsWith(':\n\n')).toBe(true)
    expect(text.replaceAll(/(?<=^|\n\n)(?::.*\n)+\n/g, '')).toBe(frames.join(''))
  })

  it('keeps a stream alive in the middle', async () => {
    const respond = startThen((response) => {
      setTimeout(() => response.end(frames.slice(2).join('')), 120)
    })
    const { url } = await open({ engines: 1, respond, gateway: { keepAliveMs: 20 } })
    const text = await (await post(url, '/v1/chat/completions', chatBody({ stream: true }))).text()
    expect(text.slice(text.indexOf(frames[1]!))).toContain('\n\n:\n\n')
    // On a busy machine the first frames may take so long that comments stand before them, too.
    expect(text.replaceAll(/(?:^:.*\n)+\n/gm, '')).toBe(frames.join(''))
  })

  it('refuses a body that does not arrive', async () => {
    const { url } = await open({ gateway: { deadlines: { bodyMs: 40 } } })
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.write('POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{')
    const text = await new Promise<string>((resolve) => {
      let all = ''
      socket.on('data', (part) => (all += part.toString()))
      socket.on('close', () => resolve(all))
    })
    expect(text).toContain('HTTP/1.1 408 Request Timeout')
    expect(text).toContain('WR_BODY_TIMEOUT')
  })
})

describe('a worker and its states', () => {
  it('is left out after a fault and comes back when it answers', async () => {
    const { url, engines, gateway } = await open()
    engines[0]!.respond = (_request, response) => void response.destroy()
    engines[0]!.health = 503
    await (await post(url, '/v1/chat/completions', chatBody())).text()
    expect(gateway.workers()[0]!.is_quarantined).toBe(true)
    await (await post(url, '/v1/chat/completions', chatBody())).text()
    expect(engines[0]!.seen).toHaveLength(1)
    engines[0]!.respond = answerChat
    engines[0]!.health = 200
    await until(() => !gateway.workers()[0]!.is_quarantined)
    for (let at = 0; at < 2; at++) await (await post(url, '/v1/chat/completions', chatBody())).text()
    expect(engines[0]!.seen).toHaveLength(2)
  })

  it('that is killed and started again on its port serves again', async () => {
    const { url, engines, gateway } = await open()
    await engines[0]!.close()
    for (let at = 0; at < 3; at++) {
      const response = await post(url, '/v1/chat/completions', chatBody())
      expect(response.status).toBe(200)
      await response.text()
    }
    expect(gateway.workers()[0]!.is_quarantined).toBe(true)
    gateway.removeWorker(1n)
    const again = await startFakeEngine()
    gateway.setWorker('m', { id: 1n, url: again.url, engine: 'vllm' })
    for (let at = 0; at < 2; at++) await (await post(url, '/v1/chat/completions', chatBody())).text()
    expect(again.seen).toHaveLength(1)
    await again.close()
  })

  it('drains: the running stream ends, nothing new comes, then it is gone', async () => {
    let finish = (): void => {}
    const { url, engines, gateway } = await open({
      respond: startThen((response) => {
        finish = () => response.end(frames.slice(2).join(''))
      }),
    })
    const response = await post(url, '/v1/chat/completions', chatBody({ stream: true }))
    const drained = gateway.drainWorker(1n)
    expect(gateway.workers()[0]!.state).toBe('draining')
    engines[1]!.respond = answerChat
    for (let at = 0; at < 3; at++) await (await post(url, '/v1/chat/completions', chatBody())).text()
    expect(engines[0]!.seen).toHaveLength(1)
    finish()
    expect(await response.text()).toBe(frames.join(''))
    await drained
    expect(gateway.workers().map((worker) => worker.id)).toEqual(['2'])
  })

  it('drains: who was placed on it and waits for a turn of the loop is still served', async () => {
    const router = createPolicyRouter({ policy: 'round-robin' })
    const { url, gateway } = await open({ engines: 1, router })
    const route = router.route.bind(router)
    let drained: Promise<void> | undefined
    router.route = async (request) => {
      setImmediate(() => void (drained ??= gateway.drainWorker(1n))) // before the turn in which so long a body is sent
      return route(request)
    }
    const response = await post(url, '/v1/chat/completions', chatBody({ user: 'x'.repeat(longBytes) }))
    expect(response.status).toBe(200)
    await response.text()
    await drained
    expect(gateway.workers()).toEqual([])
  })

  it('that leaves at once fails its requests, and they are replaced or told', async () => {
    const { url, engines, gateway } = await open({ engines: 1, respond: startThen(() => {}) })
    const response = await post(url, '/v1/chat/completions', chatBody({ stream: true }))
    gateway.removeWorker(1n)
    expect(await response.text()).toContain('WR_ENGINE_DISCONNECTED')
    await until(() => engines[0]!.aborted() === 1)
    const next = await post(url, '/v1/chat/completions', chatBody())
    expect(next.status).toBe(503)
    expect(next.headers.get('retry-after')).toBe('1')
    expect(((await next.json()) as { error: { code: string } }).error.code).toBe('WR_MODEL_NOT_READY')
  })
})

it('holds the engine back when the client does not read, and loses nothing', async () => {
  const chunk = `data: {"choices":[{"text":"${'x'.repeat(16_000)}"}]}\n\n`
  const count = 2_000
  let sent = 0
  const respond: Responder = (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const more = (): void => {
      while (sent < count) {
        sent++
        if (!response.write(chunk)) {
          response.once('drain', more)
          return
        }
      }
      response.end()
    }
    more()
  }
  const { url } = await open({ engines: 1, respond })
  const response = await post(url, '/v1/completions', JSON.stringify({ model: 'm', prompt: 'x', stream: true }))
  const reader = response.body!.getReader()
  await reader.read()
  // Until the engine stands still, however long a busy machine takes to fill what is on the way.
  for (let before = -1, quiet = 0; quiet < 12 && sent < count; before = sent) {
    await new Promise((resolve) => setTimeout(resolve, 25))
    quiet = sent === before ? quiet + 1 : 0
  }
  expect(sent).toBeLessThan(count) // 32 MB would not fit into any buffer on the way
  let size = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    size += value.length
  }
  expect(size).toBeGreaterThan((count - 10) * chunk.length)
})
