import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { createBlockHasher } from '../core/hashing/index.js'
import { factKinds, factWords, KvIndex, WasmIndex } from '../core/index/index.js'
import { RankTable, storageTiers, toHashColumn } from '../core/protocol/index.js'
import type { PlainEvent } from './fill-batch.case.js'
import { PlainDecoder } from './fill-batch.case.js'
import { Intake } from './intake.js'
import { loadSnapshot, saveSnapshot } from './snapshot-file.js'
import type { ImageReading, RankImage, SnapshotContext } from './snapshot.js'
import { restoreFeed, takeSnapshot } from './snapshot.js'
import { decodeSnapshot, encodeSnapshot } from './snapshot.case.js'
import { finish } from './turns.case.js'

const folder = mkdtempSync(join(tmpdir(), 'warmroute-snapshot-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** A router with one rank; `source` is where its events come from. */
function newRouter(source = 'tcp://a:1', blockSize = 2, hasReplay = true, incarnation: string | undefined = 'x') {
  const ranks = new RankTable()
  ranks.intern(9n, 0) // somebody else, so that rank numbers differ between routers
  const rank = source === 'tcp://a:1' ? ranks.intern(7n, 1) : (ranks.intern(8n, 0), ranks.intern(7n, 1))
  const device = WasmIndex.create({ seedLo: 1, seedHi: 2 })!
  const index = new KvIndex({ ranks, device, startMs: 0, seed: 1 })
  const decoder = new PlainDecoder()
  const asked: number[] = []
  const intake = new Intake({
    decoder,
    sink: index,
    hasher: createBlockHasher(),
    blockSize,
    seed: 1,
    requestReplay: (_, from) => void asked.push(from),
  })
  const proofs: boolean[] = []
  const feed = intake.addFeed({ rank, dpRank: 1, hasReplay, onRestored: (isProved) => proofs.push(isProved) })
  const identity = { workerId: 7n, dpRank: 1, source, incarnation }
  const context: SnapshotContext = {
    intake,
    blocks: index,
    blockSize,
    identityOf: (it) => (it === rank ? identity : undefined),
  }
  return { intake, feed, device, decoder, context, rank, asked, proofs }
}

const store = (hashes: bigint[], more: Partial<PlainEvent> = {}): PlainEvent => ({
  kind: 'stored',
  hashes,
  tokens: hashes.flatMap((hash) => [Number(hash), Number(hash)]),
  ...more,
})

function imagesOf(context: SnapshotContext): RankImage[] {
  return Array.from(takeSnapshot(context), (it) => finish(it)).filter((it) => it !== undefined)
}

function encoded(context: SnapshotContext): Uint8Array {
  return encodeSnapshot(imagesOf(context))
}

/** A reading of a rank that is as it was. */
function* readingOf(image: RankImage | undefined): ImageReading {
  yield
  return image
}

function trained() {
  const router = newRouter()
  const { feed, decoder, intake } = router
  feed.machine.connected(0)
  feed.machine.replayEnded(1, 0)
  const salted = [store([20n], { namespace: 'a' }), store([21n], { parent: 20n })]
  const batches = [[store([1n, 2n, 3n]), store([1n, 2n, 3n])], [store([4n], { parent: 2n })], salted]
  batches.forEach((events, sequence) => feed.machine.frame(sequence, decoder.add(events), 0))
  intake.flush()
  return router
}

it('gives another process the same blocks, copies and namespaces, under another rank number', () => {
  const old = trained()
  const bytes = encoded(old.context)
  const young = newRouter('tcp://a:1')
  young.decoder.batches.push(...old.decoder.batches)
  const [image] = decodeSnapshot(bytes)
  expect(finish(restoreFeed(young.context, young.feed, image!))).toBeUndefined()
  expect(young.device.blocksOf(young.rank)).toBe(6)
  expect(young.intake.isCredited(young.rank)).toBe(false)
  young.feed.machine.connected(0)
  expect(young.asked).toEqual([2])
  young.feed.machine.replayFrame(1, 2, Uint8Array.of(2), 0) // the last batch, unchanged
  young.feed.machine.replayEnded(1, 0)
  expect(young.intake.isCredited(young.rank)).toBe(true)
  expect(young.proofs).toEqual([true])
  const later = [{ kind: 'removed', hashes: [3n] }, store([22n], { parent: 21n })] as const
  young.feed.machine.frame(3, young.decoder.add(later), 0)
  young.intake.flush()
  expect(young.device.blocksOf(young.rank)).toBe(7) // block 3 has a copy left, and the salted chain went on
  expect(young.feed.ledger.counters).toMatchObject({ keptCopies: 1, unrootedStores: 0 })
})

it('drops what belongs to another source, block size or process, or could not be continued', () => {
  const [image] = imagesOf(trained().context)
  const others = {
    other_source: newRouter('tcp://b:1'),
    other_block_size: newRouter('tcp://a:1', 4),
    other_incarnation: newRouter('tcp://a:1', 2, true, 'y'),
    no_replay: newRouter('tcp://a:1', 2, false),
  }
  for (const [reason, other] of Object.entries(others)) {
    expect(finish(restoreFeed(other.context, other.feed, image!))).toBe(reason)
    expect(other.device.blocksOf(other.rank)).toBe(0)
  }
})

it('puts a large rank in its place in small steps', () => {
  const { context, feed, decoder, intake } = newRouter()
  feed.machine.connected(0)
  feed.machine.replayEnded(1, 0)
  const chains = Array.from({ length: 100 }, (_, chain) =>
    store(Array.from({ length: 100 }, (_, at) => BigInt(200 * chain + at))),
  )
  feed.machine.frame(0, decoder.add(chains), 0)
  intake.flush()
  const [image] = imagesOf(context)
  const young = newRouter()
  const restoring = restoreFeed(young.context, young.feed, image!)
  const known = (): number => young.device.blocksOf(young.rank) + young.feed.ledger.deviceBlocks
  let before = 0
  for (let isDone: boolean | undefined; !isDone; before = known()) {
    isDone = restoring.next().done
    expect(known() - before).toBeLessThanOrEqual(2048)
  }
  expect(before).toBe(20_000)
})

it.each([
  { says: 'its worker leaves', interrupt: ({ intake, rank }) => intake.removeFeed(rank), proofs: [false] },
  {
    says: 'its stream is followed anew',
    interrupt: ({ intake, rank }) => void intake.addFeed({ rank, dpRank: 1, hasReplay: true }),
    proofs: [false],
  },
  { says: 'its engine was restarted', interrupt: ({ feed }) => feed.machine.incarnationChanged(0), proofs: [false] },
  { says: 'we empty its cache', interrupt: ({ feed }) => feed.cacheReset(), proofs: [] },
] satisfies { says: string; interrupt: (router: ReturnType<typeof newRouter>) => void; proofs: boolean[] }[])(
  'leaves nothing of a rank half restored when $says',
  ({ interrupt, proofs }) => {
    const [image] = imagesOf(trained().context)
    const other = newRouter()
    const stepCount = [...restoreFeed(other.context, other.feed, image!)].length // every table and tier is one, however small
    expect(stepCount).toBeGreaterThan(2)
    for (let stop = 1; stop <= stepCount; stop++) {
      const young = newRouter()
      const restoring = restoreFeed(young.context, young.feed, image!)
      for (let step = 0; step < stop; step++) restoring.next()
      interrupt(young)
      while (!restoring.next().done);
      expect(young.device.blocksOf(young.rank)).toBe(0)
      expect(young.feed.ledger.deviceBlocks).toBe(0)
      expect(young.proofs).toEqual(proofs)
    }
  },
)

it.each([
  { says: 'has no such batch', replayed: [] },
  { says: 'has moved on', replayed: [5] },
  { says: 'has another batch under its number', replayed: [2] },
])('drops what an engine cannot prove: it $says', ({ replayed }) => {
  const [image] = imagesOf(trained().context)
  const young = newRouter('tcp://a:1', 2, true, undefined) // it does not say which process it is
  expect(finish(restoreFeed(young.context, young.feed, image!))).toBeUndefined()
  expect(young.device.blocksOf(young.rank)).toBe(6)
  young.feed.machine.connected(0)
  for (const sequence of replayed) young.feed.machine.replayFrame(1, sequence, young.decoder.add([store([90n])]), 0)
  if (replayed[0] !== 2) young.feed.machine.replayEnded(1, 0)
  young.intake.flush()
  expect(young.device.blocksOf(young.rank)).toBeLessThanOrEqual(1)
  expect(young.proofs).toEqual([false])
})

it('leaves out ranks that are in doubt', () => {
  const { feed, context } = trained()
  feed.machine.disconnected(0)
  expect(imagesOf(context)).toEqual([])
})

it('refuses every cut and every flipped byte', () => {
  const bytes = encoded(trained().context)
  expect(decodeSnapshot(bytes.subarray(0, 8))).toEqual([]) // the empty snapshot
  for (let length = 0; length < bytes.length; length += 3) {
    if (length === 8) continue
    expect(() => decodeSnapshot(bytes.subarray(0, length))).toThrow('snapshot')
  }
  for (let at = 0; at < bytes.length; at += 5) {
    const bad = Uint8Array.from(bytes)
    bad[at]! ^= 0x10
    expect(() => decodeSnapshot(bad)).toThrow('snapshot')
  }
})

it('is replaced on disk whole, and is no error when missing', async () => {
  const path = join(folder, 'events.snapshot')
  expect(await loadSnapshot(path)).toBeUndefined()
  const images = imagesOf(trained().context)
  expect(await saveSnapshot(path, images.map(readingOf))).toMatchObject({ ranks: 1, leftOut: 0 })
  await saveSnapshot(path, images.map(readingOf))
  expect(await loadSnapshot(path)).toEqual(images)
  expect(readdirSync(folder)).toEqual(['events.snapshot'])
  writeFileSync(path, 'not a snapshot')
  await expect(loadSnapshot(path)).rejects.toMatchObject({ code: 'WR_SNAPSHOT_INVALID' })
  await expect(saveSnapshot(join(folder, 'no', 'such', 'folder'), images.map(readingOf))).rejects.toThrow('ENOENT')
})

it('takes parts over from the snapshot before, byte for byte, and nothing from a damaged one', async () => {
  const path = join(folder, 'kept.snapshot')
  const [image] = imagesOf(trained().context)
  const named = (source: string): RankImage => ({ ...image!, source })
  const keeps = (source: string): boolean => source !== 'b'
  await saveSnapshot(path, ['a', 'b', 'c', 'd'].map(named).map(readingOf), { keeps })
  const fresh = { ...named('c'), isComplete: false }
  const saved = await saveSnapshot(path, [readingOf(undefined), readingOf(fresh)], { keeps })
  expect(saved).toMatchObject({ ranks: 1, kept: 2, leftOut: 0, sources: new Set(['c', 'a', 'd']) })
  expect(await loadSnapshot(path)).toEqual([fresh, named('a'), named('d')])
  expect(saved.bytes).toBe(statSync(path).size)
  const bytes = readFileSync(path)
  for (let at = 0; at < bytes.length; at += 7) {
    const bad = Uint8Array.from(bytes)
    bad[at]! ^= 0x40
    writeFileSync(path, bad)
    await saveSnapshot(path, [], { keeps: () => true })
    const left = (await loadSnapshot(path))!
    expect(left.length).toBeLessThan(3)
    for (const it of left) expect([fresh, named('a'), named('d')]).toContainEqual(it) // whole, or not at all
  }
  for (const cut of [0, 5, 8, 100, bytes.length - 1]) {
    writeFileSync(path, bytes.subarray(0, cut))
    await saveSnapshot(path, [], { keeps: () => true })
    expect((await loadSnapshot(path))!.length).toBeLessThan(3)
  }
})

it('restores what lies below the device, and its copies', () => {
  const old = newRouter()
  const { feed, decoder } = old
  feed.machine.connected(0)
  feed.machine.replayEnded(1, 0)
  const below = [store([3n], { tier: 'hostPinned', parent: 2n }), store([4n], { tier: 'disk', parent: 3n })]
  const twice = store([3n], { tier: 'hostPinned', parent: 2n })
  const batches = [[store([1n, 2n, 3n])], [{ kind: 'removed', hashes: [3n] } as const, ...below, twice]]
  batches.forEach((events, sequence) => feed.machine.frame(sequence, decoder.add(events), 0))
  const young = newRouter('tcp://a:1')
  young.decoder.batches.push(...decoder.batches)
  expect(finish(restoreFeed(young.context, young.feed, decodeSnapshot(encoded(old.context))[0]!))).toBeUndefined()
  const heldOf = ({ context: { blocks }, rank }: typeof old) =>
    storageTiers.map((tier) => {
      const facts = new Uint32Array(4 * factWords)
      blocks.describe(tier, rank, toHashColumn([1n, 2n, 3n, 4n]), 4, facts)
      return [0, 1, 2, 3].map((at) => facts[factWords * at])
    })
  const { absent, atRoot, below: hangs } = factKinds
  expect(heldOf(young)).toEqual([
    [atRoot, hangs, absent, absent],
    [absent, absent, hangs, absent],
    [absent, absent, absent, hangs],
    [absent, absent, absent, absent],
  ])
  expect(young.feed.ledger.copies(1, 0).get(3, 0) >> 1).toBe(2)
  young.feed.machine.connected(0)
  young.feed.machine.replayFrame(1, 1, Uint8Array.of(1), 0)
  young.feed.machine.replayEnded(1, 0)
  const remove = { kind: 'removed', hashes: [3n], tier: 'hostPinned' } as const
  for (const [sequence, held] of [
    [2, hangs],
    [3, absent],
  ] as const) {
    young.feed.machine.frame(sequence, young.decoder.add([remove]), 0)
    young.intake.flush()
    expect(heldOf(young)[1]![2]).toBe(held) // with its last copy
  }
})
