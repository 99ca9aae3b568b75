// What a client sees while its request waits for a worker, and what that costs when something fails afterwards.
import type { ServerResponse } from 'node:http'
import { afterEach, describe, expect, it } from 'vitest'
import { WarmrouteError } from '../core/protocol/index.js'
import type { RouterPort } from '../routing/index.js'
import { InProcessRouter } from '../routing/index.js'
import { answerChat, chatFrames } from './fake-engine.case.js'
import type { House } from './house.case.js'
import { chatBody, json, openHouse, post } from './house.case.js'
import { createPolicyRouter } from './policies/policy-router.js'

let house: House
afterEach(() => house.close())

const path = '/v1/chat/completions'
const answered = chatFrames('m').join('')
const eventStream = { 'content-type': 'text/event-stream' }
const streamBody = chatBody({ stream: true })

/** A router whose queue the test opens, or ends with an error. */
function parkingRouter(): { router: RouterPort; open: () => void; refuse: (error: Error) => void } {
  const router = createPolicyRouter({ policy: 'round-robin' })
  const route = router.route.bind(router)
  let open = (): void => {}
  let refuse = (_error: Error): void => {}
  const promise = new Promise<void>((resolve, reject) => {
    open = resolve
    refuse = reject
  })
  promise.catch(() => {}) // it may be refused before it has asked
  router.route = async (request) => {
    await promise
    return route(request)
  }
  return { router, open, refuse }
}

/** Settles when the first comment came: the head is sent and the request still waits. The rest comes without comments. */
async function opened(response: Response): Promise<() => Promise<string>> {
  const rest = await openedRaw(response)
  return async () => (await rest()).replaceAll(/(?<=^|\n\n)(?::.*\n)+\n/g, '')
}

async function openedRaw(response: Response): Promise<() => Promise<string>> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  const first = await reader.read()
  expect(first.value).toMatch(/^(?::\n\n)+$/)
  return async () => {
    let text = ''
    for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value
    return text
  }
}

async function waiting(engines = 2): Promise<ReturnType<typeof parkingRouter> & { rest: () => Promise<string> }> {
  const parking = parkingRouter()
  house = await openHouse({ engines, router: parking.router, gateway: { keepAliveMs: 20 } })
  const response = await post(house.url, path, streamBody)
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toMatch('text/event-stream')
  expect(response.headers.get('x-request-id')).toBeTruthy()
  expect(response.headers.get('x-warmroute-worker-id')).toBeNull()
  return { ...parking, rest: await opened(response) }
}

describe('a stream that waits in the queue', () => {
  it('is kept alive before a worker is chosen, and then answered whole', async () => {
    const { open, rest } = await waiting()
    open()
    expect(await rest()).toBe(answered)
  })

  it.each([
    [true, ': x-warmroute-worker-id: 1\n: x-warmroute-dp-rank: 0\n\n'],
    [false, ''],
  ])('says in a comment who answered, as a head would have (shows_worker: %s)', async (showsWorker, words) => {
    const parking = parkingRouter()
    house = await openHouse({ engines: 1, router: parking.router, gateway: { keepAliveMs: 20, showsWorker } })
    const rest = await openedRaw(await post(house.url, path, streamBody))
    parking.open()
    expect((await rest()).replace(/^(?::\n\n)*/, '')).toBe(words + answered)
  })

  it('leaves a whole answer alone, which can still have any status', async () => {
    const parking = parkingRouter()
    house = await openHouse({ router: parking.router, gateway: { keepAliveMs: 20 } })
    const whole = post(house.url, path, chatBody())
    const rest = await opened(await post(house.url, path, streamBody)) // so that one was due to the other as well
    parking.refuse(new WarmrouteError('WR_QUEUE_REJECTED', {}))
    expect((await whole).status).toBe(529)
    expect(await rest()).toMatch(/^data: .*WR_QUEUE_REJECTED.*\n\ndata: \[DONE\]\n\n$/s)
  })

  it('is refused with a status when that comes before the first comment was due', async () => {
    const parking = parkingRouter()
    house = await openHouse({ router: parking.router, gateway: { keepAliveMs: 60_000 } })
    const pending = post(house.url, path, streamBody)
    while (house.gateway.inFlight === 0) await new Promise((resolve) => setImmediate(resolve))
    parking.refuse(new WarmrouteError('WR_QUEUE_REJECTED', {}))
    const { status, statusText } = await pending
    expect([status, statusText]).toEqual([529, 'Overloaded'])
  })

  it.each([
    ['closes the connection', (response: ServerResponse) => response.destroy()],
    ['answers 503', (response: ServerResponse) => response.writeHead(503).end()],
  ])('still gets another worker when the first %s', async (_name, fail) => {
    const { open, rest } = await waiting()
    house.engines[0]!.respond = (_request, response) => void fail(response)
    open()
    expect(await rest()).toBe(answered)
    expect(house.engines.map((engine) => engine.seen.length)).toEqual([1, 1])
  })

  it('is told of a refusal in the stream, and the worker is not blamed for it', async () => {
    const { open, rest } = await waiting(1)
    house.engines[0]!.respond = (_request, response) => void response.writeHead(400).end('{}')
    open()
    expect(await rest()).toMatch(/status 400.*\n\ndata: \[DONE\]\n\n$/s)
    expect(house.gateway.workers()[0]!.is_quarantined).toBe(false)
  })

  it('is not bound to a silent worker by the comments that follow', async () => {
    const { open, rest } = await waiting(2)
    house.engines[0]!.respond = (_request, response) => void setTimeout(() => response.destroy(), 60)
    house.engines[1]!.respond = (request, response) => void setTimeout(() => answerChat(request, response), 60)
    open()
    expect(await rest()).toBe(answered)
  })
})

