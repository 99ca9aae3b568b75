import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { decode } from '@msgpack/msgpack'
import { afterEach, expect, it, vi } from 'vitest'
import * as zmq from 'zeromq'
import { parseFaults } from './faults.js'
import type { FaultKind } from './faults.js'
import type { SimEngine } from './sim-engine.js'
import { startSimEngine } from './sim-engine.js'
import type { SimEngineOptions } from './sim-options.js'
import { createSimTokenizer } from './tokenizer.js'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

async function start(options: Partial<SimEngineOptions> = {}): Promise<SimEngine> {
  const engine = await startSimEngine({ engine: 'vllm', blockTokens: 4, blocks: 64, speedup: 1000, ...options })
  closing.push(() => engine.close())
  return engine
}

interface Received {
  readonly sequence: number
  readonly events: readonly Record<string, unknown>[]
  readonly rank: number
}

/** A subscriber that has been seen by the publisher: the first frame it gets is not lost. */
async function subscribe(engine: SimEngine, rank = 0): Promise<Received[]> {
  const socket = new zmq.Subscriber({ linger: 0 })
  socket.subscribe('kv-events')
  const received: Received[] = []
  closing.push(() => socket.close())
  const connected = new Promise((resolve) => socket.events.on('handshake', resolve))
  socket.connect(`tcp://127.0.0.1:${engine.eventPorts[rank]}`)
  await connected
  // The subscription travels behind the handshake, and a publisher tells nobody when it has arrived.
  await new Promise((resolve) => setTimeout(resolve, 200))
  void (async () => {
    try {
      for await (const [, sequence, payload] of socket) {
        const [, events, from] = decode(payload!) as [number, Record<string, unknown>[], number]
        received.push({ sequence: Number(sequence!.readBigUInt64BE()), events, rank: from })
      }
    } catch {
      // closed at the end of the test
    }
  })()
  return received
}

