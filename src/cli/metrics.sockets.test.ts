// Every family by upstream's names moves under traffic through `warmroute serve`, or the catalogue says why it cannot.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import type { SimEngine, SimEngineOptions } from '../sim/index.js'
import { loadTokenizer } from '../sim/index.js'
import type { MetricKey, MetricRow } from '../telemetry/index.js'
import { catalogue, idle } from '../telemetry/index.js'
import type { Served } from './serve.js'
import { isExact, serveOfEachTest, settled } from './serve-house.case.js'

const house = serveOfEachTest()

/** Shown by tests of their own, since serve in front of engines that behave, with settings as they come, gives no reason for them. */
const elsewhere: ReadonlyMap<MetricKey, string> = new Map<MetricKey, string>([
  ['queueBackpressure', 'src/routing/metrics-observer.test.ts'],
  ['routerNonMaxOverlap', 'src/routing/metrics-observer.test.ts'],
  ['routerOverlapLost', 'src/routing/metrics-observer.test.ts'],
  ['kvCacheEventWarnings', 'src/routing/metrics-observer.test.ts'],
  ['answersUnedited', 'src/server/waiting.sockets.test.ts'],
  ['unreadableRequests', 'src/server/unreadable.sockets.test.ts'],
  ['unkeptRequests', 'src/server/unkept.sockets.test.ts'],
  ['responsesForgotten', 'src/cli/serve-stored-responses.sockets.test.ts'],
  ['requestsRetried', 'src/server/telemetry.sockets.test.ts'],
  ['modelMigrations', 'src/server/telemetry.sockets.test.ts'],
  ['embeddingLatency', 'src/server/telemetry.sockets.test.ts'],
  ['prefillAnswers', 'src/server/pairs/lifetime.sockets.test.ts'],
  ['prefillActivationFailures', 'src/server/pairs/choice.sockets.test.ts'],
  ['heldKvReleased', 'src/server/pairs/lifetime.sockets.test.ts'],
  ['sessionNews', 'src/server/sessions/session-affinity.sockets.test.ts'],
  ['prefillsLearned', 'src/cli/assemble/prefill-times.sockets.test.ts'],
  ['prefillEstimateError', 'src/cli/assemble/prefill-times.sockets.test.ts'],
  ['indexEvicted', 'src/server/telemetry/worker-gauges.test.ts'],
  ['loadOnlyPrompts', 'src/server/telemetry/token-meters.test.ts'],
  ['tokenCacheEvictions', 'src/server/telemetry/token-meters.test.ts'],
  ['refutedTemplates', 'src/server/telemetry/token-meters.test.ts'],
  ['tokenizerReplacements', 'src/server/routes/tokenizers.sockets.test.ts'],
  ['engineEnds', 'src/cli/serve-tokens.sockets.test.ts'],
  ['tokenizerTasks', 'src/server/telemetry/token-meters.test.ts'],
  ['eventGaps', 'src/server/telemetry/event-gauges.test.ts'],
  ['eventReplays', 'src/server/telemetry/event-gauges.test.ts'],
  ['eventRestarts', 'src/server/telemetry/event-gauges.test.ts'],
  ['eventDropped', 'src/server/telemetry/event-gauges.test.ts'],
  ['eventPurges', 'src/server/telemetry/event-gauges.test.ts'],
  ['eventDecodeErrors', 'src/server/telemetry/event-gauges.test.ts'],
  ['decisionLogLines', 'src/cli/assemble/decision-log.test.ts'],
  ['snapshotSaves', 'src/cli/warm-restart.sockets.test.ts'],
  ['snapshotRanks', 'src/cli/warm-restart.sockets.test.ts'],
  ['snapshotBytes', 'src/cli/warm-restart.sockets.test.ts'],
  ['snapshotKept', 'src/cli/assemble/cache-memory.test.ts'],
  ['snapshotPause', 'src/cli/warm-restart.sockets.test.ts'],
  ['droppedSeries', 'src/telemetry/metrics.test.ts'],
])

/** Moved by requests whose halves run on two workers. */
const ofPairs: readonly MetricKey[] = [
  'prefillLegs',
  'decodeLegs',
  'prefillLegSeconds',
  'kvTransferSeconds',
  'decodeLegFirstToken',
  'routerKvTransferLatency',
  'remotePrefillSkipped',
  'prefillLeaseMissed',
]

it('every family moves under traffic, or is listed with the reason why not', async () => {
  const folder = tokenizerFolder()
  const tokenizer = loadTokenizer(folder)
  const engines = [await engine('vllm', { tokenizer }), await engine('sglang', { tokenizer })]
  const served = await serveThem(engines, ['--tokenizer', folder])
  const seen = new Highest(await scrape(served))
  await traffic(served, engines, seen)
  const never = new Set(Object.keys(idle))
  const others: readonly string[] = [...elsewhere.keys(), ...ofPairs]
  const rows = Object.entries(catalogue).filter(([key]) => !others.includes(key))
  const still = rows.filter(([, row]) => !seen.hasMoved(row)).map(([key]) => key)
  expect(
    still.filter((key) => !never.has(key)),
    'these never move and are not listed',
  ).toEqual([])
  expect(
    [...never].filter((key) => !still.includes(key)),
    'these are listed and move',
  ).toEqual([])
})

