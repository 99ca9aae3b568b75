import { decode } from '@msgpack/msgpack'
import { expect, it, vi } from 'vitest'
import { faultKinds, parseFaults } from './faults.js'
import type { FaultKind } from './faults.js'
import { cachedTokens, complete, from, prompt, replay, start, subscribe } from './sim-engine.case.js'
import type { SimEngine } from './sim-engine.js'

const fault = (kind: FaultKind, fields: Record<string, unknown> = {}): object => ({ fault: kind, ...fields })

/** Over the admin route: a script that is read from a file is the same list. */
async function arm(engine: SimEngine, script: object): Promise<void> {
  expect((await post(engine, script)).status).toBe(200)
}

function post({ url }: SimEngine, script: unknown): Promise<Response> {
  return fetch(`${url}/sim/faults`, { method: 'POST', body: JSON.stringify(script) })
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
  await arm(engine, fault(kind, fields))
  expect(await sequencesAfter(engine, sequences.length)).toEqual(sequences)
})

it('sends a delayed frame when its time has come, and not before', async () => {
  const engine = await start()
  const received = await subscribe(engine)
  await arm(engine, fault('delay_events', { count: 1, ms: 80 }))
  const asked = performance.now()
  await complete(engine, prompt(1))
  await vi.waitFor(() => expect(received.map(({ sequence }) => sequence)).toEqual([0]), { timeout: 10_000 })
  expect(performance.now() - asked).toBeGreaterThan(75)
})

it('tells a block twice when told to, and takes it back twice', async () => {
  const engine = await start({ blocks: 8 })
  const received = await subscribe(engine)
  await arm(engine, fault('double_copies', { count: 1 }))
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
    await arm(engine, fault('foreign_publisher', { ms: 10 }))
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
  await arm(engine, [fault('foreign_publisher'), fault('restart', { at_ms: 600_000 })])
  await vi.waitFor(() => expect(engine.eventPorts).toEqual([0]), { timeout: 10_000 })
  engine.clearFaults()
  await vi.waitFor(() => expect(engine.eventPorts).toEqual(ports), { timeout: 10_000 })
  await arm(engine, fault('close_event_sockets'))
  await vi.waitFor(() => expect(engine.eventPorts).toEqual([0]), { timeout: 10_000 })
  await fetch(`${engine.url}/sim/faults`, { method: 'DELETE' })
  await vi.waitFor(() => expect(engine.eventPorts).toEqual(ports), { timeout: 10_000 })
})

it('answers a replay late, and its metrics late', async () => {
  const engine = await start()
  await arm(engine, [fault('late_replay', { ms: 200, count: 1 }), fault('slow_metrics', { ms: 120, count: 1 })])
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
  await arm(engine, fault('reset_cache'))
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
  await arm(engine, fault('template_drift'))
  expect(await promptTokens()).toBeGreaterThan(before)
})

it('stalls and closes event sockets for a while, and comes back', async () => {
  const engine = await start()
  const received = await subscribe(engine)
  await arm(engine, fault('stall_events', { for_ms: 50 }))
  await vi.waitFor(() => expect(engine.stats().ranks[0]!.batches_numbered).toBe(0))
  await complete(engine, prompt(1))
  await vi.waitFor(() => expect(received.map(({ sequence }) => sequence)).toEqual([0]))
  const port = engine.eventPorts[0]
  await arm(engine, fault('close_event_sockets', { for_ms: 150 }))
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
  await arm(engine, fault('close_event_sockets', { for_ms: 40 }))
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
  await arm(engine, [fault('wrong_block_size', { tokens: 7 }), fault('wrong_rank')])
  await complete(engine, prompt(1))
  await vi.waitFor(() => expect(received).toHaveLength(1))
  expect(received[0]).toMatchObject({ rank: 1, events: [{ block_size: 7 }] })
  await arm(engine, fault('clock_skew', { seconds: 5000 }))
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
  await arm(engine, fault('wrong_tokenizer'))
  expect(await tokenize()).not.toEqual(right)
})

it.each([429, 500, 503])('answers bursts of %s and then serves again', async (status) => {
  const engine = await start()
  await arm(engine, fault('status', { status, count: 2 }))
  const statuses = []
  for (let index = 0; index < 3; index++) statuses.push((await complete(engine, prompt(1))).status)
  expect(statuses).toEqual([status, status, 200])
})