async function complete(
  engine: SimEngine,
  prompt: number[],
  body: Record<string, unknown> = {},
  headers = {},
): Promise<Response> {
  return fetch(`${engine.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ prompt, max_tokens: 1, ...body }),
    signal: AbortSignal.timeout(10_000),
  })
}

function prompt(seed: number, length = 9): number[] {
  return Array.from({ length }, (_, index) => 300 + ((seed * 131 + index * 7) % 9000))
}

async function cachedTokens(engine: SimEngine, tokens: number[]): Promise<number> {
  const json = (await (await complete(engine, tokens)).json()) as {
    usage: { prompt_tokens_details: { cached_tokens: number } }
  }
  return json.usage.prompt_tokens_details.cached_tokens
}

async function replay(engine: SimEngine, frames: Uint8Array[], port = engine.replayPorts[0]): Promise<Buffer[][]> {
  const dealer = new zmq.Dealer({ linger: 0, receiveTimeout: 400 })
  dealer.connect(`tcp://127.0.0.1:${port}`)
  await dealer.send(frames)
  const replies: Buffer[][] = []
  try {
    for (;;) {
      const reply = await dealer.receive()
      replies.push(reply)
      if (reply.at(-1)!.length === 0) break
    }
  } catch {
    // nothing came: the request was ignored
  }
  dealer.close()
  return replies
}

function from(sequence: number): Uint8Array[] {
  const number = Buffer.alloc(8)
  number.writeBigUInt64BE(BigInt(sequence))
  return [Buffer.alloc(0), number]
}

it('publishes stored blocks with the tokens of the prompt, numbered from 0', async () => {
  const engine = await start()
  const received = await subscribe(engine)
  await complete(engine, prompt(1))
  await complete(engine, [...prompt(1), 5, 6, 7, 8])
  await vi.waitFor(() => expect(received).toHaveLength(2))
  expect(received.map(({ sequence }) => sequence)).toEqual([0, 1])
  expect(received[0]!.events[0]).toMatchObject({ type: 'BlockStored', token_ids: prompt(1).slice(0, 8), block_size: 4 })
  expect(await cachedTokens(engine, prompt(1))).toBe(8)
})

it('publishes each rank on its own port and serves a pinned request there', async () => {
  const engine = await start({ ranks: 2 })
  expect(engine.eventPorts[1]).toBe(engine.eventPorts[0]! + 1)
  const feeds = [await subscribe(engine, 0), await subscribe(engine, 1)]
  await complete(engine, prompt(1), {}, { 'x-data-parallel-rank': '1' })
  await vi.waitFor(() => expect(feeds[1]).toHaveLength(1))
  expect(feeds[0]).toHaveLength(0)
  expect(feeds[1]![0]!.rank).toBe(1)
  const sources = (await (await fetch(`${engine.url}/kv_event_sources`)).json()) as Record<string, { endpoint: string }>
  expect(sources['1']!.endpoint).toBe(`tcp://*:${engine.eventPorts[1]}`)
})

it.each([
  { version: '0.32.0', frames: 4 },
  { version: '0.25.0', frames: 3 },
])('replays what was published in $frames frames (vLLM $version), then an end marker', async ({ version, frames }) => {
  const engine = await start({ version, events: { bufferSteps: 3 } })
  for (let index = 0; index < 5; index++) await complete(engine, prompt(index))
  const replies = await replay(engine, from(0))
  expect(replies.map((reply) => reply.length)).toEqual([frames, frames, frames, frames])
  expect(replies.slice(0, -1).map((reply) => Number(reply.at(-2)!.readBigUInt64BE()))).toEqual([2, 3, 4]) // the ring kept three
  expect(
    replies
      .at(-1)!
      .map((frame) => frame.toString('hex'))
      .slice(-2),
  ).toEqual(['ff'.repeat(8), ''])
  expect(await replay(engine, from(99))).toHaveLength(1)
})

it('ignores replay requests of another form without a word', async () => {
  const engine = await start()
  await complete(engine, prompt(1))
  expect(await replay(engine, [Buffer.alloc(8)])).toEqual([])
  expect(await replay(engine, [Buffer.alloc(0), Buffer.from('kv-events'), Buffer.alloc(8)])).toEqual([])
  expect(await replay(engine, [Buffer.alloc(0), Buffer.alloc(0)])).toHaveLength(2) // no number is 0
})

it.each(['vllm', 'sglang'] as const)('stops generating when the client leaves (%s)', async (name) => {
  const engine = await start({ engine: name, speedup: 5 })
  const client = httpRequest(`${engine.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
  })
  client.end(JSON.stringify({ prompt: prompt(1), max_tokens: 100_000, stream: true }))
  client.on('error', () => {})
  const [reply] = (await once(client, 'response')) as [IncomingMessage]
  await once(reply, 'data')
  expect(engine.stats().ranks[0]!.running).toBe(1)
  client.destroy()
  await vi.waitFor(() =>
    expect(engine.stats()).toMatchObject({ in_flight: 0, ranks: [{ running: 0, active_blocks: 0 }] }),
  )
})

it.each([
  { name: 'vllm', route: '/abort_requests', body: { request_ids: ['cmpl-one'] } },
  { name: 'sglang', route: '/abort_request', body: { rid: 'one' } },
  { name: 'sglang', route: '/abort_request', body: { abort_all: true } },
] as const)('aborts a request by its id, and its client is told ($name, $body)', async ({ name, route, body }) => {
  const engine = await start({ engine: name, speedup: 5, isDevMode: true })
  const asked = { max_tokens: 100_000, request_id: 'one', rid: 'one' }
  const reply = complete(engine, prompt(1), asked)
  await vi.waitFor(() => expect(engine.stats().in_flight).toBe(1))
  const headers = { 'content-type': 'application/json' }
  await fetch(engine.url + route, { method: 'POST', headers, body: JSON.stringify(body) })
  const { choices } = (await (await reply).json()) as { choices: { finish_reason: string }[] }
  expect(choices[0]!.finish_reason).toBe('abort')
  expect(engine.stats()).toMatchObject({ in_flight: 0, ranks: [{ running: 0, active_blocks: 0 }] })
})

it('comes back from a restart on its ports, empty, and counts batches from 0 again', async () => {
  const engine = await start({ ranks: 2 })
  await complete(engine, prompt(1))
  const before = { ports: [...engine.eventPorts, ...engine.replayPorts, engine.port] }
  await engine.restart()
  expect([...engine.eventPorts, ...engine.replayPorts, engine.port]).toEqual(before.ports)
  expect(engine.cached(0).size + engine.cached(1).size).toBe(0)
  const received = [await subscribe(engine, 0), await subscribe(engine, 1)]
  expect(await cachedTokens(engine, prompt(1))).toBe(0)
  await vi.waitFor(() => expect([...received[0]!, ...received[1]!].map(({ sequence }) => sequence)).toEqual([0]))
})

it('tells of evictions one block at a time, and of a reset with the next pass', async () => {
  const engine = await start({ blocks: 8, isDevMode: true })
  const received = await subscribe(engine)
  for (let index = 0; index < 4; index++) await complete(engine, prompt(index, 13))
  await fetch(`${engine.url}/reset_prefix_cache`, { method: 'POST' })
  await complete(engine, [7])
  await vi.waitFor(() => expect(received.at(-1)?.events).toEqual([{ type: 'AllBlocksCleared' }]))
  const removed = received.flatMap(({ events }) => events.filter(({ type }) => type === 'BlockRemoved'))
  expect(removed.length).toBeGreaterThan(3)
  for (const event of removed) expect(event['block_hashes']).toHaveLength(1)
})

it('moves evicted blocks to the host tier, says so, and loads them back', async () => {
  const engine = await start({ blocks: 8, hostBlocks: 32 })
  const received = await subscribe(engine)
  for (let index = 0; index < 3; index++) await complete(engine, prompt(index, 21))
  expect(await cachedTokens(engine, prompt(0, 21))).toBe(20)
  await vi.waitFor(() => {
    const media = received.flatMap(({ events }) =>
      events.map((event) => `${String(event['type'])} ${String(event['medium'])}`),
    )
    expect(new Set(media)).toEqual(new Set(['BlockStored GPU', 'BlockStored CPU', 'BlockRemoved GPU']))
  })
})

it('serves adapters as models whose blocks are their own', async () => {
  const engine = await start({ adapters: ['french'] })
  const received = await subscribe(engine)
  await complete(engine, prompt(1))
  const reply = (await (await complete(engine, prompt(1), { model: 'french' })).json()) as {
    model: string
    usage: { prompt_tokens_details: { cached_tokens: number } }
  }
  expect(reply.model).toBe('french')
  expect(reply.usage.prompt_tokens_details.cached_tokens).toBe(0)
  await vi.waitFor(() => expect(received).toHaveLength(2))
  expect(received[1]!.events[0]).toMatchObject({
    lora_name: 'french',
    lora_id: 1,
    extra_keys: [['french'], ['french']],
  })
})

it('answers the same request with the same words', async () => {
  const engine = await start()
  const ask = async (body = {}) =>
    ((await (await complete(engine, prompt(1), { max_tokens: 8, ...body })).json()) as { choices: { text: string }[] })
      .choices
  const [first] = await ask({ temperature: 0 })
  expect((await ask({ temperature: 0 }))[0]!.text).toBe(first!.text)
  expect(new Set((await ask({ n: 3 })).map(({ text }) => text)).size).toBe(3)
  const tokenizer = createSimTokenizer()
  expect(tokenizer.encode(first!.text, { isBosAdded: false })).toHaveLength(8)
  const [cut] = await ask({ temperature: 0, stop: first!.text.slice(4, 7) })
  expect(cut).toMatchObject({
    text: first!.text.slice(0, 4),
    finish_reason: 'stop',
    stop_reason: first!.text.slice(4, 7),
  })
})

function fault(kind: FaultKind, fields: Record<string, unknown> = {}) {
  return parseFaults({ fault: kind, ...fields })
}

async function sequencesAfter(engine: SimEngine, count: number): Promise<number[]> {
  const received = await subscribe(engine)
  for (let index = 0; index < 4; index++) await complete(engine, prompt(index))
  await vi.waitFor(() => expect(received).toHaveLength(count))
  return received.map(({ sequence }) => sequence)
}

it.each([
  { says: 'drops', kind: 'drop_events', fields: { count: 1 }, sequences: [1, 2, 3] },
  { says: 'duplicates', kind: 'duplicate_events', fields: { count: 1 }, sequences: [0, 0, 1, 2, 3] },
  { says: 'reorders', kind: 'reorder_events', fields: { count: 1 }, sequences: [1, 0, 2, 3] },
  { says: 'delays', kind: 'delay_events', fields: { count: 1, ms: 600_000 }, sequences: [1, 2, 3] },
  { says: 'sends late, in their order,', kind: 'late_events', fields: { ms: 30 }, sequences: [0, 1, 2, 3] },
] as const)('$says event frames by script', async ({ kind, fields, sequences }) => {
  const engine = await start()
  engine.arm(fault(kind, fields))
  expect(await sequencesAfter(engine, sequences.length)).toEqual(sequences)
})

it('sends a delayed frame when its time has come, and not before', async () => {
  const engine = await start()
  const received = await subscribe(engine)
  engine.arm(fault('delay_events', { count: 1, ms: 80 }))
  const asked = performance.now()
  await complete(engine, prompt(1))
  await vi.waitFor(() => expect(received.map(({ sequence }) => sequence)).toEqual([0]), { timeout: 10_000 })
  expect(performance.now() - asked).toBeGreaterThan(75)
})

it('tells a block twice when told to, and takes it back twice', async () => {
  const engine = await start({ blocks: 8 })
  const received = await subscribe(engine)
  engine.arm(fault('double_copies', { count: 1 }))
  for (let index = 0; index < 4; index++) await complete(engine, prompt(index, 13))
  const hashesOf = (type: string) =>
    received.flatMap(({ events }) =>
      events
        .filter((it) => it['type'] === type)
        .map((it) => it['block_hashes'])
        .flat(),
    )
  const lost = (): unknown => {
    const [first] = hashesOf('BlockStored')
    return [first, hashesOf('BlockRemoved').filter((it) => it === first).length]
  }
  await vi.waitFor(() => expect(lost()).toEqual([hashesOf('BlockStored')[0], 2]), { timeout: 10_000 })
  const [first] = hashesOf('BlockStored')
  expect(hashesOf('BlockStored').filter((it) => it === first)).toHaveLength(2)
})

it('has another process on its event ports for a while, by seed, and then its own again', async () => {
  const heard = async (seed: number): Promise<unknown> => {
    const engine = await start({ seed })
    await complete(engine, prompt(1))
    const [ports, replayPort] = [engine.eventPorts, engine.replayPorts[0]]
    engine.arm(fault('foreign_publisher', { ms: 10 }))
    const batches = async (): Promise<Buffer[][]> => replay(engine, from(0), replayPort)
    await vi.waitFor(async () => expect((await batches()).length).toBeGreaterThan(2), { timeout: 10_000 })
    const [first] = await batches()
    engine.clearFaults()
    await vi.waitFor(() => expect(engine.eventPorts).toEqual(ports), { timeout: 10_000 })
    expect(await replay(engine, from(0))).toHaveLength(2) // its one batch, and the end
    return (decode(first!.at(-1)!) as [number, unknown])[1]
  }
  const first = await heard(3)
  expect(await heard(3)).toEqual(first)
  expect(await heard(4)).not.toEqual(first)
})

it('gives its ports back at once when its faults are cleared', async () => {
  const engine = await start()
  const ports = engine.eventPorts
  engine.arm([...fault('foreign_publisher'), ...fault('restart', { at_ms: 600_000 })])
  await vi.waitFor(() => expect(engine.eventPorts).toEqual([0]), { timeout: 10_000 })
  engine.clearFaults()
  await vi.waitFor(() => expect(engine.eventPorts).toEqual(ports), { timeout: 10_000 })
  engine.arm(fault('close_event_sockets'))
  await vi.waitFor(() => expect(engine.eventPorts).toEqual([0]), { timeout: 10_000 })
  await fetch(`${engine.url}/sim/faults`, { method: 'DELETE' })
  await vi.waitFor(() => expect(engine.eventPorts).toEqual(ports), { timeout: 10_000 })
})

it('answers a replay late, and its metrics late', async () => {
  const engine = await start()
  engine.arm([...fault('late_replay', { ms: 200, count: 1 }), ...fault('slow_metrics', { ms: 120, count: 1 })])
  await complete(engine, prompt(1))
  expect(await replay(engine, from(0))).toHaveLength(2)
  expect(engine.stats().ranks[0]!.batches_numbered).toBe(1)
  const took = async (path: string): Promise<number> => {
    const asked = performance.now()
    await (await fetch(engine.url + path)).text()
    return performance.now() - asked
  }
  expect(await took('/metrics')).toBeGreaterThan(115)
  const faults = (await (await fetch(`${engine.url}/sim/faults`)).json()) as { strikes: number }[]
  expect(faults.map(({ strikes }) => strikes)).toEqual([1, 1])
})

it.each([
  { name: 'vllm', isToldAtOnce: false },
  { name: 'sglang', isToldAtOnce: true },
] as const)('empties its cache while idle by script ($name)', async ({ name, isToldAtOnce }) => {
  const engine = await start({ engine: name })
  const received = await subscribe(engine)
  const isCleared = () => received.some(({ events }) => events.some((it) => it['type'] === 'AllBlocksCleared'))
  await complete(engine, prompt(1))
  await vi.waitFor(() => expect(received.length).toBeGreaterThan(0))
  engine.arm(fault('reset_cache'))
  await vi.waitFor(() => expect(engine.cached(0).size).toBe(0))
  if (isToldAtOnce) await vi.waitFor(() => expect(isCleared()).toBe(true))
  else expect(isCleared()).toBe(false)
  expect(await cachedTokens(engine, prompt(1))).toBe(0)
  await vi.waitFor(() => expect(isCleared()).toBe(true))
})

it.each(['vllm', 'sglang'] as const)('renders with another template from a time on (%s)', async (name) => {
  const engine = await start({ engine: name })
  const promptTokens = async (): Promise<number> => {
    const reply = await fetch(`${engine.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'sim', messages: [{ role: 'user', content: 'hello' }], max_tokens: 1 }),
    })
    return ((await reply.json()) as { usage: { prompt_tokens: number } }).usage.prompt_tokens
  }
  const before = await promptTokens()
  engine.arm(fault('template_drift'))
  expect(await promptTokens()).toBeGreaterThan(before)
})

