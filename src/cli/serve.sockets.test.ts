import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, vi } from 'vitest'
import { parseFaults, readTrace } from '../sim/index.js'
import type { AddressReport } from './assemble/assembly-options.js'
import { serve } from './serve.js'
import { client, conversation, isExact, say, serveOfEachTest, settled } from './serve-house.case.js'

const { engine, start } = serveOfEachTest()

describe('serve in front of a vLLM and an SGLang server', () => {
  it('becomes exact, keeps a conversation where it is warm, and predicts what the engine reports', async () => {
    const lines: string[] = []
    const [first, second] = [await engine(), await engine({ engine: 'sglang' })]
    const served = await start([first.url, second.url], lines)
    expect(await served.assembly.until(isExact, 10_000)).toBe(true)
    expect(lines.join('\n')).toMatch(/1 +http:\S+ +vllm \S+ +sim +\S+ \+ replay +engine, whole +exact/)
    expect(lines[0]).toContain('this machine only')

    const ai = client(served)
    const bothServed = () => first.stats().requests > 0 && second.stats().requests > 0
    // Ties between idle engines are drawn, so that a few conversations may all begin on one of them.
    for (let at = 0; at < 4 || (at < 30 && !bothServed()); at++) {
      const topic = `number ${at}`
      const messages = conversation(topic)
      const opening = await say(ai, messages, `Tell me about ${topic}.`)
      for (const question of ['Why?', 'Since when?']) {
        await settled(served, [first, second])
        const turn = await say(ai, messages, question)
        expect(turn.worker).toBe(opening.worker)
        expect(turn.reported).toBeGreaterThan(200)
        expect(turn.predicted).toBe(turn.reported)
      }
    }
    expect(bothServed()).toBe(true)
  })
})

