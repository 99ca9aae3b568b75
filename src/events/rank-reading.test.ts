// Goal: a rank that is read while events change it is taken as it was at one batch, and at no moment between two.
// Method: random events on two tiers come between the steps of a reading. What it gives is compared with a router that
// stopped at that batch, and, continued by the rest of the events, with the router that never stopped.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createBlockHasher } from '../core/hashing/index.js'
import { factKinds, factWords, KvIndex, TsIndex } from '../core/index/index.js'
import { RankTable, storageTiers, toHashColumn } from '../core/protocol/index.js'
import type { PlainEvent } from './fill-batch.case.js'
import { PlainDecoder } from './fill-batch.case.js'
import { Intake } from './intake.js'
import type { RankImage, SnapshotContext } from './snapshot.js'
import { decodeSnapshot, encodeSnapshot } from './snapshot.case.js'
import { finish } from './turns.case.js'
import { restoreFeed, takeSnapshot } from './snapshot.js'

const hasher = createBlockHasher()
const names = Array.from({ length: 24 }, (_, at) => BigInt(at + 1))

function newRouter(decoder: PlainDecoder) {
  const ranks = new RankTable()
  const rank = ranks.intern(7n, 0)
  const device = new TsIndex({ seedLo: 1, seedHi: 2 })
  const index = new KvIndex({ ranks, device, startMs: 0, seed: 1 })
  const asked: number[] = []
  const proofs: boolean[] = []
  const requestReplay = (_: unknown, from: number): void => void asked.push(from)
  const intake = new Intake({ decoder, sink: index, hasher, blockSize: 2, seed: 1, requestReplay })
  const feed = intake.addFeed({ rank, dpRank: 0, hasReplay: true, onRestored: (isProved) => proofs.push(isProved) })
  const identity = { workerId: 7n, dpRank: 0, source: 'a' }
  const limits = { namesPerStep: 3, lastNamesMax: 2, roundsMax: 100 }
  const context: SnapshotContext = { intake, blocks: index, blockSize: 2, identityOf: () => identity, limits }
  return { intake, feed, index, device, context, rank, proofs }
}

type Router = ReturnType<typeof newRouter>

function start({ feed }: Router): void {
  feed.machine.connected(0)
  feed.machine.replayEnded(1, 0)
}

/** The payload of batch n is n. */
function tell({ feed, intake }: Router, sequence: number): void {
  feed.machine.frame(sequence, Uint8Array.of(sequence), 0)
  intake.flush()
}

/** What a router believes: blocks per tier by their names, and copies. */
function beliefs({ index, device, rank, feed }: Router) {
  const blocks = storageTiers.flatMap((tier) => {
    const facts = new Uint32Array(factWords * names.length)
    index.describe(tier, rank, toHashColumn(names), names.length, facts)
    const lines = names.map(
      (name, at) => `${tier} ${name} ${facts.subarray(factWords * at, factWords * at + 6).join()}`,
    )
    return lines.filter((_, at) => facts[factWords * at] !== factKinds.absent)
  })
  const rooted = Array.from(device.facts(rank), (it) => String(it.externalLo)).sort()
  const copies = [...feed.ledger.tables()].flatMap(({ tier, group, table }) =>
    names.map((name) => `${tier} ${group} ${name} ${table.get(Number(name), 0)}`).filter((it) => !it.endsWith(' 0')),
  )
  return { lower: blocks.filter((it) => !it.startsWith('device')).sort(), rooted, copies: copies.sort() }
}

/** Block n hangs below n / 2; a store tells the whole chain, a removal takes a block out of it. */
const anyEvent: fc.Arbitrary<PlainEvent> = fc
  .record({
    kind: fc.constantFrom('stored' as const, 'stored' as const, 'removed' as const),
    name: fc.integer({ min: 1, max: 24 }),
    tier: fc.constantFrom('device' as const, 'hostPinned' as const),
  })
  .map(({ kind, name, tier }): PlainEvent => {
    if (kind === 'removed') return { kind, hashes: [BigInt(name)], tier }
    const chain: number[] = []
    for (let block = name; block > 0; block >>= 1) chain.unshift(block)
    return { kind, hashes: chain.map(BigInt), tokens: chain.flatMap((block) => [block, block]), tier }
  })

