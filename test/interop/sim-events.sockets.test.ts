// Detection, events and prediction against simulated engines over real sockets: what a router does with a stock server.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, expect, it, vi } from 'vitest'
import { BlockHashes, createBlockHasher, createHashScheme } from '../../src/core/hashing/index.js'
import { KvIndex, WasmIndex } from '../../src/core/index/index.js'
import { newMatchColumns, RankTable } from '../../src/core/protocol/index.js'
import { detectEngine, HttpProbe, KvEventDecoder, predictCachedTokens } from '../../src/engines/index.js'
import type { Feed } from '../../src/events/index.js'
import { Intake, ZmqSource } from '../../src/events/index.js'
import type { SimEngine } from '../../src/sim/index.js'
import { parseFaults, startSimEngine } from '../../src/sim/index.js'
import { expectClosed } from '../closed-router.js'

const closers: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
  await expectClosed()
})

const blockSize = 16
const hasher = createBlockHasher()

/** A simulated engine, found and followed by what it says of itself. */
async function follow(engineName: 'vllm' | 'sglang', ranks = 1, limits = {}, hasReplay = true) {
  const engine = await startSimEngine({
    engine: engineName,
    ranks,
    blockTokens: blockSize,
    blocks: 40,
    speedup: 1000,
    isCacheReported: true,
    isDevMode: true,
  })
  closers.push(() => engine.close())
  const facts = await detectEngine(new HttpProbe({ baseUrl: engine.url }))
  const table = new RankTable()
  const device = WasmIndex.create({ seedLo: 1, seedHi: 2 })!
  const index = new KvIndex({ ranks: table, device, startMs: 0, seed: 1 })
  const options = { decoder: new KvEventDecoder(), sink: index, hasher, blockSize, seed: 1 }
  const source = new ZmqSource((wiring) => new Intake({ ...options, ...wiring }), { tickMs: 10, reconnectMs: 10 })
  closers.push(() => source.close())
  const feeds = facts.eventSources!.value.map(({ dpRank, endpoint, replayEndpoint, topic }) => {
    const rank = table.intern(1n, dpRank)
    return source.follow({
      rank,
      dpRank,
      endpoint,
      replayEndpoint: hasReplay ? replayEndpoint : undefined,
      topic,
      limits,
      usableBlocks: facts.usableBlocks?.value,
    })
  })
  await until(() => feeds.every((feed) => feed.machine.state === 'live'))
  return { engine, engineName, facts, index, source, feeds, device }
}

type Followed = Awaited<ReturnType<typeof follow>>

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await nextTurn()
}

/** Everything that the engine has numbered is applied. */
function isSettled({ engine, feeds }: Followed): boolean {
  const isCaughtUp = (feed: Feed, rank: number) =>
    feed.machine.state === 'live' && feed.machine.lastSequence === engine.stats().ranks[rank]!.batches_numbered - 1
  return engine.stats().in_flight === 0 && feeds.every(isCaughtUp)
}

async function settle(followed: Followed): Promise<void> {
  await until(() => isSettled(followed))
  followed.source.intake.flush()
}

