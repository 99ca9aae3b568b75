import type { Server } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import type { ClosedRouter } from '../../../test/closed-router.js'
import { expectClosed, timersLeft } from '../../../test/closed-router.js'
import { defaultRouterConfig } from '../../core/protocol/index.js'
import type { SimEngine } from '../../sim/index.js'
import { parseFaults, startSimEngine } from '../../sim/index.js'
import { Assembly } from './assembly.js'
import type { AddressReport, AssemblyOptions } from './assembly-options.js'
import type { WorkerAddress } from './worker-keeper.js'

const open: { close(): Promise<void> }[] = []
const routers: ClosedRouter[] = []
afterEach(async () => {
  for (const it of open.splice(0).reverse()) await it.close()
  await expectClosed(...routers.splice(0))
})

async function engine(): Promise<SimEngine> {
  const started = await startSimEngine({ engine: 'vllm', speedup: 100, blockTokens: 16 })
  open.push(started)
  return started
}

/** Counts what it says of workers that could not join. */
function assemble(
  workers: readonly WorkerAddress[],
  options: Partial<AssemblyOptions> = {},
): { readonly assembly: Assembly; readonly refusals: string[] } {
  const refusals: string[] = []
  const warn = (fields: object, sentence: string): void => {
    if (sentence === 'a worker could not join') refusals.push(JSON.stringify(fields))
  }
  const times = { watchMs: 50, retryMs: [20, 100] as const, missesMax: 2, probeMs: 10_000 }
  const log = { debug() {}, info() {}, warn }
  const assembly = new Assembly({ workers, config: defaultRouterConfig, times, log, ...options })
  open.push(assembly)
  routers.push({ assembly })
  return { assembly, refusals }
}

it('goes on without a worker that the gateway refuses, and tries it again', async () => {
  const [decode, prefill] = [await engine(), await engine()]
  const { assembly, refusals } = assemble([
    { url: decode.url, role: 'decode' },
    { url: prefill.url, role: 'prefill', transfer: { connector: 'mooncake' } }, // without the ids that it needs
  ])
  expect(await assembly.until(() => refusals.length > 4, 10_000)).toBe(true)
  expect(refusals[0]).toContain('engine_ids')
  expect(assembly.reports()).toMatchObject([
    { state: 'joined', model: 'sim' },
    { model: undefined, verdict: undefined, absence: expect.stringMatching(/^is refused: .*engine_ids/) as string },
  ])
  expect(assembly.gateway.workers().map(({ id }) => id)).toEqual(['1'])
})

it('shows who is known and not in, with the reason, and forgets them when told to', async () => {
  const { world, url } = await talker()
  const { url: prefillUrl } = await engine()
  world.isUp = false
  const { assembly } = assemble(
    [{ url }, { url: prefillUrl, role: 'prefill' }, { url: 'http://127.0.0.1:9', role: 'decode' }],
    { gateway: { listen: { port: 0 } } },
  )
  const { url: ours } = await assembly.listen()
  const listed = async (): Promise<object[]> => {
    const text = await (await fetch(`${ours}/workers`)).text()
    return (JSON.parse(text) as { workers: object[] }).workers
  }
  await assembly.looked()
  expect(await listed()).toEqual([
    { id: '1', url, state: 'waiting', reason: 'does not answer yet: /v1/models answered 503' },
    {
      id: '2',
      url: prefillUrl,
      model: 'sim',
      state: 'waiting',
      reason: 'only prefills, and nobody decodes its model yet',
    },
    { id: '3', url: 'http://127.0.0.1:9', state: 'waiting', reason: expect.stringContaining('ECONNREFUSED') as string },
  ])
  world.isUp = true
  expect(await assembly.until(([it]) => it!.verdict !== undefined, 10_000)).toBe(true)
  const twin = await fetch(`${ours}/workers`, {
    method: 'POST',
    body: JSON.stringify({ model: 'm', url: 'http://127.0.0.1:9' }),
  })
  expect([twin.status, await twin.text()]).toEqual([400, expect.stringContaining('worker 3 has the url')])
  expect((await fetch(`${ours}/workers/2`, { method: 'DELETE' })).status).toBe(200)
  expect((await fetch(`${ours}/workers/3/drain`, { method: 'POST' })).status).toBe(202)
  expect(await listed()).toMatchObject([{ id: '1', url, state: 'ready' }])
  for (const id of [2, 3]) expect((await fetch(`${ours}/workers/${id}`, { method: 'DELETE' })).status).toBe(404)
})