describe('a stream whose worker is silent', () => {
  it.each([400, 404, 422, 429, 500])(
    'is told of a status %i behind the head that it got meanwhile, and the worker is not blamed for it',
    async (status) => {
      house = await openHouse({ engines: 2, gateway: { keepAliveMs: 20 } })
      house.engines[0]!.respond = (_request, response) =>
        void setTimeout(() => response.writeHead(status).end('{}'), 80)
      const response = await post(house.url, path, streamBody)
      const rest = await opened(response)
      expect(await rest()).toMatch(new RegExp(`^data: .*status ${status}.*\\n\\ndata: \\[DONE\\]\\n\\n$`, 's'))
      expect(house.gateway.workers()[0]!.is_quarantined).toBe(false)
      expect(house.engines[1]!.seen).toHaveLength(0)
    },
  )

  const later = (response: ServerResponse, then: () => void): void =>
    void setTimeout(() => response.destroyed || then(), 80)
  it.each<[string, (response: ServerResponse) => void]>([
    ['hangs without a head', () => {}],
    ['sends its head and hangs', (response) => response.writeHead(200, eventStream).flushHeaders()],
    ['closes the connection', (response) => later(response, () => response.destroy())],
    ['answers 503', (response) => later(response, () => response.writeHead(503).end())],
  ])('gets another worker when that one %s, though comments went out', async (_name, fail) => {
    house = await openHouse({ gateway: { keepAliveMs: 20, deadlines: { noProgressMs: 1_000 } } }) // the other answers sooner
    house.engines[0]!.respond = (_request, response) => fail(response)
    const response = await post(house.url, path, streamBody)
    expect(response.headers.get('x-warmroute-worker-id')).toBeNull() // comments bind nobody
    const text = await (await openedRaw(response))()
    expect(text.replace(/^(?::\n\n)*/, '')).toBe(`: x-warmroute-worker-id: 2\n: x-warmroute-dp-rank: 0\n\n${answered}`)
    expect(house.engines.map((engine) => engine.seen.length)).toEqual([1, 1])
  })

  it('stays with a worker that has begun to answer', async () => {
    house = await openHouse({ gateway: { keepAliveMs: 60_000, deadlines: { noProgressMs: 150 } } })
    house.engines[0]!.respond = (_request, response) =>
      void response.writeHead(200, eventStream).write(chatFrames('m')[0]!)
    const response = await post(house.url, path, streamBody)
    expect(response.headers.get('x-warmroute-worker-id')).toBe('1')
    expect(await response.text()).toMatch(/WR_ENGINE_TIMEOUT.*\n\ndata: \[DONE\]\n\n$/s)
    expect(house.engines[1]!.seen).toHaveLength(0)
  })
})

