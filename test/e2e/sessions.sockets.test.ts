// Sessions inside SGLang, from `nvext.session_control` to the engine: open, bind, use, close, expire. The simulated engine
// refuses what a real one refuses: a second session of one name, and a request that names a session which is not open.
import { afterEach, expect, it } from 'vitest'
import { serve } from '../../src/cli/serve.js'
import { startSimEngine } from '../../src/sim/index.js'
import type { SimHouse } from './sim-house.js'
import { openSimHouse } from './sim-house.js'

let house: SimHouse | undefined
let laterMs = 0

afterEach(async () => {
  await house?.close()
  house = undefined
  laterMs = 0
})

async function open(ranks = 1): Promise<SimHouse> {
  const options = { now: () => performance.now() + laterMs }
  const config = { dataParallelStartRank: 0, dataParallelSize: ranks }
  house = await openSimHouse(['sglang', 'sglang'], options, { ranks }, { config })
  return house
}

interface Asked {
  readonly status: number
  readonly worker: string
  readonly text: string
}

async function ask(
  path: '/generate' | '/v1/chat/completions',
  action?: 'open' | 'close',
  id = 's',
  to = house!.url,
  more: object = {},
): Promise<Asked> {
  const control = { session_id: id, timeout: 60, ...(action ? { action } : {}) }
  const text = 'the whole conversation, every time. '.repeat(10)
  const prompt =
    path === '/generate'
      ? { text, sampling_params: { max_new_tokens: 4 } }
      : { messages: [{ role: 'user', content: text }], max_tokens: 4 }
  const body = JSON.stringify({ model: 'sim', ...prompt, ...more, nvext: { session_control: control } })
  const response = await fetch(`${to}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  })
  const worker = response.headers.get('x-warmroute-worker-id') ?? ''
  return { status: response.status, worker, text: await response.text() }
}

function totals(): { open: number; inside: number } {
  const stats = house!.engines.map((engine) => engine.stats())
  return {
    open: stats.reduce((sum, it) => sum + it.sessions, 0),
    inside: stats.reduce((sum, it) => sum + it.session_requests, 0),
  }
}

async function until(holds: () => boolean): Promise<void> {
  const end = performance.now() + 5_000
  while (!holds() && performance.now() < end) await new Promise((resolve) => setTimeout(resolve, 5))
  expect(holds()).toBe(true)
}

// A real 0.5.23 answers 400 to both names at once (test/fixtures/sglang/generate.json).
it('a session_id of the client does not stand beside the session that was opened for it', async () => {
  await open()
  const named = { session_id: 'of the client' }
  for (const action of ['open', undefined] as const)
    expect(await ask('/generate', action, 's', house!.url, named)).toMatchObject({ status: 200 })
  expect(totals()).toEqual({ open: 1, inside: 2 })
})

it('opens a session on the chosen worker, runs every request of it inside, and closes it after the last', async () => {
  await open()
  const first = await ask('/generate', 'open')
  expect(first.status).toBe(200)
  expect(totals()).toEqual({ open: 1, inside: 1 })
  for (let turn = 0; turn < 3; turn++) expect((await ask('/generate')).worker).toBe(first.worker)
  expect((await ask('/v1/chat/completions')).worker).toBe(first.worker)
  expect(totals()).toEqual({ open: 1, inside: 4 })
  expect((await ask('/generate', 'close')).worker).toBe(first.worker)
  expect(totals().inside).toBe(5)
  await until(() => totals().open === 0)
  expect((await ask('/generate')).status).toBe(200) // the id means nothing any more, and harms nothing
  expect(totals().inside).toBe(5)
})

it('keeps sessions apart', async () => {
  await open()
  const workers = new Map<string, string>()
  for (const id of ['a', 'b', 'c']) workers.set(id, (await ask('/generate', 'open', id)).worker)
  expect(totals()).toEqual({ open: 3, inside: 3 })
  for (const [id, worker] of workers) expect((await ask('/generate', undefined, id)).worker).toBe(worker)
  expect(totals().inside).toBe(6)
})

it('lapses after its silence: the worker is told, and the next request runs outside', async () => {
  await open()
  await ask('/generate', 'open')
  laterMs += 59_000
  await ask('/generate') // being used restarts its time
  laterMs += 59_000
  await ask('/generate')
  expect(totals()).toEqual({ open: 1, inside: 3 })
  laterMs += 60_000
  expect((await ask('/generate')).status).toBe(200)
  await until(() => totals().open === 0)
  expect(totals().inside).toBe(3)
})

it('fails a request whose session cannot be opened, and books nothing', async () => {
  await open()
  const { worker } = await ask('/generate', 'open')
  const again = await ask('/generate', 'open')
  expect(again.status).toBe(502)
  expect(again.text).toContain('WR_SESSION_OPEN_FAILED')
  expect(again.text).toContain('a session with the same id is still open')
  expect((await ask('/generate')).worker).toBe(worker)
})

it('is forgotten with its worker', async () => {
  const { gateway } = await open()
  const { worker } = await ask('/generate', 'open')
  gateway.removeWorker(BigInt(worker))
  const next = await ask('/generate')
  expect(next.status).toBe(200)
  expect(next.worker).not.toBe(worker)
  expect(totals().inside).toBe(1)
})

it('leaves the rank to the router where a worker has several', async () => {
  await open(2)
  const { worker } = await ask('/generate', 'open')
  for (let turn = 0; turn < 3; turn++) expect(await ask('/generate')).toMatchObject({ status: 200, worker })
})

it('is unbound when its worker comes back as another process, seen through serve', async () => {
  const engines = await Promise.all(
    [0, 1].map(() => startSimEngine({ engine: 'sglang', speedup: 50, blockTokens: 16, healthMs: 0 })),
  )
  const served = await serve({
    words: ['--port=0', '--log=off', ...engines.map(({ url }) => url)],
    env: {},
    times: { watchMs: 20, retryMs: [20, 100], probeMs: 2_000 },
  })
  const settled = (): Promise<boolean> =>
    served.assembly.until((reports) => reports.every(({ verdict }) => verdict?.mode === 'exact'), 10_000)
  try {
    await settled()
    const to = served.address.url
    const { worker } = await ask('/generate', 'open', 's', to)
    expect(await ask('/generate', undefined, 's', to)).toMatchObject({ status: 200, worker })
    const engine = engines[Number(worker) - 1]!
    expect(engine.stats()).toMatchObject({ sessions: 1, session_requests: 2 })
    const restarts = (): number => served.assembly.reports()[Number(worker) - 1]!.restarts
    await engine.restart()
    await until(() => restarts() === 1)
    await settled()
    const next = await ask('/generate', undefined, 's', to)
    expect(next.status).toBe(200) // a session that is not open there would be refused
    const again = await ask('/generate', 'open', 's', to)
    expect(again.status).toBe(200)
    expect(await ask('/generate', undefined, 's', to)).toMatchObject({ status: 200, worker: again.worker })
    expect(engines.reduce((sum, it) => sum + it.stats().sessions, 0)).toBe(1)
  } finally {
    await served.close()
    for (const engine of engines) await engine.close()
  }
})