it('stalls and closes event sockets for a while, and comes back', async () => {
  const engine = await start()
  const received = await subscribe(engine)
  engine.arm(fault('stall_events', { for_ms: 50 }))
  await vi.waitFor(() => expect(engine.stats().ranks[0]!.batches_numbered).toBe(0))
  await complete(engine, prompt(1))
  await vi.waitFor(() => expect(received.map(({ sequence }) => sequence)).toEqual([0]))
  const port = engine.eventPorts[0]
  engine.arm(fault('close_event_sockets', { for_ms: 150 }))
  await vi.waitFor(() => expect(engine.eventPorts).toEqual([0]), { interval: 2 })
  await complete(engine, prompt(2))
  await vi.waitFor(() => expect(engine.eventPorts).toEqual([port]))
  expect(engine.stats().ranks[0]).toMatchObject({ batches_numbered: 2, batches_sent: 1, batches_dropped: 1 })
})

it('leaves no publisher of the process before when it restarts while its event sockets are closed', async () => {
  const engine = await start()
  await complete(engine, prompt(1))
  await complete(engine, prompt(2))
  const ports = engine.eventPorts
  engine.arm(fault('close_event_sockets', { for_ms: 40 }))
  await vi.waitFor(() => expect(engine.eventPorts).toEqual([0]), { interval: 2 })
  await engine.restart(80) // the sockets would open again in the middle of it
  expect(engine.eventPorts).toEqual(ports)
  const received = await subscribe(engine)
  await complete(engine, prompt(3))
  await vi.waitFor(() => expect(received.map(({ sequence }) => sequence)).toEqual([0]))
})