it.each([...elsewhere])('%s is shown by a test of its own', (key, path) => {
  const { name } = catalogue[key]
  const stem = name.replace(/(gaps|replays|restarts)_total$/, '') // written as one line for the three
  expect(readFileSync(path, 'utf8')).toMatch(new RegExp(`${stem}|metrics\\.${key}\\b|\\b${key}\\b`))
})

it('the families of both legs move where prefill and decode are two workers, and end with them', async () => {
  const served = await servePair()
  const seen = new Highest(await scrape(served))
  await (await chat(served, 'a question '.repeat(60), { stream: true })).text()
  await seen.look(served)
  const known = await scrape(served)
  expect(known).toContain('dp_rank="0",worker_id="1",worker_type="prefill"')
  expect(known).toMatch(/worker_registered\{.*router_worker_id="1",.*worker_type="prefill"\} 1\n/)
  expect(known).toMatch(/worker_registered\{.*router_worker_id="2",.*worker_type="decode"\} 1\n/)
  expect(known).toMatch(/kv_selected_cached_prefix_tokens_total\{.*phase="prefill".*\} \d/)
  await fetch(`${served.address.url}/workers/1`, { method: 'DELETE' })
  for (const label of ['router_worker_id="1"', 'dp_rank="0",worker_id="1",worker_type', 'worker="1"'])
    expect(await scrape(served)).not.toContain(label)
  await (await chat(served, 'another question '.repeat(60))).text()
  await seen.look(served)
  const late = await servePair(1)
  await (await chat(late, 'a question '.repeat(60))).text()
  await seen.look(late)
  expect(ofPairs.filter((key) => !seen.hasMoved(catalogue[key]))).toEqual([])
})

it("a departed worker's series end, of every family", async () => {
  const engines = [await engine('vllm'), await engine('vllm')]
  const served = await serveThem(engines)
  await (await chat(served, 'question '.repeat(40), { nvext: { backend_instance_id: 2 } })).text()
  const labels = ['worker_id="2",worker_type', 'router_worker_id="2"', 'worker="2"']
  const before = await scrape(served)
  for (const label of labels) expect(before).toContain(label)
  await fetch(`${served.address.url}/workers/2`, { method: 'DELETE' })
  const after = await scrape(served)
  for (const label of labels) expect(after).not.toContain(label)
})

it.each([
  ['a prefill worker whose prompt is being decoded', () => servePair(), '1'],
  ['a decode worker that streams', () => servePair(), '2'],
  [
    'a worker that streams',
    async () => serveThem([await engine('vllm'), await engine('vllm'), await engine('vllm')]),
    undefined,
  ],
])('no late news brings back the series of %s, once it left', async (_says, open, leaves) => {
  const served = await open()
  const question = 'a question '.repeat(60)
  const answer = await chat(served, question, { stream: true, max_tokens: 60, stream_options: { include_usage: true } })
  const worker = leaves ?? answer.headers.get('x-warmroute-worker-id')!
  const reader = answer.body!.getReader()
  await reader.read()
  await fetch(`${served.address.url}/workers/${worker}`, { method: 'DELETE' })
  while (!(await reader.read().catch(() => ({ done: true }))).done);
  await (await chat(served, question)).text()
  const text = await scrape(served)
  for (const label of [
    `router_worker_id="${worker}"`,
    `dp_rank="0",worker_id="${worker}",worker_type`,
    `worker="${worker}"`,
  ])
    expect(text.split('\n').filter((line) => line.includes(label))).toEqual([])
})

it("an operator's prefix and bounds are what is scraped", async () => {
  const env = { DYN_METRICS_PREFIX: 'my-gate', DYN_METRICS_TTFT_COUNT: '2' }
  const served = await house.start([(await engine('vllm')).url], [], undefined, env)
  await (await chat(served, 'hello', { stream: true })).text()
  const bounds = (await scrape(served)).match(/^my_gate_time_to_first_token_seconds_bucket.*/gm)
  expect(bounds!.map((line) => /le="([^"]*)"/.exec(line)![1])).toEqual(['0', '480', '+Inf'])
})

