// Where the two sides of a model meet, in whichever order its workers appear: `warmroute serve` over simulated servers.
// Upstream's meeting has a model and a namespace for a name; a gateway is one namespace, so here the model alone is left.
import { afterEach, expect, it } from 'vitest'
import type { Served } from '../../src/cli/serve.js'
import { serve } from '../../src/cli/serve.js'
import type { SimEngine } from '../../src/sim/index.js'
import { startSimEngine } from '../../src/sim/index.js'
import { expectClosed } from '../closed-router.js'
import { post } from './pair-house.js'

type Role = 'prefill' | 'decode'

const waits = 'only prefills, and nobody decodes its model yet'

const open: { close(): Promise<void> }[] = []
let served: Served
let engines = 0
afterEach(async () => {
  await served.close()
  await expectClosed(served)
  for (const it of open.splice(0)) await it.close()
})

async function engine(role: Role, model = 'sim'): Promise<SimEngine> {
  const kvRole = role === 'prefill' ? 'kv_producer' : 'kv_consumer'
  const worker = engines++
  const pair = { kind: 'nixl', engineId: `engine-${worker}`, kvRole } as const
  const started = await startSimEngine({ engine: 'vllm', worker, models: [model], blockTokens: 16, speedup: 100, pair })
  open.push(started)
  return started
}

async function start(...workers: readonly (readonly [Role, SimEngine])[]): Promise<void> {
  const list = JSON.stringify(workers.map(([role, { url }]) => ({ url, role })))
  const words = ['--port', '0', '--log', 'off', '--skip-initial-worker-wait', '--workers', list]
  served = await serve({ words, env: {}, times: { watchMs: 100, retryMs: [50, 200] } })
}

/** What became of every address: its model and role, or why it is not there. */
function places(): (string | undefined)[] {
  return served.assembly.reports().map(({ model, role, absence }) => absence ?? `${model}: ${role}`)
}

async function until(...expected: readonly (string | undefined)[]): Promise<void> {
  await served.assembly.until(() => places().join() === expected.join(), 10_000)
  expect(places()).toEqual(expected)
}

async function add(id: string, role: Role, { url }: SimEngine, model = 'sim'): Promise<void> {
  const body = JSON.stringify({ id, model, url, role })
  const reply = await fetch(`${served.address.url}/workers`, { method: 'POST', body })
  expect(reply.status, await reply.text()).toBeLessThan(300)
}

async function remove(id: string): Promise<void> {
  expect((await fetch(`${served.address.url}/workers/${id}`, { method: 'DELETE' })).status).toBe(200)
}

/** Who prefilled and who decoded. */
async function ask(model = 'sim'): Promise<(string | null)[]> {
  const body = { model, messages: [{ role: 'user', content: 'Where do we meet? '.repeat(9) }], max_tokens: 2 }
  const { headers, status } = await post(served.address.url, '/v1/chat/completions', body)
  expect(status).toBe(200)
  return ['prefill-worker-id', 'worker-id'].map((name) => headers.get(`x-warmroute-${name}`))
}

it('prefill workers that come first wait, all of them, until somebody decodes their model', async () => {
  const [first, second, decode] = [await engine('prefill'), await engine('prefill'), await engine('decode')]
  await start(['prefill', first], ['prefill', second])
  await until(waits, waits)
  await add('3', 'decode', decode)
  await until('sim: prefill', 'sim: prefill', 'sim: decode')
  const [prefill, decoder] = await ask()
  expect(['1', '2']).toContain(prefill)
  expect(decoder).toBe('3')
})

it('one that left while it waited does not join', async () => {
  const [gone, stays, decode] = [await engine('prefill'), await engine('prefill'), await engine('decode')]
  await start(['prefill', gone], ['prefill', stays])
  await until(waits, waits)
  await remove('1')
  await add('3', 'decode', decode)
  await until('does not answer yet', 'sim: prefill', 'sim: decode')
  expect(served.assembly.gateway.workers().map(({ id }) => id)).toEqual(['3', '2'])
  expect(await ask()).toEqual(['2', '3'])
})

it('a decode worker that comes first serves alone, and has its prompts computed elsewhere once somebody does that', async () => {
  const [decode, prefill] = [await engine('decode'), await engine('prefill')]
  await start(['decode', decode])
  await until('sim: decode')
  expect(await ask()).toEqual([null, '1'])
  await add('2', 'prefill', prefill)
  await until('sim: decode', 'sim: prefill')
  expect(await ask()).toEqual(['2', '1'])
})

it('models meet apart from each other', async () => {
  const [prefill, other] = [await engine('prefill', 'a'), await engine('decode', 'b')]
  await start(['prefill', prefill], ['decode', other])
  await until(waits, 'b: decode')
  expect(await ask('b')).toEqual([null, '2'])
  await add('3', 'decode', await engine('decode', 'a'), 'a')
  await until('a: prefill', 'b: decode', 'a: decode')
  expect(await ask('a')).toEqual(['1', '3'])
  expect(await ask('b')).toEqual([null, '2'])
})

it('a second decode worker shares the prefill workers, and one that comes after the last left finds them', async () => {
  const [prefill, decode, second] = [await engine('prefill'), await engine('decode'), await engine('decode')]
  await start(['prefill', prefill], ['decode', decode])
  await until('sim: prefill', 'sim: decode')
  await add('3', 'decode', second)
  await until('sim: prefill', 'sim: decode', 'sim: decode')
  await remove('2')
  expect(await ask()).toEqual(['1', '3'])
  await remove('3')
  await add('4', 'decode', decode)
  await until('sim: prefill', 'does not answer yet', 'sim: decode')
  expect(await ask()).toEqual(['1', '4'])
})