it('says wrong things when told to: block size, rank, clock', async () => {
  const engine = await start()
  const received = await subscribe(engine)
  engine.arm([...fault('wrong_block_size', { tokens: 7 }), ...fault('wrong_rank')])
  await complete(engine, prompt(1))
  await vi.waitFor(() => expect(received).toHaveLength(1))
  expect(received[0]).toMatchObject({ rank: 1, events: [{ block_size: 7 }] })
  engine.arm(fault('clock_skew', { seconds: 5000 }))
  const { created } = (await (await complete(engine, prompt(1))).json()) as { created: number }
  expect(created - Date.now() / 1000).toBeGreaterThan(4900)
})

it('reads a chat with another tokenizer when told to', async () => {
  const engine = await start()
  const tokenize = async () =>
    (
      (await (
        await fetch(`${engine.url}/tokenize`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }] }),
        })
      ).json()) as { tokens: number[] }
    ).tokens
  const right = await tokenize()
  engine.arm(fault('wrong_tokenizer'))
  expect(await tokenize()).not.toEqual(right)
})

it.each([429, 500, 503])('answers bursts of %s and then serves again', async (status) => {
  const engine = await start()
  engine.arm(fault('status', { status, count: 2 }))
  const statuses = []
  for (let index = 0; index < 3; index++) statuses.push((await complete(engine, prompt(1))).status)
  expect(statuses).toEqual([status, status, 200])
})

