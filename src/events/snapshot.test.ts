import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { createBlockHasher } from '../core/hashing/index.js'
import { KvIndex, WasmIndex } from '../core/index/index.js'
import { RankTable } from '../core/protocol/index.js'
import type { PlainEvent } from './fill-batch.case.js'
import { PlainDecoder } from './fill-batch.case.js'
import { Intake } from './intake.js'
import { loadSnapshot, saveSnapshot } from './snapshot-file.js'
import type { SnapshotContext } from './snapshot.js'
import { decodeSnapshot, encodeImage, encodePreface, restoreFeed, takeSnapshot } from './snapshot.js'

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
    device,
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

function encoded(context: SnapshotContext): Uint8Array {
  return Buffer.concat([encodePreface(), ...[...takeSnapshot(context)].map(encodeImage)])
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
  expect(restoreFeed(young.context, young.feed, image!)).toBeUndefined()
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
  const [image] = takeSnapshot(trained().context)
  const others = {
    other_source: newRouter('tcp://b:1'),
    other_block_size: newRouter('tcp://a:1', 4),
    other_incarnation: newRouter('tcp://a:1', 2, true, 'y'),
    no_replay: newRouter('tcp://a:1', 2, false),
  }
  for (const [reason, other] of Object.entries(others)) {
    expect(restoreFeed(other.context, other.feed, image!)).toBe(reason)
    expect(other.device.blocksOf(other.rank)).toBe(0)
  }
})

it.each([
  { says: 'has no such batch', replayed: [] },
  { says: 'has moved on', replayed: [5] },
  { says: 'has another batch under its number', replayed: [2] },
])('drops what an engine cannot prove: it $says', ({ replayed }) => {
  const [image] = takeSnapshot(trained().context)
  const young = newRouter('tcp://a:1', 2, true, undefined) // it does not say which process it is
  expect(restoreFeed(young.context, young.feed, image!)).toBeUndefined()
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
  expect([...takeSnapshot(context)]).toEqual([])
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
  const images = [...takeSnapshot(trained().context)]
  expect(await saveSnapshot(path, images)).toMatchObject({ ranks: 1, leftOut: 0 })
  await saveSnapshot(path, images)
  expect(await loadSnapshot(path)).toEqual(images)
  expect(readdirSync(folder)).toEqual(['events.snapshot'])
  writeFileSync(path, 'not a snapshot')
  await expect(loadSnapshot(path)).rejects.toMatchObject({ code: 'WR_SNAPSHOT_INVALID' })
  await expect(saveSnapshot(join(folder, 'no', 'such', 'folder'), images)).rejects.toThrow('ENOENT')
})
