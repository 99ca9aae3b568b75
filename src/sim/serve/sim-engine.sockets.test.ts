import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { expect, it, vi } from 'vitest'
import { cachedTokens, complete, from, prompt, replay, start, subscribe } from './sim-engine.case.js'
import { startSimEngine } from './sim-engine.js'
import { createSimTokenizer } from './tokenizer.js'

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