describe('addresses that are more than a host and a port', () => {
  it('may end in /v1, as clients have them, and may lead through a path of a proxy', async () => {
    const { url } = await engine()
    const pass = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      const parts: Buffer[] = []
      for await (const part of request as AsyncIterable<Buffer>) parts.push(part)
      const { method, headers } = request
      const body = method === 'POST' ? { method, body: Buffer.concat(parts) } : {}
      const type = { 'content-type': headers['content-type'] ?? 'text/plain' }
      const reply = await fetch(url + request.url!.slice(4), { headers: type, ...body })
      response.writeHead(reply.status, { 'content-type': reply.headers.get('content-type')! })
      response.end(Buffer.from(await reply.arrayBuffer()))
    }
    const proxy = createServer((request, response) => {
      if (request.url!.startsWith('/one/')) void pass(request, response)
      else response.writeHead(404).end()
    })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    try {
      const behind = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/one`
      for (const address of [`${url}/v1`, behind, `${behind}/v1/`]) {
        const served = await start([address])
        expect(await served.assembly.until(isExact, 10_000), address).toBe(true)
        expect((await say(client(served), conversation('paths'), 'Which one?')).worker).toBe('1')
        await served.close()
      }
    } finally {
      proxy.closeAllConnections()
      proxy.close()
    }
  })
})

it('follows an engine that is reached by IPv6, events and replay too', async () => {
  const host = await ownAddress('::1')
  const one = await engine({ host })
  const served = await start([one.url])
  expect(await served.assembly.until(isExact, 10_000)).toBe(true)
  const messages = conversation('addresses')
  await say(client(served), messages, 'Which one?')
  await settled(served, [one])
  expect((await say(client(served), messages, 'Why?')).predicted).toBeGreaterThan(200)
})

/** A machine without IPv6 shows the same with the address it has. */
async function ownAddress(address: string): Promise<string> {
  const server = createServer()
  const isOurs = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false)).listen(0, address, () => resolve(true))
  })
  server.close()
  return isOurs ? address : '127.0.0.1'
}

describe('workers that come and go', () => {
  it.each([
    { flags: [], expected: [503, '1'] },
    { flags: ['--strict', 'dynamo'], expected: [404, null] }, // as upstream
  ])('no model is called unknown before anybody said what it serves: $flags', async ({ flags, expected }) => {
    const late = await engine()
    await late.close()
    const served = await start([late.url, ...flags], [])
    const ask = async (): Promise<[number, string | null]> => {
      const body = '{"model":"sim","messages":[{"role":"user","content":"a"}]}'
      const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body }
      const { status, headers } = await fetch(`${served.address.url}/v1/chat/completions`, init)
      return [status, headers.get('retry-after')]
    }
    expect(await ask()).toEqual(expected)
    await fetch(`${served.address.url}/workers/1`, { method: 'DELETE' })
    expect(await ask()).toEqual([404, null])
  })

  it('lets one that is down at start join later, one that dies leave, and one that comes back join again', async () => {
    const lines: string[] = []
    const first = await engine()
    const late = await engine()
    const { port, eventPorts, replayPorts } = late
    await late.close()
    const served = await start([first.url, late.url], lines)
    expect(lines.join('\n')).toContain('worker 2 does not answer yet')
    const states = (reports: readonly AddressReport[]) => reports.map((it) => it.verdict?.mode ?? it.state).join(' ')
    expect(states(served.assembly.reports())).toBe('exact waiting')

    const second = await engine({ port, events: { port: eventPorts[0]!, replayPort: replayPorts[0]! } })
    expect(await served.assembly.until(isExact, 10_000)).toBe(true)

    await first.close()
    expect(await served.assembly.until((it) => states(it) === 'waiting exact', 10_000)).toBe(true)
    const ai = client(served)
    const messages = conversation('wind')
    expect((await say(ai, messages, 'Where from?')).worker).toBe('2')
    // The first was asked for tokens; the second is asked now, and its events are still understood.
    const isCaughtUp = (it: readonly AddressReport[]): boolean =>
      second.stats().in_flight === 0 && it[1]!.batches === second.stats().ranks[0]!.batches_numbered
    expect(await served.assembly.until(isCaughtUp, 20_000)).toBe(true)
    const turn = await say(ai, messages, 'Where to?')
    expect(turn.predicted).toBe(turn.reported)
    expect(turn.reported).toBeGreaterThan(200)

    const [events, replayPort] = [first.eventPorts[0]!, first.replayPorts[0]!]
    await engine({ port: first.port, events: { port: events, replayPort } })
    expect(await served.assembly.until(isExact, 10_000)).toBe(true)
    expect(served.assembly.gateway.workers().map((it) => it.state)).toEqual(['ready', 'ready'])
  })

  it('says of those who were down at the start what it says of the others, once they are there', async () => {
    const lines: string[] = []
    const [first, second] = [await engine(), await engine()]
    const { port } = first
    const other = { port: second.port, events: { port: second.eventPorts[0]!, replayPort: second.replayPorts[0]! } }
    await first.close()
    await second.close()
    const served = await start([first.url, second.url], lines, { events: 1, replay: [1] })
    expect(lines.join('\n')).toMatch(/1 +http:\S+ +- .*waiting\n +2 +http:\S+ +- .*waiting\n/)
    const before = lines.length
    await engine({ port, events: false })
    await engine(other)
    const isShown = (): boolean => /^ +2 +http.*exact$/m.test(lines.slice(before).join('\n'))
    expect(await served.assembly.until(isShown, 10_000), lines.slice(before).join('\n')).toBe(true)
    const said = lines.slice(before).join('\n')
    expect(said).toMatch(/^ +1 +http:\S+ +vllm \S+ +sim +off +engine, whole +approximate$/m)
    expect(said).toContain('to make it exact, add: --kv-events-config')
    expect(said).toContain('tokenizes every new prompt from its start')
  })

  it('forgets what a restarted engine had', async () => {
    const only = await engine()
    const served = await start([only.url])
    const ai = client(served)
    const messages = conversation('rain')
    await say(ai, messages, 'When?')
    await settled(served, [only])
    expect((await say(ai, [...messages], 'Where?')).predicted).toBeGreaterThan(200)
    await only.restart()
    expect(await served.assembly.until((it) => it.every((one) => one.restarts === 1) && isExact(it), 10_000)).toBe(true)
    const after = await say(ai, [...messages], 'Where?')
    expect(after).toMatchObject({ predicted: 0, reported: 0 })
  })
})

describe('what an operator does', () => {
  it('takes a worker away for good: it is not brought back while it answers', async () => {
    const [first, second] = [await engine(), await engine()]
    const served = await start([first.url, second.url])
    expect((await fetch(`${served.address.url}/workers/1`, { method: 'DELETE' })).status).toBe(200)
    expect(served.assembly.reports().map((it) => it.state)).toEqual(['dismissed', 'joined'])
    const ai = client(served)
    for (const topic of ['ice', 'fog']) expect((await say(ai, conversation(topic), 'Where?')).worker).toBe('2')
  })

  it('adds a worker while it runs: it becomes exact, is drained and added again, and its streams end with it', async () => {
    const [first, late] = [await engine(), await engine()]
    const served = await start([first.url])
    const add = async (body: object) => {
      const reply = await fetch(`${served.address.url}/workers`, { method: 'POST', body: JSON.stringify(body) })
      return { status: reply.status, body: (await reply.json()) as { readonly worker?: { readonly id: string } } }
    }
    const refused = await add({ model: 'sim', url: late.url, events: '5557' })
    expect(refused).toMatchObject({
      status: 400,
      body: { error: { message: expect.stringContaining('tcp://gpu1:5557') } },
    })
    for (const leave of ['drain', 'delete'] as const) {
      const { status, body } = await add({ model: 'sim', url: late.url, taints: ['spare'] })
      expect({ status, id: body.worker!.id }).toEqual({ status: 201, id: '2' })
      const isTwo = (reports: readonly AddressReport[]) => reports.length === 2 && isExact(reports)
      expect(await served.assembly.until(isTwo, 10_000)).toBe(true)
      expect(late.stats().ranks[0]!.subscribers).toBe(1)

      const ai = client(served)
      const messages = conversation(`what ${leave} does`)
      const pin = { headers: { 'x-dynamo-worker-instance-id': '2' } }
      const ask = async () => {
        const asked = ai.chat.completions.create({ model: 'sim', messages, max_tokens: 8 }, pin)
        const { data, response } = await asked.withResponse()
        const predicted = Number(response.headers.get('x-warmroute-cached-tokens'))
        return { predicted, reported: data.usage!.prompt_tokens_details?.cached_tokens ?? 0 }
      }
      await ask()
      const published = () => late.stats().ranks[0]!.batches_numbered
      expect(await served.assembly.until((it) => it[1]!.batches === published(), 5_000)).toBe(true)
      const again = await ask()
      expect(again.reported).toBeGreaterThan(100)
      expect(again.predicted).toBe(again.reported)

      const [path, method] = leave === 'drain' ? ['/2/drain', 'POST'] : ['/2', 'DELETE']
      await fetch(`${served.address.url}/workers${path}`, { method })
      expect(await served.assembly.until((it) => it.length === 1, 5_000)).toBe(true)
      while (late.stats().ranks[0]!.subscribers > 0) await new Promise((resolve) => setTimeout(resolve, 10))
    }
  })

  it('adds a worker of a model that nobody served: the model is there once the engine says that it serves it', async () => {
    const [first, other] = [await engine(), await engine({ models: ['other'] })]
    const served = await start([first.url])
    const { url } = served.address
    const add = async (body: object) => {
      const reply = await fetch(`${url}/workers`, { method: 'POST', body: JSON.stringify({ url: other.url, ...body }) })
      return { status: reply.status, ...((await reply.json()) as object) }
    }
    expect(await add({ model: 'neither' })).toMatchObject({ status: 202, worker: { id: '2', state: 'waiting' } })
    const isRefused = (it: readonly AddressReport[]) => it[1]?.absence?.startsWith('is refused') ?? false
    expect(await served.assembly.until(isRefused, 10_000)).toBe(true)
    expect(served.assembly.reports()[1]!.absence).toContain('it serves other and not neither')
    expect(await add({ model: 'other', id: '2' })).toMatchObject({ status: 202, worker: { id: '2', model: 'other' } })
    const isIn = (it: readonly AddressReport[]) => it.length === 2 && isExact(it)
    expect(await served.assembly.until(isIn, 10_000)).toBe(true)
    const models = await client(served).models.list()
    expect(models.data.map(({ id }) => id)).toEqual(['sim', 'other'])
    const messages = conversation('a model that came late')
    const asked = client(served).chat.completions.create({ model: 'other', messages, max_tokens: 4 })
    expect((await asked.withResponse()).response.headers.get('x-warmroute-worker-id')).toBe('2')
    expect(await add({ model: 'mine', served_model: 'other', id: '2' })).toMatchObject({ status: 202 })
    const isMine = (it: readonly AddressReport[]) => it[1]?.model === 'mine' && isExact(it)
    expect(await served.assembly.until(isMine, 10_000)).toBe(true)
    const mine = await client(served).chat.completions.create({ model: 'mine', messages, max_tokens: 4 })
    expect(mine.choices).toHaveLength(1)
  })

  it('asks how events do: every rank has its state, its numbers and its lag, in /workers and in /metrics', async () => {
    const only = await engine({ ranks: 2 })
    const served = await start([only.url])
    expect(await served.assembly.until(isExact, 10_000)).toBe(true)
    for (const topic of ['ebb', 'flow']) await say(client(served), conversation(topic), 'When?')
    const { url } = served.address
    const ranks = async () => {
      const { workers } = (await (await fetch(`${url}/workers`)).json()) as {
        readonly workers: readonly { readonly ranks: readonly Record<string, unknown>[] }[]
      }
      return workers[0]!.ranks
    }
    const applied = async () => (await ranks()).reduce((sum, rank) => sum + Number(rank['events']), 0)
    while ((await applied()) < 2) await new Promise((resolve) => setTimeout(resolve, 10))
    const used = (await ranks()).find((rank) => Number(rank['events']) > 0)!
    expect(await ranks()).toHaveLength(2)
    expect(used).toMatchObject({ state: 'live', is_complete: true, gaps: 0, purges: {}, decode_errors: {} })
    expect(Number(used['last_sequence'])).toBeGreaterThanOrEqual(0)
    expect(Number(used['replays'])).toBeGreaterThan(0) // to join
    const rates = async () => (await ranks()).map((rank) => Number(rank['events_per_second']))
    await vi.waitFor(async () => expect(Math.max(...(await rates()))).toBeGreaterThan(0)) // of whole seconds
    expect(Number(used['lag_seconds'])).toBeLessThan(5)
    const metrics = await (await fetch(`${url}/metrics`)).text()
    for (const rank of [0, 1])
      expect(metrics).toContain(`warmroute_event_state{dp_rank="${rank}",model="sim",state="live",worker="1"} 1\n`)
    const dpRank = String(used['dp_rank'])
    expect(metrics).toMatch(new RegExp(`warmroute_event_lag_seconds\\{dp_rank="${dpRank}",model="sim",worker="1"\\} `))
    expect(metrics).toMatch(new RegExp(`warmroute_events_total\\{dp_rank="${dpRank}",model="sim",worker="1"\\} [1-9]`))
    await fetch(`${url}/workers/1`, { method: 'DELETE' })
    expect(await (await fetch(`${url}/metrics`)).text()).not.toMatch(/warmroute_events?_[a-z_]+\{[^\n]*worker="1"/)
  })

  it('sets a key: every address is listened on, and who has none is refused', async () => {
    const lines: string[] = []
    const served = await start([(await engine()).url, '--api-key', 'sesame'], lines)
    expect(lines[0]).toContain('every address of this machine; clients need a key')
    const url = `http://127.0.0.1:${served.address.port}/v1/models`
    expect((await fetch(url)).status).toBe(401)
    expect((await fetch(url, { headers: { authorization: 'Bearer sesame' } })).status).toBe(200)
  })

  it('cuts the events of an engine: it is degraded, goes on serving, and is exact again when they are back', async () => {
    const only = await engine()
    const served = await start([only.url])
    const mode = (reports: readonly AddressReport[]) => reports[0]!.verdict?.mode
    expect(await served.assembly.until((it) => mode(it) === 'exact', 10_000)).toBe(true)
    only.arm(parseFaults({ fault: 'close_event_sockets', for_ms: 700 }))
    expect(await served.assembly.until((it) => mode(it) === 'degraded', 10_000)).toBe(true)
    expect((await say(client(served), conversation('hail'), 'Why?')).worker).toBe('1')
    expect(await served.assembly.until((it) => mode(it) === 'exact', 10_000)).toBe(true)
  })
})