describe('a whole answer that is edited', () => {
  const nvext = { extra_fields: ['worker_id'] }
  const long = Buffer.from(`{"id":"x","text":"${'y'.repeat(17 * 1024 * 1024)}"}`)

  it.each([
    ['unknown', {}],
    ['known', { 'content-length': String(long.length) }],
  ])('passes as it is beyond 16 MiB, its length %s', async (_name, headers) => {
    const respond = (_request: unknown, response: ServerResponse): void =>
      void response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(long)
    house = await openHouse({ engines: 1, respond })
    const got = Buffer.from(await (await post(house.url, path, chatBody({ nvext }))).arrayBuffer())
    expect(got.equals(long)).toBe(true)
    expect(await (await fetch(`${house.url}/metrics`)).text()).toMatch(
      /warmroute_answers_unedited_total\{model="m"\} 1\b/,
    )
  })

  it.each([
    ['a limit above it', 200, true],
    ['a smaller one', 20, false],
    ['none', 0, false],
  ])('is changed or not as the limit says: %s', async (_name, editedBytesMax, isEdited) => {
    const text = `{"id":"x","text":"${'y'.repeat(100)}"}`
    house = await openHouse({
      engines: 1,
      gateway: { limits: { editedBytesMax } },
      respond: (_request, response) =>
        void response
          .writeHead(200, { 'content-type': 'application/json', 'content-length': String(text.length) })
          .end(text),
    })
    expect('nvext' in (await json(await post(house.url, path, chatBody({ nvext }))))).toBe(isEdited)
  })

  it('is edited below that, in however many pieces it comes', async () => {
    const text = `{"id":"x","text":"${'y'.repeat(1024 * 1024)}"}`
    house = await openHouse({
      engines: 1,
      respond(_request, response) {
        response.writeHead(200, { 'content-type': 'application/json' })
        for (let at = 0; at < text.length; at += 100_000) response.write(text.slice(at, at + 100_000))
        response.end()
      },
    })
    const whole = await json(await post(house.url, path, chatBody({ nvext })))
    expect(whole['nvext']).toMatchObject({ worker_id: { decode_worker_id: 1 } })
  })
})

it('is not for the ends of whole answers: whoever is held goes when the prompts before it should be computed', async () => {
  const config = { policy: 'warm', routerLateBinding: true, useKvEvents: false } as const
  const router = await InProcessRouter.create({ blockSize: 16, config })
  const answers: (() => void)[] = []
  let isComplete = (): void => {}
  const complete = new Promise<void>((resolve) => (isComplete = resolve))
  house = await openHouse({
    engines: 1,
    router,
    respond: (request, response) => {
      answers.push(() => answerChat(request, response))
      if (answers.length === 4) isComplete()
    },
  })
  const prompts = Array.from({ length: 4 }, (_, at) => Array.from({ length: 6000 }, (_, id) => 7 * at + id)) // 130 ms each
  const asked = prompts.map((prompt) => post(house.url, '/v1/completions', JSON.stringify({ model: 'm', prompt })))
  await complete // though nobody has been answered
  for (const answer of answers) answer()
  for (const reply of await Promise.all(asked))
    expect([reply.status, await reply.text()]).toEqual([200, expect.any(String)])
})

it.each(['/tokenize', '/detokenize', '/v1/messages/count_tokens'])(
  'is not for what computes no prompt: %s goes at once, and is no load',
  async (route) => {
    const config = { policy: 'warm', routerLateBinding: true, useKvEvents: false } as const
    const router = await InProcessRouter.create({ blockSize: 16, config })
    const answers: (() => void)[] = []
    let isComplete = (): void => {}
    const complete = new Promise<void>((resolve) => (isComplete = resolve))
    let tokensBooked: readonly number[] = []
    house = await openHouse({
      engines: 1,
      router,
      respond: (request, response) => {
        if (request.path !== '/v1/completions')
          return void router.loads().then((loads) => {
            tokensBooked = loads.flatMap((it) => [it.activePrefillTokens, it.activeDecodeBlocks])
            response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
          })
        answers.push(() => answerChat(request, response))
        if (answers.length === 2) isComplete()
      },
    })
    const ids = (length: number): number[] => Array.from({ length }, (_, at) => length + at)
    const stream = (length: number): string => JSON.stringify({ model: 'm', stream: true, prompt: ids(length) })
    const asked = [6_400, 12_800].map((length) => post(house.url, '/v1/completions', stream(length)))
    await complete // both are prompts that nobody has marked
    const before = (await router.loads()).map(({ activeDecodeBlocks }) => activeDecodeBlocks)
    const body = JSON.stringify({ model: 'm', prompt: 'x'.repeat(40_000) })
    const reply = await post(house.url, route, body)
    expect([reply.status, await reply.text()]).toEqual([200, '{}'])
    expect(tokensBooked[0]).toBeLessThanOrEqual(12_800 + 6_400)
    expect(tokensBooked[1]).toBeLessThanOrEqual(before[0]! + 1)
    for (const answer of answers) answer()
    for (const reply of await Promise.all(asked)) await reply.text()
  },
)