const anyHistory = fc.record({
  before: fc.array(fc.array(anyEvent, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 20 }),
  /** How many batches come after each step of the reading. */
  between: fc.array(fc.array(fc.array(anyEvent, { minLength: 1, maxLength: 3 }), { maxLength: 2 }), { maxLength: 40 }),
})

/** Steps through a reading while batches come; answers what was read and how many batches there were. */
function readWhile(
  router: Router,
  decoder: PlainDecoder,
  history: { before: PlainEvent[][]; between: PlainEvent[][][] },
) {
  start(router)
  for (const events of history.before) decoder.add(events)
  for (let at = 0; at < decoder.batches.length; at++) tell(router, at)
  const [reading] = [...takeSnapshot(router.context)]
  for (let turn = 0; ; turn++) {
    const step = reading!.next()
    if (step.done) return step.value
    for (const events of history.between[turn] ?? []) {
      decoder.add(events)
      tell(router, decoder.batches.length - 1)
    }
  }
}

function reborn(image: RankImage): RankImage {
  return decodeSnapshot(encodeSnapshot([image]))[0]!
}

it('is what the rank was at its anchor, and goes on from there as if nothing had happened', () => {
  let complete = 0
  fc.assert(
    fc.property(anyHistory, (history) => {
      const decoder = new PlainDecoder()
      const live = newRouter(decoder)
      const image = readWhile(live, decoder, history)
      const stopped = newRouter(decoder)
      start(stopped)
      for (let at = 0; at <= image!.anchor.sequence; at++) tell(stopped, at)
      const restored = newRouter(decoder)
      expect(finish(restoreFeed(restored.context, restored.feed, reborn(image!)))).toBeUndefined()
      expect(beliefs(restored)).toEqual(beliefs(stopped))

      const { machine } = restored.feed
      machine.connected(0)
      for (let at = image!.anchor.sequence; at < decoder.batches.length; at++)
        machine.replayFrame(1, at, Uint8Array.of(at), 0)
      machine.replayEnded(1, 0)
      restored.intake.flush()
      expect(restored.proofs).toEqual([true])
      const [now, wanted] = [beliefs(restored), beliefs(live)]
      expect(now.copies).toEqual(wanted.copies)
      expect(now.lower).toEqual(wanted.lower)
      // Blocks behind a hole are forgotten: less may be credited then, never more.
      for (const name of now.rooted) expect(wanted.rooted).toContain(name)
      if (!image!.isComplete) return
      complete++
      expect(now.rooted).toEqual(wanted.rooted)
    }),
    { numRuns: 300 },
  )
  expect(complete).toBeGreaterThan(5)
})

it.each([
  { says: 'is emptied', happens: (router: Router) => router.feed.cacheReset() },
  { says: 'loses its stream', happens: (router: Router) => router.feed.machine.disconnected(0) },
  { says: 'becomes another engine', happens: (router: Router) => router.feed.machine.incarnationChanged(0) },
  { says: 'leaves', happens: (router: Router) => router.intake.removeFeed(router.rank) },
])('gives nothing of a rank that $says meanwhile', ({ happens }) => {
  const decoder = new PlainDecoder()
  const router = newRouter(decoder)
  start(router)
  decoder.add(names.map((name) => ({ kind: 'stored', hashes: [name], tokens: [1, Number(name)] })))
  tell(router, 0)
  const [reading] = [...takeSnapshot(router.context)]
  expect(reading!.next().done).toBe(false)
  happens(router)
  let step = reading!.next()
  while (!step.done) step = reading!.next()
  expect(step.value).toBeUndefined()
})

it('gives a rank up that changes faster than it can be read, and stops watching it', () => {
  const decoder = new PlainDecoder()
  const router = newRouter(decoder)
  start(router)
  const flood = names.map((name): PlainEvent => ({ kind: 'stored', hashes: [name], tokens: [1, Number(name)] }))
  decoder.add(flood)
  tell(router, 0)
  const limits = { namesPerStep: 3, lastNamesMax: 2, roundsMax: 3 }
  const [reading] = [...takeSnapshot({ ...router.context, limits })]
  let step = reading!.next()
  for (let sequence = 1; !step.done; sequence++) {
    router.feed.machine.frame(sequence, Uint8Array.of(0), 0)
    router.intake.flush()
    step = reading!.next()
  }
  expect(step.value).toBeUndefined()
  expect([...takeSnapshot(router.context)]).toHaveLength(1)
})