describe('engines that do not say where their events are', () => {
  it('are asked at the usual ports, and believed when their own prompt comes back', async () => {
    const old = await engine({ version: '0.20.0', ranks: 1 })
    const ports = { events: old.eventPorts[0]!, replay: [1, old.replayPorts[0]!] }
    const served = await start([old.url], [], ports)
    expect(await served.assembly.until(isExact, 15_000)).toBe(true)
    const messages = conversation('fens')
    await say(client(served), messages, 'Where?')
    await settled(served, [old])
    const turn = await say(client(served), messages, 'Since when?')
    expect(turn.reported).toBeGreaterThan(200)
    expect(turn.predicted).toBe(turn.reported)
    await old.restart() // found again: its replay proves that it is another one
    expect(await served.assembly.until((it) => it.every((one) => one.restarts === 1) && isExact(it), 15_000)).toBe(true)
    expect(await say(client(served), [...messages], 'And?')).toMatchObject({ predicted: 0, reported: 0 })
  })

  it('are not taken for another engine whose publisher stands at that port', async () => {
    const [old, stranger] = [await engine({ version: '0.20.0', events: false }), await engine()]
    const ports = { events: stranger.eventPorts[0]!, replay: stranger.replayPorts }
    const served = await start([old.url], [], ports)
    while (stranger.stats().ranks[0]!.subscribers === 0) await new Promise((resolve) => setTimeout(resolve, 5))
    while (stranger.stats().ranks[0]!.subscribers > 0) await new Promise((resolve) => setTimeout(resolve, 5))
    expect(served.assembly.reports()[0]!.verdict).toMatchObject({ mode: 'approximate' })
    expect(served.assembly.gateway.workers()[0]!.ranks).toEqual([])
  })
})