it('hangs before headers, hangs in the middle, resets in the middle, and trickles', async () => {
  const engine = await start()
  engine.arm(fault('hang_before_headers', { count: 1 }))
  await expect(fetch(`${engine.url}/health`, { signal: AbortSignal.timeout(80) })).rejects.toThrow('timeout')
  engine.arm(fault('hang_mid_stream', { count: 1, after_chunks: 2 }))
  const hung = await complete(engine, prompt(1), { max_tokens: 5, stream: true })
  const reader = hung.body!.getReader()
  const first = await reader.read()
  expect(new TextDecoder().decode(first.value)).toContain('data: ')
  await reader.cancel()
  engine.arm(fault('reset_mid_stream', { count: 1, after_chunks: 2 }))
  const cut = await complete(engine, prompt(1), { max_tokens: 5, stream: true })
  await expect(cut.text()).rejects.toThrow()
  engine.arm(fault('trickle', { count: 1, ms: 20 }))
  const started = performance.now()
  const slow = await complete(engine, prompt(1), { max_tokens: 5, stream: true })
  expect(await slow.text()).toContain('[DONE]')
  expect(performance.now() - started).toBeGreaterThan(100)
})

it('restarts by script, and shortens its replay buffer by script', async () => {
  const engine = await start()
  for (let index = 0; index < 3; index++) await complete(engine, prompt(index))
  engine.arm(fault('short_replay', { batches: 1 }))
  await vi.waitFor(async () => expect(await replay(engine, from(0))).toHaveLength(2))
  engine.arm(fault('restart', { ms: 20 }))
  await vi.waitFor(() => expect(engine.stats()).toMatchObject({ restarts: 1, ranks: [{ cached_blocks: 0 }] }))
  await vi.waitFor(async () => expect((await complete(engine, prompt(1))).status).toBe(200))
})