/** Streams and whole answers, a client that leaves, a refusal, a request that waits, and a loop that is held up. */
async function traffic(served: Served, engines: readonly SimEngine[], seen: Highest): Promise<void> {
  const turn = 'the same long question, word for word. '.repeat(20)
  for (const stream of [false, true, true]) {
    const options = { stream, max_tokens: 40, ...(stream ? { stream_options: { include_usage: true } } : {}) }
    await (await chat(served, turn, options)).text()
    await settled(served, engines)
  }
  const slow = new AbortController()
  const running = chat(served, 'tell me everything '.repeat(60), { stream: true, max_tokens: 20_000 }, slow.signal)
  const reader = (await running).body!.getReader()
  await reader.read()
  // Whether a scrape meets a request that waits hangs on the machine: other questions come until one did.
  for (let round = 0; round === 0 || (round < 20 && !seen.hasMoved(catalogue.queuePendingRequests)); round++) {
    const others = Array.from({ length: 12 }, async (_, at) => {
      await (await chat(served, `${round} ${at} ${'a new and long question '.repeat(400)}`)).text()
    })
    await seen.lookUntil(served, Promise.all(others))
  }
  slow.abort()
  await reader.cancel().catch(() => undefined)
  const heldUntil = performance.now() + 40
  while (performance.now() < heldUntil);
  await chat(served, 'hello', { model: 'nobody' })
  await threshold(served, 0)
  const busy = chat(served, 'hello', { stream: true, max_tokens: 20_000 }, AbortSignal.timeout(20_000))
  const held = (await busy).body!.getReader()
  await held.read()
  while ((await chat(served, 'hello')).status !== 529) await seen.look(served)
  await held.cancel()
  await seen.look(served)
}

async function threshold({ address }: Served, tokens: number): Promise<void> {
  const body = JSON.stringify({
    model: 'sim',
    active_prefill_tokens_threshold: tokens,
    active_decode_blocks_threshold: 0,
  })
  await fetch(`${address.url}/busy_threshold`, { method: 'POST', body })
}

/** The largest value that each family showed, over several scrapes. */
class Highest {
  readonly #atStart: ReadonlyMap<string, number>
  readonly #highest = new Map<string, number>()

  constructor(text: string) {
    this.#atStart = readSums(text)
  }

  async look(served: Served): Promise<void> {
    for (const [name, value] of readSums(await scrape(served)))
      this.#highest.set(name, Math.max(value, this.#highest.get(name) ?? 0))
  }

  /** Gauges show what is going on, so they are looked at while it does. */
  async lookUntil(served: Served, done: Promise<unknown>): Promise<void> {
    let isOver = false
    void done.finally(() => (isOver = true))
    while (!isOver) await this.look(served)
    await done
  }

  hasMoved({ name, type }: MetricRow): boolean {
    const shown = type === 'histogram' ? `${name}_count` : name
    const start = type === 'gauge' ? 0 : (this.#atStart.get(shown) ?? 0)
    return (this.#highest.get(shown) ?? 0) > start
  }
}

/** Each sample name with the sum over its series. */
function readSums(text: string): Map<string, number> {
  const sums = new Map<string, number>()
  for (const line of text.split('\n')) {
    const sample = /^(\w+)(?:\{.*\})? (\S+)$/.exec(line)
    if (sample) sums.set(sample[1]!, (sums.get(sample[1]!) ?? 0) + Number(sample[2]))
  }
  return sums
}

async function scrape({ address }: Served): Promise<string> {
  return (await fetch(`${address.url}/metrics`)).text()
}

function chat({ address }: Served, content: string, more: object = {}, signal?: AbortSignal): Promise<Response> {
  const body = JSON.stringify({ model: 'sim', messages: [{ role: 'user', content }], max_tokens: 4, ...more })
  const headers = { 'content-type': 'application/json' }
  return fetch(`${address.url}/v1/chat/completions`, { method: 'POST', headers, body, ...(signal ? { signal } : {}) })
}

/** One worker prefills and another decodes; with a lease that is over at once, no decode can be in time. */
async function servePair(leaseMs?: number): Promise<Served> {
  const pair = { kind: 'nixl' as const }
  const [prefill, decode] = [await engine('vllm', { pair }), await engine('vllm', { pair })]
  const workers = [
    { url: prefill.url, role: 'prefill', kv_lease_ms: leaseMs },
    { url: decode.url, role: 'decode' },
  ]
  return serveThem([], ['--workers', JSON.stringify(workers)])
}

function engine(kind: 'vllm' | 'sglang', more: Partial<SimEngineOptions> = {}): Promise<SimEngine> {
  return house.engine({ engine: kind, speedup: 4, isCacheReported: true, healthMs: 0, ...more })
}

async function serveThem(engines: readonly SimEngine[], words: readonly string[] = []): Promise<Served> {
  const settings = ['--policy=dynamo', '--router-queue-threshold=0', '--router-track-output-blocks', ...words]
  const served = await house.start([...settings, ...engines.map(({ url }) => url)])
  expect(await served.assembly.until(isExact, 10_000)).toBe(true)
  return served
}

/** A tokenizer in a folder, as an operator would have it. */
function tokenizerFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'warmroute-tokenizer-'))
  house.open.push({ close: () => rmSync(folder, { recursive: true }) })
  const from = 'test/fixtures/tinyllama'
  writeFileSync(join(folder, 'tokenizer.json'), gunzipSync(readFileSync(`${from}/tokenizer.json.gz`)))
  for (const name of ['tokenizer_config.json', 'chat_template.jinja'])
    writeFileSync(join(folder, name), readFileSync(`${from}/${name}`))
  return folder
}