describe('engines that cannot be exact', () => {
  it('says which flag to add, and routes by its own decisions', async () => {
    const lines: string[] = []
    const [first, second] = [await engine({ events: false }), await engine({ events: false })]
    const served = await start([first.url, second.url], lines)
    expect(lines.join('\n')).toContain('worker 1 is approximate: it publishes no events.')
    expect(lines.join('\n')).toContain('--kv-events-config')
    const ai = client(served)
    const messages = conversation('snow')
    const opening = await say(ai, messages, 'How deep?')
    const turn = await say(ai, messages, 'How cold?')
    expect(turn.worker).toBe(opening.worker)
    expect(turn.predicted).toBeGreaterThan(200)
  })
})

describe('models that answer with numbers', () => {
  it.each(['vllm', 'sglang'] as const)('are served for what they do, and never asked for text: %s', async (kind) => {
    const only = await engine({ engine: kind, task: 'embed', healthMs: 1 })
    const lines: string[] = []
    const served = await start([only.url], lines)
    expect(lines.join('\n')).toMatch(/approximate\n\n +worker 1 is approximate: its model answers with numbers/)
    expect(lines.join('\n')).not.toContain('tokenizes every new prompt')
    const ai = client(served)
    const { data } = await ai.embeddings.create({ model: 'sim', input: 'How deep is the snow?' })
    expect(data[0]!.embedding).toHaveLength(64)
    await expect(say(ai, conversation('snow'), 'How deep?')).rejects.toMatchObject({
      status: 404,
      code: 'WR_ROUTE_NOT_FOUND',
    })
    expect((await fetch(`${only.url}/health`)).status).toBe(200) // an SGLang that got it would be down
  })
})

