// Goal: a router that is killed without warning is exact with its first request after it comes back.
// Method: `warmroute serve` as a process of its own before simulated engines whose replay reaches back only a little.
import { existsSync, mkdtempSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { expectClosed } from '../../test/closed-router.js'
import { eventually } from '../../test/real/real-house.js'
import { askOnce, loadOn } from '../../test/real/router-restart.js'
import type { RouterPlace } from '../../test/real/spawned-router.js'
import {
  freePort,
  isExact,
  restoreOutcomes,
  serveWords,
  snapshotFile,
  spawnRouter,
} from '../../test/real/spawned-router.js'
import type { SimEngine } from '../sim/index.js'
import { startSimEngine } from '../sim/index.js'
import type { Served } from './serve.js'
import { serve } from './serve.js'

const folders: string[] = []
const routers: { close(): Promise<void> }[] = []
const started: Served[] = []
const engines: SimEngine[] = []
afterEach(async () => {
  for (const router of routers.splice(0)) await router.close()
  await expectClosed(...started.splice(0))
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

async function startRouter(place: RouterPlace): Promise<Served & { readonly url: string; readonly file: string }> {
  const served = await serve({ words: serveWords(place), env: {} })
  routers.push(served)
  started.push(served)
  const { url } = served.address
  await until(() => isExact(url, place.engineUrls.length))
  return { ...served, url, file: snapshotFile(place) }
}

async function until(fits: () => boolean | Promise<boolean>): Promise<void> {
  if (!(await eventually(fits, 40_000))) throw new Error('it never came true')
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'warmroute-memory-'))
  folders.push(folder)
  return folder
}

/** Half of them on each worker. */
const holderOf = (topic: number): string => String(1 + (topic % 2))

it('is exact with the first request after kill -9 under load, and drops what a restarted engine had', async () => {
  const [first, second] = [await newEngine(), await newEngine()]
  const place = { port: await freePort(), folder: newFolder(), engineUrls: [first.url, second.url] }
  const router = await spawnRouter(place)
  routers.push({ close: async () => router.kill() })
  const batches = () => [first, second].map((it) => it.stats().ranks[0]!.batches_numbered)
  const topics: number[] = []
  while (Math.min(...batches()) <= ring + 10) {
    topics.push(topics.length) // until replay alone could not bring it all back
    await askOnce(router, topics.at(-1)!, holderOf(topics.at(-1)!))
  }
  await router.saved()

  const load = [loadOn(router, 100), loadOn(router, 200)]
  await until(() => load.every((it) => it.answered > 3))
  router.kill()
  await Promise.all(load.map((it) => it.ended))
  await until(() => first.stats().in_flight + second.stats().in_flight === 0)

  const again = await startRouter(place)
  expect(await restoreOutcomes(again.url)).toEqual({ restored: 2 })
  for (const topic of topics) {
    const { predicted, reported } = await askOnce(again, topic, holderOf(topic))
    expect(reported).toBeGreaterThan(200)
    expect(predicted).toBe(reported)
  }

  await again.close() // and says what it knows once more
  await second.restart()
  const third = await startRouter(place)
  expect(await restoreOutcomes(third.url)).toEqual({ restored: 1, other_incarnation: 1 })
  for (const topic of topics) {
    const { predicted, reported } = await askOnce(third, topic, holderOf(topic))
    expect(predicted).toBe(reported)
    expect(reported > 200).toBe(holderOf(topic) === '1')
  }
}, 120_000)

it('writes once more when it ends, and learns anew from a file that is damaged', async () => {
  const engine = await newEngine()
  const place = { port: await freePort(), folder: newFolder(), engineUrls: [engine.url] }
  const router = await startRouter(place)
  await askOnce(router, 1)
  await until(() => existsSync(router.file))
  const shown = async (url: string): Promise<string> => (await fetch(`${url}/metrics`)).text()
  await until(async () => /^warmroute_snapshot_bytes [1-9]/m.test(await shown(router.url)))
  expect(await shown(router.url)).toMatch(/^warmroute_snapshot_pause_seconds 0\.\d+$/m)
  rmSync(router.file)
  await router.close()
  expect(readdirSync(place.folder)).toEqual([`caches-${place.port}.snapshot`])
  writeFileSync(router.file, 'not a snapshot')
  const again = await startRouter(place)
  expect(await restoreOutcomes(again.url)).toEqual({ unreadable: 1 })
  expect(await shown(again.url)).toContain('warmroute_snapshot_ranks_total{outcome="unreadable"} 1\n')
  const { predicted, reported } = await askOnce(again, 1)
  expect(predicted).toBe(reported)
  expect(reported).toBeGreaterThan(100) // the replay reaches back that far
}, 60_000)

it('goes on where nothing can be written, and counts it', async () => {
  const engine = await newEngine()
  const folder = join(newFolder(), 'snapshots')
  symlinkSync(newFolder(), folder)
  const router = await startRouter({ port: await freePort(), folder, engineUrls: [engine.url] })
  writeFileSync(`${folder}.file`, '')
  renameSync(`${folder}.file`, folder) // in one step: the router may just be writing there
  const saves = async () => (await fetch(`${router.url}/metrics`)).text()
  await until(async () => /^warmroute_snapshot_saves_total\{outcome="failed"\} [2-9]/m.test(await saves()))
  expect((await askOnce(router, 1)).reported).toBe(0)
})
