/**
 * `npm run soak:events -- --minutes N [--workers W]`: simulated engines under load with event faults, followed over real
 * sockets. At the end the faults stop; the index must equal every engine, and sockets, timers and memory must be flat.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { createBlockHasher } from '../src/core/hashing/index.js'
import { KvIndex, WasmIndex } from '../src/core/index/index.js'
import { RankTable } from '../src/core/protocol/index.js'
import { KvEventDecoder } from '../src/engines/index.js'
import type { Feed } from '../src/events/index.js'
import { Intake, ZmqSource } from '../src/events/index.js'
import type { SimEngine } from '../src/sim/index.js'
import { parseFaults, startSimEngine } from '../src/sim/index.js'

const { values: flags } = parseArgs({
  options: { minutes: { type: 'string', default: '5' }, workers: { type: 'string', default: '16' } },
})
const workers = Number(flags.workers)
const until = Date.now() + Number(flags.minutes) * 60_000
const blockSize = 16

const engines = await Promise.all(
  Array.from({ length: workers }, (_, worker) =>
    startSimEngine({
      engine: isVllm(worker) ? 'vllm' : 'sglang',
      blockTokens: blockSize,
      blocks: 200,
      speedup: 200,
      worker,
      seed: worker,
    }),
  ),
)
const table = new RankTable()
const device = WasmIndex.create({ seedLo: 1, seedHi: 2 })!
const index = new KvIndex({ ranks: table, device, startMs: 0, seed: 1 })
const source = new ZmqSource(
  (wiring) =>
    new Intake({
      decoder: new KvEventDecoder(),
      sink: index,
      hasher: createBlockHasher(),
      blockSize,
      seed: 1,
      ...wiring,
    }),
)
const feeds = engines.map((engine, worker) => {
  const rank = table.intern(BigInt(worker), 0)
  const endpoint = `tcp://127.0.0.1:${engine.eventPorts[0]}`
  const replayEndpoint = hasReplay(worker) ? `tcp://127.0.0.1:${engine.replayPorts[0]}` : undefined
  return source.follow({ rank, dpRank: 0, endpoint, replayEndpoint })
})

const script = parseFaults([
  { fault: 'drop_events', share: 0.02 },
  { fault: 'duplicate_events', share: 0.02 },
  { fault: 'reorder_events', share: 0.02 },
  { fault: 'delay_events', share: 0.02, ms: 50 },
  { fault: 'stall_events', at_ms: 15_000, for_ms: 1_000 },
  { fault: 'close_event_sockets', at_ms: 30_000, for_ms: 800 },
])
for (const engine of engines) engine.arm(script)
let requests = 0
const samples: { readonly heapMb: number; readonly handles: number }[] = []
const load = engines.map((engine, worker) => drive(engine, worker))
while (Date.now() < until) {
  await pause(Math.min(10_000, Math.max(1, until - Date.now())))
  ;(globalThis as { gc?: () => void }).gc?.()
  const { heapUsed, external } = process.memoryUsage()
  samples.push({
    heapMb: Math.round((heapUsed + external) / 2 ** 20),
    handles: process.getActiveResourcesInfo().length,
  })
  console.error(JSON.stringify(samples.at(-1)), requests)
}
await Promise.all(load)
for (const engine of engines) engine.clearFaults()
// One more request each: a lost last batch shows with the next frame.
await Promise.all(
  engines.map((engine, worker) =>
    complete(
      engine,
      Array.from({ length: 40 }, (_, at) => 9000 + worker + at),
    ),
  ),
)
const deadline = Date.now() + 60_000
const isSettled = (feed: Feed, worker: number) =>
  feed.machine.state === 'live' && feed.machine.lastSequence === engines[worker]!.stats().ranks[0]!.batches_numbered - 1
while (!feeds.every(isSettled) && Date.now() < deadline) await pause(20)
source.intake.flush()
const differing = feeds.filter((feed, worker) => !isSettled(feed, worker) || !isEqual(feed, worker))
const sum = (name: 'frames' | 'gaps' | 'replays' | 'restarts' | 'purges' | 'stale') =>
  feeds.reduce((total, feed) => total + feed.machine.counters[name], 0)
const growth = { heap: growthOf((it) => it.heapMb), handles: growthOf((it) => it.handles) }
const isFlat = growth.heap < 1.3 && growth.handles < 1.1
const completeFeeds = feeds.filter((feed) => feed.machine.isComplete).length
console.log(
  JSON.stringify({
    minutes: Number(flags.minutes),
    workers,
    requests,
    frames: sum('frames'),
    gaps: sum('gaps'),
    replays: sum('replays'),
    restarts: sum('restarts'),
    purges: sum('purges'),
    stale: sum('stale'),
    complete: completeFeeds,
    differing: differing.length,
    first: samples[0],
    last: samples.at(-1),
    growth,
  }),
)
await source.close()
await Promise.all(engines.map((engine) => engine.close()))
process.exit(differing.length === 0 && isFlat ? 0 : 1)

/**
 * Block for block: the names that the index has of a rank are those that its engine holds. What came before a join, or a
 * purge that nothing could be replayed after, cannot be known; then it has none that the engine does not hold.
 */
function isEqual(feed: Feed, worker: number): boolean {
  const held = new Set<string>()
  for (const { externalHi, externalLo } of device.facts(feed.rank)) held.add(hex(externalHi) + hex(externalLo))
  const nameOf = (digest: string): string => (isVllm(worker) ? digest.slice(-16) : digest.slice(0, 16))
  const truth = new Set([...engines[worker]!.cached(0).keys()].map(nameOf))
  return [...held].every((name) => truth.has(name)) && (!feed.machine.isComplete || held.size === truth.size)
}

/** Every fourth cannot be asked. */
function hasReplay(worker: number): boolean {
  return worker % 4 !== 3
}

function isVllm(worker: number): boolean {
  return worker % 2 === 0
}

function hex(word: number): string {
  return word.toString(16).padStart(8, '0')
}

/** Median of the last third over that of the first, without the first two samples: caches fill in them. */
function growthOf(of: (sample: (typeof samples)[number]) => number): number {
  const values = samples.slice(2).map(of)
  const third = Math.max(1, Math.floor(values.length / 3))
  const ratio = median(values.slice(-third)) / median(values.slice(0, third))
  return Math.round(100 * ratio) / 100
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN
}

async function drive(engine: SimEngine, worker: number): Promise<void> {
  let draw = worker + 1
  const random = () => (draw = (Math.imul(draw, 1_103_515_245) + 12_345) >>> 0) >>> 8
  let restartAt = Date.now() + 20_000 + (random() % 20_000)
  while (Date.now() < until) {
    const family = random() % 6
    const prompt = Array.from(
      { length: 30 + (random() % 400) },
      (_, at) => 100 + family * 500 + (at < 200 ? at : at + (random() % 3) * 700),
    )
    await complete(engine, prompt)
    if (Date.now() > restartAt) {
      await engine.restart(200)
      restartAt = Date.now() + 20_000 + (random() % 20_000)
    }
    await pause(5 + (random() % 20))
  }
}

async function complete(engine: SimEngine, prompt: number[]): Promise<void> {
  requests++
  const body = JSON.stringify({ model: 'sim', prompt, max_tokens: 20, temperature: 0 })
  const headers = { 'content-type': 'application/json' }
  const ask = async (): Promise<string> =>
    (await fetch(`${engine.url}/v1/completions`, { method: 'POST', headers, body })).text()
  // An engine closes a connection that was idle for 5 s; on a busy machine that meets a request now and then.
  await ask().catch(() => ask())
}