it('is not taken for closed while it runs', async () => {
  const { assembly } = assemble([{ url: (await engine()).url }])
  expect(timersLeft()).not.toEqual([])
  await expect(expectClosed({ assembly })).rejects.toThrow('undefined')
})

/** A vLLM that says of itself what the test wants, and never ends a chat. */
async function talker() {
  const world = { isUp: true, blocks: 101, context: 4096, chats: 0 }
  const server = createServer((request, response) => {
    request.resume()
    if (request.url === '/v1/chat/completions') return void world.chats++
    if (!world.isUp) return void response.writeHead(503).end()
    const card = { id: 'm', owned_by: 'vllm', max_model_len: world.context }
    const labels = `block_size="16",engine="0",num_gpu_blocks="${world.blocks}"`
    const pages: Record<string, string> = {
      '/v1/models': JSON.stringify({ object: 'list', data: [card] }),
      '/metrics': `# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{${labels}} 1.0\n`,
      '/health': '',
    }
    const page = pages[request.url!]
    response.writeHead(page === undefined ? 404 : 200, { 'content-type': 'application/json' }).end(page ?? '{}')
  })
  return { world, url: await listen(server) }
}

/** On a free port, until the test is over. */
async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  open.push({
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function metric({ gateway }: Assembly, name: string): number {
  return Number(new RegExp(`^${name}\\S* (\\S+)$`, 'm').exec(gateway.metrics.registry.text())?.[1])
}

it('tells the gateway of capacities that changed, though what is known of the cache has not', async () => {
  const { world, url } = await talker()
  const { assembly } = assemble([{ url }])
  const told = (): number[] =>
    ['dynamo_frontend_model_total_kv_blocks', 'dynamo_frontend_model_context_length'].map((it) => metric(assembly, it))
  const isKnown = ([it]: readonly AddressReport[]): boolean =>
    it?.verdict?.reason === 'it does not say where its events are'
  expect(await assembly.until((reports) => told().join() === '100,4096' && isKnown(reports), 10_000)).toBe(true)
  const [before] = assembly.reports()
  Object.assign(world, { blocks: 301, context: 8192 })
  expect(await assembly.until(() => told().join() === '300,8192', 10_000)).toBe(true)
  expect(assembly.reports()[0]!.verdict).toEqual(before!.verdict)
})

it('does not bring back a worker that fell silent while it drained', async () => {
  const { world, url } = await talker()
  const gateway = { listen: { port: 0 }, health: { intervalMs: 0, timeoutMs: 50 } }
  const { assembly } = assemble([{ url }], { gateway })
  const address = await assembly.listen()
  expect(await assembly.until(([it]) => it!.state === 'joined' && it!.model === 'm', 10_000)).toBe(true)
  const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'for ever' }] })
  const headers = { 'content-type': 'application/json' }
  const chat = fetch(`${address.url}/v1/chat/completions`, { method: 'POST', headers, body })
  expect(await assembly.until(() => world.chats === 1, 10_000)).toBe(true)
  void assembly.gateway.drainWorker(1n)
  expect(assembly.gateway.workers()).toMatchObject([{ state: 'draining' }])
  world.isUp = false
  expect(await assembly.until(([it]) => it!.state === 'dismissed', 10_000)).toBe(true)
  expect((await chat).status).toBeGreaterThanOrEqual(500)
  world.isUp = true
  expect(await assembly.until(([it]) => it!.state !== 'dismissed', 500)).toBe(false)
  expect(assembly.gateway.workers()).toEqual([])
})

