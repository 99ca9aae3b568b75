// A TensorRT-LLM server as its documentation has it: it says little of itself, and its events are a queue that a poll empties.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { afterEach, expect, it } from 'vitest'
import type { ClosedRouter } from '../../../test/closed-router.js'
import { expectClosed } from '../../../test/closed-router.js'
import { defaultRouterConfig } from '../../core/protocol/index.js'
import { Assembly } from './assembly.js'

const blockSize = 4
/** A limit on waits that end by themselves: on a busy machine the tokenizer alone takes ten seconds to load. */
const patienceMs = 50_000
const open: (() => unknown)[] = []
const routers: ClosedRouter[] = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
  await expectClosed(...routers.splice(0))
})

/** Blocks are named by the text of their chain; ids of events begin again with every process. */
class FakeTrtllm {
  readonly cached = new Set<string>()
  queue: unknown[] = []
  polls = 0
  #nextId = 0
  readonly #hashes = new Map<string, number>()

  restart(): void {
    this.cached.clear()
    this.queue = []
    this.#nextId = 0
    this.#say({ type: 'created', num_blocks_per_cache_level: [100, 0] })
  }

  drain(): string {
    this.polls++
    return JSON.stringify(this.queue.splice(0))
  }

  /** Tokens of the prompt that were cached; the rest is stored, a partial block last. */
  complete(prompt: readonly number[]): number {
    const chains = Array.from({ length: Math.ceil(prompt.length / blockSize) }, (_, at) =>
      prompt.slice(0, blockSize * (at + 1)),
    )
    const hits = chains.findIndex((chain) => !this.cached.has(chain.join()))
    const fresh = hits < 0 ? [] : chains.slice(hits)
    const blocks = fresh.map((chain) => ({
      type: 'stored_block',
      block_hash: this.#hashOf(chain),
      tokens: chain
        .slice(blockSize * Math.floor((chain.length - 1) / blockSize))
        .map((token_id) => ({ token_id, token_extra_id: 0 })),
      cache_level: 0,
      priority: 35,
    }))
    for (const chain of fresh) if (chain.length % blockSize === 0) this.cached.add(chain.join())
    const parent_hash = hits > 0 ? this.#hashOf(chains[hits - 1]!) : null
    if (blocks.length > 0) this.#say({ type: 'stored', parent_hash, blocks })
    return Math.min(blockSize * (hits < 0 ? chains.length : hits), prompt.length - 1)
  }

  evict(chain: readonly number[]): void {
    this.cached.delete(chain.join())
    this.#say({ type: 'removed', block_hashes: [this.#hashOf(chain)] })
  }

  loseAnEvent(): void {
    this.#nextId++
  }

  #hashOf(chain: readonly number[]): number {
    const name = chain.join()
    if (!this.#hashes.has(name)) this.#hashes.set(name, 1000 + this.#hashes.size)
    return this.#hashes.get(name)!
  }

  #say(data: unknown): void {
    this.queue.push({ event_id: this.#nextId++, window_size: 4096, data })
  }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request.setEncoding('utf8')) text += chunk
  return text
}

