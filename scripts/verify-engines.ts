/**
 * `npm run verify:engines -- --urls http://a,http://b [--requests N] [--families F] [--restart 'COMMAND']`: mixed
 * sequential requests to running engines, with evictions, resets and, where a command is given that restarts the last of
 * them and ends when it serves again, a restart halfway; predicted against reported cached tokens, request by request.
 * Prints what was seen and fails if any request differs. Engines need KV events with a replay endpoint, and cached tokens
 * in their usage.
 */
import { execFileSync } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { BlockHashes, createBlockHasher, createHashScheme } from '../src/core/hashing/index.js'
import { KvIndex, WasmIndex } from '../src/core/index/index.js'
import { newMatchColumns, RankTable } from '../src/core/protocol/index.js'
import { detectEngine, HttpProbe, KvEventDecoder, predictCachedTokens } from '../src/engines/index.js'
import type { Feed } from '../src/events/index.js'
import { Intake, ZmqSource } from '../src/events/index.js'

const { values: flags } = parseArgs({
  options: {
    urls: { type: 'string', default: '' },
    requests: { type: 'string', default: '300' },
    concurrent: { type: 'string', default: '64' },
    seed: { type: 'string', default: '1' },
    /** Prompts that share nothing: with many, caches overflow. */
    families: { type: 'string', default: '5' },
    /** Run by a shell halfway through; restarts the last engine. */
    restart: { type: 'string' },
  },
})
const urls = flags.urls.split(',').filter((url) => url !== '')
const facts = await Promise.all(urls.map((baseUrl) => detectEngine(new HttpProbe({ baseUrl }))))
const blockSize = facts[0]?.blockSize?.value
if (!blockSize || facts.some((it) => it.blockSize?.value !== blockSize || !it.eventSources?.value[0])) {
  throw new Error('every engine must say its block size and publish events')
}
for (const [at, { kind, version, usableBlocks }] of facts.entries()) {
  console.log(`${urls[at]} ${kind.value} ${version?.value}, ${usableBlocks?.value} blocks of ${blockSize}`)
}

const hasher = createBlockHasher()
const scheme = createHashScheme({ blockSize })
const table = new RankTable()
const device = WasmIndex.create({ seedLo: 1, seedHi: 2 })!
const index = new KvIndex({ ranks: table, device, startMs: 0, seed: 1 })
const source = new ZmqSource(
  (wiring) => new Intake({ decoder: new KvEventDecoder(), sink: index, hasher, blockSize, seed: 1, ...wiring }),
)
const feeds: Feed[] = facts.map((it, worker) => {
  const { endpoint, replayEndpoint, topic } = it.eventSources!.value[0]!
  const rank = table.intern(BigInt(worker), 0)
  return source.follow({ rank, dpRank: 0, endpoint, replayEndpoint, topic, usableBlocks: it.usableBlocks?.value })
})
await until(() => feeds.every((feed) => feed.machine.state === 'live'))

let draw = Number(flags.seed)
const random = () => (draw = (Math.imul(draw, 1_103_515_245) + 12_345) >>> 0) >>> 8
const outcomes = { equal: 0, differing: 0, hits: 0, cachedTokens: 0, resets: 0, restarts: 0 }
const requests = Number(flags.requests)
for (let step = 0; step < requests; step++) {
  const worker = random() % urls.length
  if (step === Math.floor(requests / 2) && flags.restart) await restart(urls.length - 1, flags.restart)
  if (step % 60 === 59) await reset(worker)
  const prompt = newPrompt()
  const predicted = predict(worker, prompt)
  const reported = await complete(worker, prompt)
  outcomes[predicted === reported ? 'equal' : 'differing']++
  if (predicted !== reported) console.log(`step ${step} worker ${worker}: predicted ${predicted}, reported ${reported}`)
  if (reported > 0) outcomes.hits++
  outcomes.cachedTokens += reported
  await settle()
}
console.log(JSON.stringify({ sequential: outcomes, ...totals() }))

const differences = new Map<number, number>()
const inFlight = Array.from({ length: Number(flags.concurrent) }, async () => {
  const worker = random() % urls.length
  const prompt = newPrompt()
  const predicted = predict(worker, prompt)
  const difference = ((await complete(worker, prompt)) - predicted) / blockSize
  differences.set(difference, (differences.get(difference) ?? 0) + 1)
})
await Promise.all(inFlight)
console.log(
  'concurrent, reported minus predicted in blocks:',
  JSON.stringify([...differences].sort(([a], [b]) => a - b)),
)
await source.close()
process.exitCode = outcomes.differing === 0 ? 0 : 1