it('takes fault scripts over its admin route and refuses nonsense', async () => {
  const engine = await start()
  const post = (body: unknown) => fetch(`${engine.url}/sim/faults`, { method: 'POST', body: JSON.stringify(body) })
  expect((await post([{ fault: 'status', status: 503, count: 1 }])).status).toBe(200)
  expect((await complete(engine, prompt(1))).status).toBe(503)
  expect((await post({ fault: 'earthquake' })).status).toBe(400)
  expect((await fetch(`${engine.url}/sim/faults`, { method: 'DELETE' })).status).toBe(200)
  expect(await (await fetch(`${engine.url}/sim/faults`)).json()).toEqual([])
})

it('strikes the same occasions for the same seed', async () => {
  const strikes = async () => {
    const engine = await start({ seed: 7 })
    engine.arm(fault('status', { share: 0.5 }))
    const statuses: number[] = []
    for (let index = 0; index < 12; index++) statuses.push((await fetch(`${engine.url}/version`)).status)
    return statuses
  }
  const first = await strikes()
  expect(new Set(first)).toEqual(new Set([200, 503]))
  expect(await strikes()).toEqual(first)
})

it('refuses the unauthorised and the queue that is full', async () => {
  const keyed = await start({ apiKey: 'secret' })
  expect((await complete(keyed, prompt(1))).status).toBe(401)
  expect((await complete(keyed, prompt(1), {}, { authorization: 'Bearer secret' })).status).toBe(200)
  expect((await fetch(`${keyed.url}/health`)).status).toBe(200)
  const full = await start({ engine: 'sglang', queuedMax: 0 })
  expect((await complete(full, prompt(1))).status).toBe(503)
})

it('shows its load in /metrics by the real names', async () => {
  const engine = await start()
  await complete(engine, prompt(1))
  await complete(engine, prompt(1))
  const text = await (await fetch(`${engine.url}/metrics`)).text()
  expect(text).toContain('vllm:num_requests_running{engine="0",model_name="sim"} 0.0')
  expect(text).toContain('vllm:prefix_cache_hits_total{engine="0",model_name="sim"} 8.0')
  expect(text).toContain('block_size="4"')
})

it('leaves nothing open when closed in the middle of everything', async () => {
  const engine = await startSimEngine({ engine: 'sglang', ranks: 2, speedup: 1 })
  const replies = [1, 2, 3].map((seed) => complete(engine, prompt(seed), { max_tokens: 1000 }).catch(() => 'cut'))
  await vi.waitFor(() => expect(engine.stats().in_flight).toBe(3))
  await engine.close()
  expect(await Promise.all(replies)).toEqual(['cut', 'cut', 'cut'])
  await engine.close()
})
