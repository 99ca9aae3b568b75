import { getEventListeners } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { Publisher, Router } from 'zeromq'
import { NaiveSink } from '../../test/naive-sink.js'
import { createBlockHasher } from '../core/hashing/index.js'
import type { Feed } from '../events/index.js'
import { Intake } from '../events/index.js'
import { probeSocketType } from './greeting.js'
import { HttpProbe } from './probe.js'
import { TrtllmPollReader } from './trtllm/poll-reader.js'
import { pollTrtllm } from './trtllm/poller.js'
import { KvEventDecoder } from './wire/kv-event-decoder.js'

const closers: (() => void)[] = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

async function serve(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closers.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

describe('asking over HTTP', () => {
  it.each([401, 403])('shows the key only to a server that asked for it, by %d', async (status) => {
    const seen: (string | undefined)[] = []
    const baseUrl = await serve(({ headers }, response) => {
      seen.push(headers.authorization)
      response.writeHead(headers.authorization === 'Bearer k' ? 200 : status).end('hello')
    })
    const probe = new HttpProbe({ baseUrl, apiKey: 'k' })
    expect(await probe.get('/v1/models')).toEqual({ status: 200, text: 'hello' })
    await probe.get('/again')
    expect(seen).toEqual([undefined, 'Bearer k', 'Bearer k'])
    seen.length = 0
    expect(await new HttpProbe({ baseUrl, apiKey: 'wrong' }).get('/')).toMatchObject({ status })
    expect(await new HttpProbe({ baseUrl }).get('/')).toMatchObject({ status })
    expect(seen).toEqual([undefined, 'Bearer wrong', undefined])
  })

  it('shows the key with each of several questions that were refused at once', async () => {
    const baseUrl = await serve(({ headers }, response) => {
      response.writeHead(headers.authorization === 'Bearer k' ? 200 : 403).end('hello')
    })
    const probe = new HttpProbe({ baseUrl, apiKey: 'k' })
    const replies = await Promise.all(['/version', '/metrics', '/server_info'].map((path) => probe.get(path)))
    expect(replies.map((reply) => reply?.status)).toEqual([200, 200, 200])
  })

  it('asks behind the path that the address has, as a proxy wants it', async () => {
    const baseUrl = await serve(({ url }, response) => response.end(url))
    for (const path of ['', '/'])
      expect(await new HttpProbe({ baseUrl: baseUrl + path }).get('/v1/models')).toMatchObject({ text: '/v1/models' })
    expect(await new HttpProbe({ baseUrl: `${baseUrl}/one` }).get('/v1/models')).toMatchObject({
      text: '/one/v1/models',
    })
  })

  it('has no answer from a server that is silent, too talkative or not there', async () => {
    const silent = await serve(() => undefined)
    expect(await new HttpProbe({ baseUrl: silent, timeoutMs: 30 }).get('/')).toBeUndefined()
    const talkative = await serve((_, response) => response.end('x'.repeat(1000)))
    expect(await new HttpProbe({ baseUrl: talkative, replyBytesMax: 10 }).get('/')).toBeUndefined()
    expect(await new HttpProbe({ baseUrl: 'http://127.0.0.1:1' }).get('/')).toBeUndefined()
  })

  it('says to people why there is no answer', async () => {
    const silent = await serve(() => undefined)
    const plain = (await serve((_, response) => response.end())).replace('http:', 'https:')
    const troubleOf = async (baseUrl: string): Promise<string | undefined> => {
      const probe = new HttpProbe({ baseUrl, timeoutMs: baseUrl === silent ? 30 : 5_000 })
      await probe.get('/')
      return probe.trouble
    }
    expect(await troubleOf(silent)).toBe('it does not answer in time')
    expect(await troubleOf('http://127.0.0.1:1')).toBe('nothing listens there (ECONNREFUSED)')
    expect(await troubleOf(plain)).toMatch(/^it speaks no TLS \(ERR_SSL/)
  })
})

describe('asking a ZeroMQ socket what it is', () => {
  it('tells an event stream from a replay socket, before anything was sent', async () => {
    const [pub, router] = [new Publisher({ linger: 0 }), new Router({ linger: 0 })]
    closers.push(
      () => pub.close(),
      () => router.close(),
    )
    await pub.bind('tcp://127.0.0.1:*')
    await router.bind('tcp://127.0.0.1:*')
    expect(await probeSocketType(pub.lastEndpoint!, 'SUB')).toBe('PUB')
    expect(await probeSocketType(router.lastEndpoint!, 'DEALER')).toBe('ROUTER')
  })

  it('knows nothing of an HTTP server, a closed port or another transport', async () => {
    const http = await serve((_, response) => response.end())
    expect(await probeSocketType(http.replace('http', 'tcp'), 'SUB', 200)).toBeUndefined()
    expect(await probeSocketType('tcp://127.0.0.1:1', 'SUB')).toBeUndefined()
    expect(await probeSocketType('ipc:///nowhere', 'SUB')).toBeUndefined()
  })
})

it('polls a TensorRT-LLM server into its feed until told to stop, and forgets when a poll failed', async () => {
  const replies: (string | undefined)[] = [
    '[]',
    '[{"event_id":1,"window_size":8,"data":{"type":"stored","parent_hash":null,"blocks":[{"block_hash":9,"tokens":[{"token_id":1},{"token_id":2}],"cache_level":0}]}}]',
  ]
  const failed = undefined
  const baseUrl = await serve((_, response) => {
    const reply = replies.length > 0 ? replies.shift() : '[]'
    if (reply === failed) response.destroy()
    else response.end(reply)
  })
  const sink = new NaiveSink()
  const intake = new Intake({
    decoder: new KvEventDecoder(),
    sink,
    hasher: createBlockHasher(),
    blockSize: 2,
    seed: 1,
    requestReplay: () => undefined,
  })
  const decoder = new TrtllmPollReader({ blockSize: 2, dpRank: 0 })
  const feed = intake.addFeed({ rank: 0, dpRank: 0, hasReplay: false, decoder })
  const stop = new AbortController()
  const polling = pollTrtllm({ baseUrl, feed, signal: stop.signal, intervalMs: 1 })
  while (feed.machine.counters.applied === 0) await nextTurn()
  intake.flush()
  expect([...sink.held(0)]).toEqual([9n])
  replies.push(failed) // and with it whatever was in the queue
  while (feed.machine.counters.purges === 0) await nextTurn()
  expect(sink.held(0).size).toBe(0)
  stop.abort()
  await polling
})

it('polls for as long as it is told to, and leaves nothing of a poll behind', async () => {
  let polls = 0
  const baseUrl = await serve((_, response) => {
    polls++
    response.end('[]')
  })
  const feed = { machine: { connected() {}, disconnected() {}, tick() {} } } as unknown as Feed
  const stop = new AbortController()
  const polling = pollTrtllm({ baseUrl, feed, signal: stop.signal, intervalMs: 1 })
  while (polls < 50) await nextTurn()
  expect(notedAt(stop.signal)).toBeLessThan(10)
  stop.abort()
  await polling
})

/** Listeners of a signal, and signals that were made of it. */
function notedAt(signal: AbortSignal): number {
  const kept = signal as unknown as Record<symbol, { readonly size?: unknown } | undefined>
  const sizes = Object.getOwnPropertySymbols(signal).map((key) => kept[key]?.size)
  const made = sizes.filter((size) => typeof size === 'number').reduce((sum, size) => sum + size, 0)
  return getEventListeners(signal, 'abort').length + made
}

it('a look that is called off is a question without an answer, not a failure', async () => {
  const stop = new AbortController()
  const baseUrl = await serve(() => stop.abort())
  const probe = new HttpProbe({ baseUrl, signal: stop.signal })
  expect(await probe.get('/health')).toBeUndefined()
  expect(probe.unanswered).toBe(1)
})