/** Families share their first part; some end on a block border, some are longer than what stays cached. */
function newPrompt(): number[] {
  const family = random() % Number(flags.families)
  const shared = 32 * (1 + (family % 5))
  const length = random() % 4 === 0 ? blockSize! * (1 + (random() % 8)) : 20 + (random() % 600)
  const branch = random() % 3
  return Array.from(
    { length },
    (_, at) => 300 + ((at * 7 + family * 1013 + (at < shared ? 0 : branch * 4099)) % 20_000),
  )
}

function predict(worker: number, prompt: number[]): number {
  const hashes = new BlockHashes()
  hasher.hash(Uint32Array.from(prompt), scheme, hashes)
  const columns = newMatchColumns(feeds.length)
  index.findMatches(hashes.localColumn(), hashes.count, columns)
  const matchedBlocks = source.intake.isCredited(feeds[worker]!.rank) ? columns.device[feeds[worker]!.rank]! : 0
  const engine = facts[worker]!.kind.value === 'sglang' ? 'sglang' : 'vllm'
  return predictCachedTokens({ engine, promptTokens: prompt.length, matchedBlocks, blockSize: blockSize! })
}

async function complete(worker: number, prompt: number[]): Promise<number> {
  const model = facts[worker]!.models?.value[0]?.name ?? 'tiny'
  const reply = await fetch(new URL('/v1/completions', urls[worker]), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, prompt, max_tokens: 1 + (random() % 40), temperature: 0, ignore_eos: true }),
  })
  const body = (await reply.json()) as { usage?: { prompt_tokens_details?: { cached_tokens?: number } | null } }
  if (reply.status !== 200) throw new Error(`status ${reply.status}: ${JSON.stringify(body)}`)
  return body.usage?.prompt_tokens_details?.cached_tokens ?? 0
}

/** We empty the cache ourselves, so we say so: an idle engine announces it only with its next step. */
async function reset(worker: number): Promise<void> {
  const path = facts[worker]!.kind.value === 'sglang' ? '/flush_cache' : '/reset_prefix_cache'
  const reply = await fetch(new URL(path, urls[worker]), { method: 'POST' })
  if (reply.status !== 200) return
  outcomes.resets++
  feeds[worker]!.cacheReset()
}

/** Another process behind the same ports: what was known of it must be gone, by the events alone. */
async function restart(worker: number, command: string): Promise<void> {
  const before = await incarnationOf(worker)
  const known = feeds[worker]!.ledger.deviceBlocks
  execFileSync('sh', ['-c', command], { stdio: 'inherit' })
  if ((await incarnationOf(worker)) === before) throw new Error('the engine is still the same process')
  await until(() => feeds[worker]!.machine.state === 'live')
  outcomes.restarts++
  console.log(
    `restarted worker ${worker}: ${known} blocks known before, ${feeds[worker]!.ledger.deviceBlocks} after; purges`,
    JSON.stringify(Object.entries(feeds[worker]!.status(0).purges).filter(([, count]) => count > 0)),
  )
}

async function incarnationOf(worker: number): Promise<string | undefined> {
  return (await detectEngine(new HttpProbe({ baseUrl: urls[worker]! }))).incarnation?.value
}

/** Nothing tells that an engine has no more to say; a pause of three of its idle turns comes close. */
async function settle(): Promise<void> {
  let before: string
  do {
    before = feeds.map((feed) => feed.machine.lastSequence).join()
    await pause(60)
    source.intake.flush()
  } while (before !== feeds.map((feed) => feed.machine.lastSequence).join())
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await pause(10)
}

function totals(): Record<string, number> {
  const sum = (name: 'frames' | 'gaps' | 'replays' | 'restarts' | 'purges') =>
    feeds.reduce((total, feed) => total + feed.machine.counters[name], 0)
  const ledger = (name: 'doubledBlocks' | 'keptCopies' | 'removedBlocks' | 'storedBlocks') =>
    feeds.reduce((total, feed) => total + feed.ledger.counters[name], 0)
  return {
    frames: sum('frames'),
    gaps: sum('gaps'),
    restarts: sum('restarts'),
    purges: sum('purges'),
    storedBlocks: ledger('storedBlocks'),
    removedBlocks: ledger('removedBlocks'),
    doubledBlocks: ledger('doubledBlocks'),
    keptCopies: ledger('keptCopies'),
  }
}