async function complete(
  engine: SimEngine,
  prompt: number[],
  dpRank: number,
): Promise<{ cached: number; status: number }> {
  const reply = await fetch(`${engine.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-data-parallel-rank': String(dpRank) },
    body: JSON.stringify({ model: 'sim', prompt, max_tokens: 2, temperature: 0 }),
  })
  const body = (await reply.json()) as { usage?: { prompt_tokens_details?: { cached_tokens?: number } | null } }
  return { status: reply.status, cached: body.usage?.prompt_tokens_details?.cached_tokens ?? 0 }
}

function predict({ index, feeds, engineName }: Followed, prompt: number[], dpRank: number): number {
  const hashes = new BlockHashes()
  hasher.hash(Uint32Array.from(prompt), createHashScheme({ blockSize }), hashes)
  const columns = newMatchColumns(feeds.length)
  index.findMatches(hashes.localColumn(), hashes.count, columns)
  const matchedBlocks = columns.device[feeds[dpRank]!.rank]!
  return predictCachedTokens({ engine: engineName, promptTokens: prompt.length, matchedBlocks, blockSize })
}

/** What the engine holds now is what the index knows. */
function expectEqual({ engine, feeds, device }: Followed): void {
  feeds.forEach((feed, dpRank) => expect(device.blocksOf(feed.rank)).toBe(engine.cached(dpRank).size))
}

it.each([
  ['vllm', 1],
  ['vllm', 2],
  ['sglang', 1],
] as const)(
  'predicts what a simulated %s of %i ranks reports, request after request, through evictions',
  async (name, ranks) => {
    const followed = await follow(name, ranks)
    expect(followed.facts).toMatchObject({ kind: { value: name }, blockSize: { value: blockSize } })
    let draw = 5
    const random = () => (draw = (Math.imul(draw, 1_103_515_245) + 12_345) >>> 0) >>> 8
    let hits = 0
    for (let step = 0; step < 60; step++) {
      const dpRank = random() % ranks
      const family = random() % 3
      const length = 20 + (random() % 140)
      const prompt = Array.from({ length }, (_, at) => 100 + family * 1000 + (at < 70 ? at : at + (random() % 2) * 300))
      const predicted = predict(followed, prompt, dpRank)
      const { status, cached } = await complete(followed.engine, prompt, dpRank)
      expect(status).toBe(200)
      expect(predicted).toBe(cached)
      if (cached > 0) hits++
      await settle(followed)
      expectEqual(followed)
    }
    expect(hits).toBeGreaterThan(10)
    expect(followed.engine.stats().ranks.every((rank) => rank.batches_numbered > 5)).toBe(true)
  },
  60_000,
)

it('is exact again after the engine crashed and came back, and withholds credit meanwhile', async () => {
  const followed = await follow('vllm')
  const [feed] = followed.feeds
  const prompt = Array.from({ length: 100 }, (_, at) => 50 + at)
  await complete(followed.engine, prompt, 0)
  await settle(followed)
  expect(predict(followed, prompt, 0)).toBe(96)
  const restarting = followed.engine.restart(50)
  await until(() => feed!.machine.state !== 'live')
  expect(followed.source.intake.isCredited(feed!.rank)).toBe(false)
  await restarting
  await until(() => feed!.machine.state === 'live')
  expect(predict(followed, prompt, 0)).toBe(0)
  expect((await complete(followed.engine, prompt, 0)).cached).toBe(0)
  await settle(followed)
  expect(predict(followed, prompt, 0)).toBe(96)
  expect(feed!.status(0).purges.restart).toBe(1)
}, 30_000)

const promptOf = (family: number): number[] => Array.from({ length: 100 }, (_, at) => 1000 * family + at)

/** Predicted equals reported for a prompt that is new, then for the same again: exact within two requests. */
async function expectExactAgain(followed: Followed, family: number): Promise<void> {
  for (const cached of [0, 96]) {
    expect(predict(followed, promptOf(family), 0)).toBe(cached)
    expect((await complete(followed.engine, promptOf(family), 0)).cached).toBe(cached)
    await settle(followed)
    expectEqual(followed)
  }
}

it.each([
  { says: 'under its topic', topic: undefined, applied: true },
  { says: 'under another topic', topic: 'other', applied: false },
])(
  'gives no credit by what another process says on its ports $says, and is exact when the engine has them again',
  async ({ topic, applied }) => {
    const followed = await follow('vllm', 1, { retryMs: 1 })
    const feed = followed.feeds[0]!
    await expectExactAgain(followed, 1)
    followed.engine.arm(parseFaults({ fault: 'foreign_publisher', ms: 5, topic }))
    await until(() => Object.values(feed.status(0).purges).some((count) => count > 0))
    if (applied) await until(() => feed.status(0).state === 'live' && followed.device.blocksOf(feed.rank) > 6)
    else await until(() => (feed.status(0).decodeErrors['foreign_topic'] ?? 0) > 1)
    expect(predict(followed, promptOf(1), 0)).toBe(0) // the engine has 96, and nobody can say so
    if (!applied) expect(followed.device.blocksOf(feed.rank)).toBe(0)
    expect((await complete(followed.engine, promptOf(1), 0)).cached).toBe(96)

    followed.engine.clearFaults()
    await settle(followed)
    expectEqual(followed)
    expect(predict(followed, promptOf(1), 0)).toBe(96)
    await expectExactAgain(followed, 2)
  },
  30_000,
)

it.each([
  { says: 'copies are doubled', faults: [{ fault: 'double_copies', share: 0.5 }] },
  { says: 'events lag behind answers', faults: [{ fault: 'late_events', ms: 30 }] },
  {
    says: 'batches are lost and the replay is late',
    faults: [
      { fault: 'drop_events', share: 0.3 },
      { fault: 'late_replay', ms: 100 },
    ],
  },
  { says: 'an idle engine empties its cache', faults: [{ fault: 'reset_cache' }] },
  {
    says: 'batches come twice, in another order and late',
    faults: [
      { fault: 'duplicate_events', share: 0.5 },
      { fault: 'reorder_events', share: 0.3 },
      { fault: 'delay_events', share: 0.3, ms: 40 },
    ],
  },
  { says: 'the publisher stalls', faults: [{ fault: 'stall_events', for_ms: 100 }] },
  { says: 'the event sockets close and come back', faults: [{ fault: 'close_event_sockets', for_ms: 100 }] },
  { says: 'batches name another rank', faults: [{ fault: 'wrong_rank' }] },
  {
    says: 'the clock of the engine is off',
    faults: [
      { fault: 'clock_skew', seconds: -5000 },
      { fault: 'duplicate_events', share: 0.5 },
    ],
  },
])('is exact within two requests where $says', async ({ faults }) => {
  const followed = await follow('vllm')
  await expectExactAgain(followed, 1)
  followed.engine.arm(parseFaults(faults))
  for (let family = 2; family < 10; family++) await complete(followed.engine, promptOf(family), 0) // evictions among them
  followed.engine.clearFaults()
  await complete(followed.engine, promptOf(10), 0) // a lost last batch shows with the next one
  await settle(followed)
  expectEqual(followed)
  await expectExactAgain(followed, 11)
  expect(followed.feeds[0]!.status(0).purges.gap).toBe(0)
})

it.each([
  {
    says: 'the replay buffer is too short',
    hasReplay: true,
    faults: [
      { fault: 'short_replay', batches: 1 },
      { fault: 'drop_events', share: 0.3 },
    ],
  },
  { says: 'events claim another block size', hasReplay: true, faults: [{ fault: 'wrong_block_size' }] },
  { says: 'it restarts', hasReplay: true, faults: [{ fault: 'restart', ms: 30 }] },
  { says: 'it restarts and has no replay socket', hasReplay: false, faults: [{ fault: 'restart', ms: 30 }] },
  {
    says: 'batches are lost and it has no replay socket',
    hasReplay: false,
    faults: [{ fault: 'drop_events', share: 0.3 }],
  },
  {
    says: 'its event sockets close and it has no replay socket',
    hasReplay: false,
    faults: [{ fault: 'close_event_sockets', for_ms: 50 }],
  },
])(
  'claims nothing that is gone where $says, and is exact when its cache has turned over',
  async ({ faults, hasReplay }) => {
    const followed = await follow('vllm', 1, {}, hasReplay)
    const { engine, feeds, device } = followed
    await expectExactAgain(followed, 1)
    engine.arm(parseFaults(faults))
    for (let family = 2; family < 8; family++) await complete(engine, promptOf(family), 0).catch(() => undefined) // it may be away
    engine.clearFaults()
    await becomeHeard(followed)
    for (let family = 8; family < 15; family++) {
      const old = promptOf(family - 6)
      const predicted = predict(followed, old, 0)
      expect(predicted).toBeLessThanOrEqual((await complete(engine, old, 0)).cached)
      await complete(engine, promptOf(family), 0)
      await settle(followed)
      expect(device.blocksOf(feeds[0]!.rank)).toBeLessThanOrEqual(engine.cached(0).size)
    }
    expectEqual(followed)
    await expectExactAgain(followed, 15)
  },
  30_000,
)

/** The subscription has reached the publisher: what it sends is heard. Nobody says when, so it is made to send until then. */
async function becomeHeard(followed: Followed): Promise<void> {
  let attempt = 0
  await vi.waitFor(
    async () => {
      await complete(
        followed.engine,
        [...Array(20).keys()].map((at) => 50 + 20 * attempt + at),
        0,
      )
      attempt++
      expect(isSettled(followed)).toBe(true)
    },
    { timeout: 10_000 },
  )
}