describe('what it refuses', () => {
  it.each([
    { words: [], says: /no engines/ },
    { words: ['http://127.0.0.1:1', '--prot', '1'], says: /unknown flag --prot; did you mean --port/ },
    { words: ['ftp://127.0.0.1'], says: /is not an address/ },
    { words: ['http://127.0.0.1:1', '--tls-cert-path', 'a.pem'], says: /go together/ },
    {
      words: ['http://127.0.0.1:1', '--snapshot-folder', '/proc/warmroute'],
      says: /snapshot_folder: .*cannot be written/,
    },
    { words: ['http://127.0.0.1:1', '--tokenizer', '/nope'], says: /tokenizer: \/nope has no tokenizer\.json/ },
  ])('$words', async ({ words, says }) => {
    await expect(serve({ words, env: {} })).rejects.toThrow(says)
  })

  it('a port that is taken, and leaves nothing running', async () => {
    const { port } = await engine()
    const words = ['127.0.0.1:1', '--port', String(port), '--log', 'off']
    await expect(serve({ words, env: {} })).rejects.toMatchObject({
      code: 'WR_BOOT_FAILED',
      details: { isAdmin: false },
      cause: { code: 'EADDRINUSE' },
    })
  })

  it('an admin port that is taken, saying which of the two it is', async () => {
    const { port, url } = await engine()
    const words = [url, '--port', '0', '--admin-port', String(port), '--log', 'off']
    await expect(serve({ words, env: {} })).rejects.toMatchObject({ details: { isAdmin: true } })
  })

  it('a certificate that is none, before anything listens', async () => {
    const page = fileURLToPath(import.meta.url)
    const words = ['http://127.0.0.1:1', '--tls-cert-path', page, '--tls-key-path', page]
    await expect(serve({ words, env: {} })).rejects.toMatchObject({
      code: 'WR_INVALID_CONFIG',
      message: expect.stringMatching(/tls_cert_path .*cannot be used/) as string,
    })
  })

  it.each(['http://127.0.0.1:1/', 'http://LOCALHOST:1/v1', 'http://[::1]:1', 'http://0.0.0.0:1', 'http://127.1:1'])(
    'an engine that is named twice, however its address is written: %s',
    async (again) => {
      await expect(start(['127.0.0.1:1', again])).rejects.toMatchObject({
        code: 'WR_INVALID_CONFIG',
        message: expect.stringContaining('one engine is named twice: http://127.0.0.1:1 and '),
      })
    },
  )

  it.each([
    ['127.0.0.1:7', '--port', '7'],
    ['http://localhost:7/v1', '--port', '7', '--host', '0.0.0.0'],
    ['http://[::1]:7', '--port', '7', '--host', '::'],
    ['10.1.2.3:7', '--port', '7', '--host', '10.1.2.3'],
  ])('itself as a worker: %s %s %s %s %s', async (...words) => {
    await expect(start(words)).rejects.toMatchObject({
      code: 'WR_INVALID_CONFIG',
      message: expect.stringContaining('is where this router would listen itself') as string,
    })
  })
})