it('keeps a worker whose metrics are slow exact and in use, and counts the looks that came to nothing', async () => {
  const slow = await engine()
  const gateway = { listen: { port: 0 }, health: { intervalMs: 0, metricsMs: 10, timeoutMs: 60 } }
  const times = { watchMs: 20, retryMs: [20, 100] as const, missesMax: 50, probeMs: 300 }
  const rules = () => ({ thresholds: { activeDecodeBlocksThreshold: 0.9 } }) // somebody needs the figures
  const { assembly } = assemble([{ url: slow.url }], { gateway, times, rules })
  const address = await assembly.listen()
  const isExact = () => assembly.reports()[0]!.verdict?.mode === 'exact'
  expect(await assembly.until(isExact, 10_000)).toBe(true)
  const polls = (outcome: string) => metric(assembly, `warmroute_load_polls_total.outcome="${outcome}"`) || 0
  expect(await assembly.until(() => polls('read') > 0, 10_000)).toBe(true)
  slow.arm(parseFaults({ fault: 'slow_metrics', ms: 600_000 }))
  const started = performance.now()
  expect(await assembly.until(() => polls('unanswered') > 5, 20_000)).toBe(true)
  while (performance.now() - started < 700) {
    const body = JSON.stringify({ model: 'sim', messages: [{ role: 'user', content: 'hello' }], max_tokens: 2 })
    const headers = { 'content-type': 'application/json' }
    const reply = await fetch(`${address.url}/v1/chat/completions`, { method: 'POST', headers, body })
    expect(reply.status).toBe(200)
    expect([await reply.text(), isExact()]).toEqual([expect.any(String), true])
  }
  const read = polls('read')
  slow.clearFaults()
  expect(await assembly.until(() => polls('read') > read, 10_000)).toBe(true)
  expect(assembly.reports()).toMatchObject([{ state: 'joined', restarts: 0 }])
})

/** The engine behind it, but for its routes for tokens while `isMute`; what it tells of its tokenizer comes after `told`. */
async function muted(url: string, told?: Promise<void>) {
  const world = { isMute: true }
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      if (world.isMute && /(render|\/tokenize)$/.test(request.url!)) return void response.writeHead(404).end('{}')
      const post = chunks.length > 0 ? { body: Buffer.concat(chunks) } : {}
      const headers = { 'content-type': 'application/json' }
      const before = request.url === '/tokenizer_info' ? told : undefined
      const forward = () => fetch(url + request.url!, { method: request.method!, headers, ...post })
      void Promise.resolve(before)
        .then(forward)
        .then(
          async (it) => void response.writeHead(it.status).end(Buffer.from(await it.arrayBuffer())),
          () => response.destroy(),
        )
    })
  })
  return { world, url: await listen(server) }
}

it('does not call a worker exact whose engine gives no tokens, says why, and does again when it gives some', async () => {
  const { world, url } = await muted((await engine()).url)
  const lines: Record<string, unknown>[] = []
  const note = (fields: Record<string, unknown>, sentence: string): void => {
    if (sentence.startsWith('prompts of a model')) lines.push({ sentence, ...fields })
  }
  const log = { debug() {}, info: note, warn: note }
  const { assembly } = assemble([{ url }], { gateway: { listen: { port: 0 } }, log })
  const address = await assembly.listen()
  const verdict = () => assembly.reports()[0]!.verdict
  expect(await assembly.until(() => verdict()?.mode === 'exact', 10_000)).toBe(true)
  let count = 0
  const ask = async (): Promise<void> => {
    const body = JSON.stringify({ model: 'sim', prompt: `number ${count++}`, max_tokens: 1 })
    const headers = { 'content-type': 'application/json' }
    const reply = await fetch(`${address.url}/v1/completions`, { method: 'POST', headers, body })
    expect([reply.status, await reply.text()]).toEqual([200, expect.any(String)])
  }
  for (let asked = 0; asked < 3; asked++) await ask()
  expect(await assembly.until(() => verdict()?.mode === 'approximate', 10_000)).toBe(true)
  expect(verdict()!.reason).toBe('no tokenizer knows its prompts: the engine answered 404 to /tokenize')
  world.isMute = false
  await ask()
  expect(await assembly.until(() => verdict()?.mode === 'exact', 10_000)).toBe(true)
  const where = { model: 'sim', source: 'engine', from: url }
  const known = { sentence: 'prompts of a model are routed by their tokens', ...where }
  const unknown = { sentence: 'prompts of a model are routed without their tokens', ...where }
  const why = 'the engine answered 404 to /tokenize'
  expect(lines).toEqual([known, { ...unknown, reason: 'source-failed', why }, known])
})

it('has judged everybody by the tokens that are there once every address was looked at', async () => {
  let tell = (): void => {}
  const told = new Promise<void>((resolve) => (tell = resolve))
  const urls = [(await muted((await engine()).url, told)).url, (await muted((await engine()).url, told)).url]
  const { assembly } = assemble(urls.map((url) => ({ url })))
  const lacks = ({ verdict }: AddressReport): boolean => verdict?.reason === 'no tokenizer knows its prompts'
  expect(await assembly.until((reports) => reports.some(lacks), 10_000)).toBe(true) // the other's tokens are waited for
  tell()
  await assembly.looked()
  expect(assembly.reports().filter(lacks)).toEqual([])
})