async function startFake() {
  const engine = new FakeTrtllm()
  engine.restart()
  const server = createServer((request, response) => {
    const answer = (status: number, body: string): void =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(body)
    void bodyOf(request).then((text) => {
      if (request.url === '/v1/models')
        return answer(200, '{"object":"list","data":[{"id":"m","object":"model","owned_by":"tensorrt_llm"}]}')
      if (request.url === '/health') return answer(200, '')
      if (request.url === '/version') return answer(200, '{"version":"1.2.0"}')
      if (request.url === '/server_info')
        return answer(200, `{"disaggregated_params":null,"tokens_per_block":${blockSize}}`)
      if (request.url === '/kv_cache_events' && request.method === 'POST') return answer(200, engine.drain())
      if (request.url !== '/v1/completions') return answer(404, '{"detail":"Not Found"}')
      const { prompt } = JSON.parse(text) as { prompt: number[] }
      const usage = {
        prompt_tokens: prompt.length,
        completion_tokens: 1,
        total_tokens: prompt.length + 1,
        prompt_tokens_details: { cached_tokens: engine.complete(prompt) },
      }
      const choices = [{ index: 0, text: 'a', finish_reason: 'length' }]
      answer(200, JSON.stringify({ id: 'x', object: 'text_completion', created: 1, model: 'm', choices, usage }))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  open.push(() => new Promise((resolve) => server.close(resolve)))
  open.push(() => server.closeAllConnections())
  return { engine, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

function tokenizerFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'warmroute-trtllm-'))
  open.push(() => rmSync(folder, { recursive: true }))
  const fixture = new URL('../../../test/fixtures/tinyllama/', import.meta.url)
  writeFileSync(join(folder, 'tokenizer.json'), gunzipSync(readFileSync(new URL('tokenizer.json.gz', fixture))))
  writeFileSync(join(folder, 'tokenizer_config.json'), readFileSync(new URL('tokenizer_config.json', fixture)))
  return folder
}

async function assemble(url: string, trtllmPollMs: number, hasTokenizer = true) {
  const assembly = new Assembly({
    workers: [{ url }],
    config: defaultRouterConfig,
    gateway: { listen: { port: 0 } },
    times: { watchMs: 50, retryMs: [20, 100], missesMax: 50, probeMs: 10_000 },
    tokenPlaces: hasTokenizer ? { path: tokenizerFolder() } : undefined,
    trtllmPollMs,
  })
  open.push(() => assembly.close())
  const address = await assembly.listen()
  routers.push({ assembly, address })
  const ask = async (prompt: readonly number[]) => {
    const response = await fetch(`${address.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', prompt, max_tokens: 1 }),
    })
    const { usage } = (await response.json()) as { usage: { prompt_tokens_details: { cached_tokens: number } } }
    const predicted = Number(response.headers.get('x-warmroute-cached-tokens'))
    return { predicted, reported: usage.prompt_tokens_details.cached_tokens }
  }
  const status = () => assembly.gateway.workers()[0]!.ranks[0]
  return { assembly, ask, status }
}

const promptOf = (family: number, length: number): number[] => Array.from({ length }, (_, at) => 1000 * family + at)

it('is exact with a TensorRT-LLM server whose queue it polls, through evictions, lost events and a restart', async () => {
  const { engine, url } = await startFake()
  const { assembly, ask, status } = await assemble(url, 5)
  const isMode = (mode: string) => assembly.until(([it]) => it?.verdict?.mode === mode, patienceMs)
  expect(await isMode('exact')).toBe(true)
  /** What was said has been asked for, and asked for again. */
  const settle = async (): Promise<void> => {
    const { polls } = engine
    expect(await assembly.until(() => engine.queue.length === 0 && engine.polls > polls + 2, patienceMs)).toBe(true)
  }
  const expectExact = async (family: number, cached: number, length = 22): Promise<void> => {
    expect(await ask(promptOf(family, length))).toEqual({ predicted: cached, reported: cached })
    await settle()
  }
  await expectExact(1, 0)
  await expectExact(1, 20)
  await expectExact(1, 20, 30)
  await expectExact(2, 0)
  engine.evict(promptOf(1, 12))
  await settle()
  await expectExact(1, 8)
  engine.loseAnEvent()
  await expectExact(3, 0) // its event shows the gap, and costs everything that was known
  await settle()
  expect(status()!.purges).toMatchObject({ undecodable: 1 })
  expect(status()!.decode_errors).toEqual({ lost_events: 1 })
  expect((await ask(promptOf(2, 22))).predicted).toBe(0) // the engine has it: less credit, never too much
  await settle()
  engine.restart()
  await settle()
  await expectExact(2, 0)
  await expectExact(2, 20)
  expect(status()!.purges).toMatchObject({ undecodable: 2 })
}, 60_000)

it('never asks for events unless it is told that nobody else does', async () => {
  const { engine, url } = await startFake()
  const { assembly, ask } = await assemble(url, 0)
  expect(
    await assembly.until(([it]) => it?.verdict?.reason?.includes('where its events are') === true, patienceMs),
  ).toBe(true)
  expect(assembly.reports()[0]!.verdict).toMatchObject({
    mode: 'approximate',
    fix: expect.stringContaining('trtllm_poll_ms'),
  })
  expect((await ask(promptOf(1, 22))).reported).toBe(0)
  expect(engine.polls).toBe(0)
}, 60_000)

it('is not exact with a TensorRT-LLM server that has no tokenizer files, and says why', async () => {
  const { engine, url } = await startFake()
  const { assembly } = await assemble(url, 5, false)
  expect(await assembly.until(() => engine.polls > 5, patienceMs)).toBe(true)
  expect(await assembly.until(([it]) => it?.verdict?.reason?.includes('TensorRT-LLM') === true, patienceMs)).toBe(true)
  expect(assembly.reports()[0]).toMatchObject({
    tokens: { source: 'none' },
    verdict: {
      mode: 'approximate',
      reason: expect.stringContaining('TensorRT-LLM tokenizes no chats'),
      fix: 'warmroute serve --tokenizer <folder>',
    },
  })
}, 60_000)
