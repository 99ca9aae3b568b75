// Goal: a router that is killed without warning is exact with its first request after it comes back.
// Method: `warmroute serve` as a process of its own before simulated engines whose replay reaches back only a little.
import type { ChildProcess } from 'node:child_process'
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { OpenAI } from 'openai'
import { afterEach, expect, it } from 'vitest'
import type { SimEngine } from '../sim/index.js'
import { startSimEngine } from '../sim/index.js'
import type { Served } from './serve.js'
import { serve } from './serve.js'

const script = fileURLToPath(new URL('./main.ts', import.meta.url))
const folders: string[] = []
const children: ChildProcess[] = []
const routers: Served[] = []
const engines: SimEngine[] = []
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  for (const router of routers.splice(0)) await router.close()
  for (const engine of engines.splice(0)) await engine.close()
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

const ring = 60

/** Its replay reaches back over a fraction of what the caches are made of. */
async function newEngine(): Promise<SimEngine> {
  const events = { bufferSteps: ring }
  const engine = await startSimEngine({ engine: 'vllm', speedup: 30, blockTokens: 16, blocks: 4096, events })
  engines.push(engine)
  return engine
}

interface Router {
  readonly url: string
  readonly file: string
}

function wordsOf(port: number, folder: string, urls: readonly string[]): string[] {
  const flags = ['--port', String(port), '--log', 'off', '--snapshot-folder', folder, '--snapshot-interval-secs', '0.1']
  return [...flags, ...urls]
}

/** A process of its own, to be killed. */
async function spawnRouter(port: number, folder: string, urls: readonly string[]): Promise<Router & { kill(): void }> {
  const words = ['--import', 'tsx', script, 'serve', ...wordsOf(port, folder, urls)]
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'ignore', 'inherit'] })
  children.push(child)
  const router = routerAt(port, folder)
  await until(async () => (await modes(router)).join() === urls.map(() => 'exact').join())
  return { ...router, kill: () => child.kill('SIGKILL') }
}

async function startRouter(port: number, folder: string, urls: readonly string[]): Promise<Router & Served> {
  const served = await serve({ words: wordsOf(port, folder, urls), env: {} })
  routers.push(served)
  const router = routerAt(port, folder)
  await until(async () => (await modes(router)).join() === urls.map(() => 'exact').join())
  return { ...served, ...router }
}

function routerAt(port: number, folder: string): Router {
  return { url: `http://127.0.0.1:${port}`, file: join(folder, `caches-${port}.snapshot`) }
}

async function modes({ url }: Router): Promise<string[]> {
  const reply = await fetch(`${url}/workers`).catch(() => undefined)
  const body = (await reply?.json()) as { readonly workers: readonly { readonly mode: string }[] } | undefined
  return body?.workers.map((worker) => worker.mode) ?? []
}

async function until(fits: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + 40_000
  while (!(await fits())) {
    if (performance.now() > end) throw new Error('it never came true')
    await pause(10)
  }
}

/** One turn over a long prompt of this topic. */
async function ask({ url }: Router, topic: number): Promise<{ predicted: number; reported: number }> {
  const ai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 })
  const content = `You know all about number ${topic}. `.repeat(30)
  const { data, response } = await ai.chat.completions
    .create({ model: 'sim', messages: [{ role: 'user', content }], max_tokens: 80 })
    .withResponse()
  return {
    predicted: Number(response.headers.get('x-warmroute-cached-tokens')),
    reported: data.usage!.prompt_tokens_details?.cached_tokens ?? 0,
  }
}

/** One request after the other, until one fails. */
function loadOn(router: Router, firstTopic: number): { answered: number; readonly ended: Promise<void> } {
  const load = { answered: 0, ended: Promise.resolve() }
  load.ended = (async () => {
    for (;;) {
      await ask(router, firstTopic + load.answered)
      load.answered++
    }
  })().catch(() => undefined)
  return load
}

/** How ranks of the snapshot ended, by outcome. */
async function outcomes({ url }: Router): Promise<Record<string, number>> {
  const text = await (await fetch(`${url}/metrics`)).text()
  const found = text.matchAll(/^warmroute_snapshot_ranks_total\{outcome="(\w+)"\} (\d+)$/gm)
  return Object.fromEntries([...found].map(([, outcome, count]) => [outcome, Number(count)]))
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'warmroute-memory-'))
  folders.push(folder)
  return folder
}

const topics = Array.from({ length: 40 }, (_, topic) => topic)

it('is exact with the first request after kill -9 under load, and drops what a restarted engine had', async () => {
  const [first, second] = [await newEngine(), await newEngine()]
  const [port, folder] = [await freePort(), newFolder()]
  const urls = [first.url, second.url]
  const router = await spawnRouter(port, folder, urls)
  for (const topic of topics) await ask(router, topic)
  const batches = () => [first, second].map((it) => it.stats().ranks[0]!.batches_numbered)
  expect(Math.min(...batches())).toBeGreaterThan(ring) // replay alone could not bring it all back
  const savedAt = statSync(router.file).mtimeMs
  await until(() => statSync(router.file).mtimeMs > savedAt)

  const load = [loadOn(router, 100), loadOn(router, 200)]
  await until(() => load.every((it) => it.answered > 3))
  router.kill()
  await Promise.all(load.map((it) => it.ended))
  await until(() => first.stats().in_flight + second.stats().in_flight === 0)

  const again = await startRouter(port, folder, urls)
  expect(await outcomes(again)).toEqual({ restored: 2 })
  for (const topic of topics) {
    const { predicted, reported } = await ask(again, topic)
    expect(reported).toBeGreaterThan(200)
    expect(predicted).toBe(reported)
  }

  await again.close() // and says what it knows once more
  await second.restart()
  const third = await startRouter(port, folder, urls)
  expect(await outcomes(third)).toEqual({ restored: 1, other_incarnation: 1 })
  const warm: number[] = []
  for (const topic of topics) {
    const { predicted, reported } = await ask(third, topic)
    expect(predicted).toBe(reported)
    if (reported > 200) warm.push(topic)
  }
  expect(warm.length).toBeGreaterThan(0)
  expect(warm.length).toBeLessThan(topics.length)
}, 120_000)

it('writes once more when it ends, and learns anew from a file that is damaged', async () => {
  const engine = await newEngine()
  const [port, folder] = [await freePort(), newFolder()]
  const router = await startRouter(port, folder, [engine.url])
  await ask(router, 1)
  await until(() => existsSync(router.file))
  rmSync(router.file)
  await router.close()
  expect(readdirSync(folder)).toEqual([`caches-${port}.snapshot`])
  writeFileSync(router.file, 'not a snapshot')
  const again = await startRouter(port, folder, [engine.url])
  expect(await outcomes(again)).toEqual({ unreadable: 1 })
  const { predicted, reported } = await ask(again, 1)
  expect(predicted).toBe(reported)
  expect(reported).toBeGreaterThan(100) // the replay reaches back that far
}, 60_000)

it('goes on where nothing can be written, and counts it', async () => {
  const engine = await newEngine()
  const folder = join(newFolder(), 'a file')
  writeFileSync(folder, '')
  const router = await startRouter(await freePort(), folder, [engine.url])
  const saves = async () => (await fetch(`${router.url}/metrics`)).text()
  await until(async () => /^warmroute_snapshot_saves_total\{outcome="failed"\} [2-9]/m.test(await saves()))
  expect((await ask(router, 1)).reported).toBe(0)
})
