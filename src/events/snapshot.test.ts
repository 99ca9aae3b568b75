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
import { decodeSnapshot, encodeSnapshot, restoreFeed, takeSnapshot } from './snapshot.js'

const folder = mkdtempSync(join(tmpdir(), 'warmroute-snapshot-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** A router with one rank; `source` is where its events come from. */
function newRouter(source = 'tcp://a:1', blockSize = 2) {
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
  const feed = intake.addFeed({ rank, dpRank: 1, hasReplay: true })
  const identity = { workerId: 7n, dpRank: 1, source }
  const context: SnapshotContext = {
    intake,
    device,
    blockSize,
    identityOf: (it) => (it === rank ? identity : undefined),
  }
  return { intake, feed, device, decoder, context, rank, asked }
}

const store = (hashes: bigint[], more: Partial<PlainEvent> = {}): PlainEvent => ({
  kind: 'stored',
  hashes,
  tokens: hashes.flatMap((hash) => [Number(hash), Number(hash)]),
  ...more,
})

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
  const bytes = encodeSnapshot(takeSnapshot(old.context))
  const young = newRouter('tcp://a:1')
  young.decoder.batches.push(...old.decoder.batches)
  const [image] = decodeSnapshot(bytes)
  expect(restoreFeed(young.context, young.feed, image!)).toBe(true)
  expect(young.device.blocksOf(young.rank)).toBe(6)
  expect(young.intake.isCredited(young.rank)).toBe(false)
  young.feed.machine.connected(0)
  expect(young.asked).toEqual([2])
  young.feed.machine.replayFrame(1, 2, Uint8Array.of(2), 0) // the last batch, unchanged
  young.feed.machine.replayEnded(1, 0)
  expect(young.intake.isCredited(young.rank)).toBe(true)
  const later = [{ kind: 'removed', hashes: [3n] }, store([22n], { parent: 21n })] as const
  young.feed.machine.frame(3, young.decoder.add(later), 0)
  young.intake.flush()
  expect(young.device.blocksOf(young.rank)).toBe(7) // block 3 has a copy left, and the salted chain went on
  expect(young.feed.ledger.counters).toMatchObject({ keptCopies: 1, unrootedStores: 0 })
})

it('drops what belongs to another source or block size, and what the engine cannot prove', () => {
  const [image] = takeSnapshot(trained().context)
  for (const other of [newRouter('tcp://b:1'), newRouter('tcp://a:1', 4)]) {
    expect(restoreFeed(other.context, other.feed, image!)).toBe(false)
    expect(other.device.blocksOf(other.rank)).toBe(0)
  }
  const young = newRouter()
  restoreFeed(young.context, young.feed, image!)
  young.feed.machine.connected(0)
  young.feed.machine.replayEnded(1, 0) // it has no such batch: another incarnation
  expect(young.device.blocksOf(young.rank)).toBe(0)
})

it('leaves out ranks that are in doubt', () => {
  const { feed, context } = trained()
  feed.machine.disconnected(0)
  expect(takeSnapshot(context)).toEqual([])
})

it('refuses every cut and every flipped byte', () => {
  const bytes = encodeSnapshot(takeSnapshot(trained().context))
  for (let length = 0; length < bytes.length; length += 3) {
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
  const images = takeSnapshot(trained().context)
  await saveSnapshot(path, images)
  await saveSnapshot(path, images)
  expect(await loadSnapshot(path)).toEqual(images)
  expect(readdirSync(folder)).toEqual(['events.snapshot'])
  writeFileSync(path, 'not a snapshot')
  await expect(loadSnapshot(path)).rejects.toMatchObject({ code: 'WR_SNAPSHOT_INVALID' })
  await expect(saveSnapshot(join(folder, 'no', 'such', 'folder'), images)).rejects.toThrow('ENOENT')
})
