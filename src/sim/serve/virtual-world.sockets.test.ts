// Engines' own times, which no test waits for on a real clock: they cost nothing on the virtual one.
import { createServer } from 'node:net'
import { expect, it } from 'vitest'
import { askEngine } from './ask-engine.case.js'
import { MemoryNet } from './memory-net.js'
import type { SimEngine } from './sim-engine.js'
import { startSimEngineIn } from './sim-engine.js'
import type { PairKind } from './sim-options.js'
import { VirtualWorld } from './virtual-world.js'

function start(world: VirtualWorld, engine: 'vllm' | 'sglang', kind: PairKind): Promise<SimEngine> {
  return startSimEngineIn(world, { engine, blockTokens: 16, events: false, pair: { kind } })
}

const prompt = Array.from({ length: 64 }, (_, at) => 300 + at)
const room = (prefill: SimEngine): object => ({
  prompt,
  max_tokens: 2,
  bootstrap_host: '127.0.0.1',
  bootstrap_port: prefill.pairPort,
  bootstrap_room: 7,
})

it('vLLM holds KV for thirty seconds, to the millisecond', async () => {
  const world = new VirtualWorld()
  const prefill = await start(world, 'vllm', 'nixl')
  const kv_transfer_params = { do_remote_decode: true, do_remote_prefill: false }
  const body = { prompt, max_tokens: 1, kv_transfer_params }
  await world.during(askEngine(world, prefill.port, '/v1/completions', body))
  const heldAtMs = world.clock.now()
  expect(prefill.stats()).toMatchObject({ held: 1, ranks: [{ active_blocks: 4 }] })
  await world.pass(29_999)
  expect(prefill.stats().held).toBe(1)
  await world.until(() => prefill.stats().held === 0)
  expect(world.clock.now() - heldAtMs).toBeCloseTo(30_000, 6)
  expect(prefill.stats().ranks[0]!.active_blocks).toBe(0)
  await prefill.close()
})

it.each([
  ['prefill', 'Prefill bootstrap failed'],
  ['decode', 'Decode transfer failed'],
] as const)('SGLang: a %s leg waits for its other half for five minutes', async (kind, message) => {
  const world = new VirtualWorld()
  const [prefill, decode] = [await start(world, 'sglang', 'prefill'), await start(world, 'sglang', 'decode')]
  const leg = kind === 'prefill' ? prefill : decode
  const said = await world.during(askEngine(world, leg.port, '/v1/completions', room(prefill)))
  expect([said.status, world.clock.now()]).toEqual([500, 300_000])
  expect(said.text).toContain(message)
  expect(prefill.stats().held).toBe(0)
  for (const engine of [prefill, decode]) await engine.close()
})

it('SGLang: a decode leg finds out by two heartbeats that its prefill side died', async () => {
  const world = new VirtualWorld()
  const [prefill, decode] = [await start(world, 'sglang', 'prefill'), await start(world, 'sglang', 'decode')]
  const asked = world.during(askEngine(world, decode.port, '/v1/completions', room(prefill)))
  await world.until(() => prefill.stats().held === 1)
  await prefill.close()
  expect([(await asked).status, world.clock.now()]).toEqual([500, 10_000])
  await decode.close()
})

it('says when nothing can happen any more', async () => {
  const world = new VirtualWorld()
  await expect(world.during(new Promise(() => {}))).rejects.toThrow('nothing can happen any more')
})

it('connects nobody where nobody listens, and nobody twice to one port', async () => {
  const net = new MemoryNet()
  const server = createServer()
  const port = await net.listen(server, '', 0)
  await expect(net.listen(createServer(), '', port)).rejects.toThrow('EADDRINUSE')
  await net.close(server)
  const socket = net.connect('', port)
  await expect(new Promise((_, reject) => socket.once('error', reject))).rejects.toThrow('ECONNREFUSED')
})