it('hangs before headers, hangs in the middle, resets in the middle, and trickles', async () => {
  const engine = await start()
  await arm(engine, fault('hang_before_headers', { count: 1 }))
  await expect(fetch(`${engine.url}/health`, { signal: AbortSignal.timeout(80) })).rejects.toThrow('timeout')
  await arm(engine, fault('hang_mid_stream', { count: 1, after_chunks: 2 }))
  const hung = await complete(engine, prompt(1), { max_tokens: 5, stream: true })
  const reader = hung.body!.getReader()
  const first = await reader.read()
  expect(new TextDecoder().decode(first.value)).toContain('data: ')
  await reader.cancel()
  await arm(engine, fault('reset_mid_stream', { count: 1, after_chunks: 2 }))
  const cut = await complete(engine, prompt(1), { max_tokens: 5, stream: true })
  await expect(cut.text()).rejects.toThrow()
  await arm(engine, fault('trickle', { count: 1, ms: 20 }))
  const started = performance.now()
  const slow = await complete(engine, prompt(1), { max_tokens: 5, stream: true })
  expect(await slow.text()).toContain('[DONE]')
  expect(performance.now() - started).toBeGreaterThan(100)
})

it.each([
  ['vllm', true],
  ['vllm', false],
  ['sglang', true],
  ['sglang', false],
] as const)('ends a request as a server that drains does (%s, stream: %s)', async (name, stream) => {
  const engine = await start({ engine: name })
  await arm(engine, fault('abort_streams', { count: 1 }))
  const reasons: (string | undefined)[] = []
  for (let index = 0; index < 2; index++) {
    const text = await (await complete(engine, prompt(1), { max_tokens: 5, stream })).text()
    reasons.push(/"finish_reason":"(\w+)"/.exec(text)?.[1])
  }
  expect(reasons).toEqual(['abort', 'length'])
})

it('restarts by script, and shortens its replay buffer by script', async () => {
  const engine = await start()
  for (let index = 0; index < 3; index++) await complete(engine, prompt(index))
  await arm(engine, fault('short_replay', { batches: 1 }))
  await vi.waitFor(async () => expect(await replay(engine, from(0))).toHaveLength(2))
  await arm(engine, fault('restart', { ms: 20 }))
  await vi.waitFor(() => expect(engine.stats()).toMatchObject({ restarts: 1, ranks: [{ cached_blocks: 0 }] }))
  await vi.waitFor(async () => expect((await complete(engine, prompt(1))).status).toBe(200))
})

it('takes fault scripts over its admin route and refuses nonsense', async () => {
  const engine = await start()
  await arm(engine, [fault('status', { status: 503, count: 1 })])
  expect((await complete(engine, prompt(1))).status).toBe(503)
  expect((await post(engine, { fault: 'earthquake' })).status).toBe(400)
  expect((await fetch(`${engine.url}/sim/faults`, { method: 'DELETE' })).status).toBe(200)
  expect(await (await fetch(`${engine.url}/sim/faults`)).json()).toEqual([])
})

it('takes every fault over its admin route as it takes it from a script', async () => {
  const script = faultKinds.map((kind) => fault(kind, { at_ms: 600_000, for_ms: 5, worker: 0 }))
  const scripted = await start({ faults: parseFaults(script) })
  const told = await start()
  await arm(told, script)
  const listOf = async ({ url }: SimEngine): Promise<unknown> => (await fetch(`${url}/sim/faults`)).json()
  expect(await listOf(told)).toEqual(await listOf(scripted))
  expect(await listOf(told)).toHaveLength(faultKinds.length)
})

it('strikes the same occasions for the same seed', async () => {
  const strikes = async () => {
    const engine = await start({ seed: 7 })
    await arm(engine, fault('status', { share: 0.5 }))
    const statuses: number[] = []
    for (let index = 0; index < 12; index++) statuses.push((await fetch(`${engine.url}/version`)).status)
    return statuses
  }
  const first = await strikes()
  expect(new Set(first)).toEqual(new Set([200, 503]))
  expect(await strikes()).toEqual(first)
})