it('writes a decision log that can be replayed, and starts from an engine profile', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'serve-'))
  const path = join(folder, 'decisions.jsonl')
  const profile = join(folder, 'profile.json')
  writeFileSync(profile, 'no profile')
  await expect(start(['127.0.0.1:1', '--engine-profile', profile])).rejects.toMatchObject({
    code: 'WR_INVALID_CONFIG',
    message: expect.stringContaining(`engine_profile: ${profile}: line 1`),
  })
  const { url } = await engine()
  const served = await start([url, '--decision-log', path, '--engine-profile', 'h200-llama8b'])
  const ai = client(served)
  const messages = conversation('logs')
  for (const text of ['What is written?', 'And who reads it?']) await say(ai, messages, text)
  for (const tenant of ['a', 'b'])
    await ai.chat.completions.create(
      { model: 'sim', max_tokens: 24, messages: [{ role: 'user', content: 'What do tenants share?' }] },
      { headers: { 'x-tenant-id': tenant } },
    )
  await served.close()
  const { requests: trace } = readTrace(readFileSync(path))
  expect(trace.map(({ outputTokens }) => outputTokens)).toEqual([24, 24, 24, 24])
  expect(trace[2]!.blockIds).not.toEqual(trace[3]!.blockIds) // a cache would not
  expect(trace[1]!.promptTokens).toBeGreaterThan(trace[0]!.promptTokens)
  const text = readFileSync(path, 'utf8')
  expect(text).not.toContain('written')
  expect(JSON.parse(text.split('\n')[0]!)).toMatchObject({ worker: '1', worker_url: url })
  rmSync(folder, { recursive: true })
})
