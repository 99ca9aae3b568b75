import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { ImageReading, RankImage } from '../../events/index.js'
import { loadSnapshot, saveSnapshot } from '../../events/index.js'
import { createMetrics } from '../../telemetry/index.js'
import { CacheMemory } from './cache-memory.js'

let folder = ''
let path = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'cache-memory-'))
  path = join(folder, 'snapshot')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** A rank that is read in two steps. */
function* readingOf(source: string, sequence: number): ImageReading {
  yield
  return imageOf(source, sequence)
}

/** One that cannot be read now. */
function* inDoubt(): ImageReading {
  yield
  return undefined
}

function imageOf(source: string, sequence: number): RankImage {
  const nothing = new Uint32Array(0)
  return {
    workerId: 1n,
    dpRank: 0,
    source,
    anchor: { sequence, timestamp: 1, length: 1, check: 1 },
    isComplete: true,
    blockSize: 16,
    runs: [nothing, nothing, nothing, nothing],
    ledger: { copies: [], namespaces: { entries: nothing, names: {} }, groups: [] },
  }
}

function newMemory(images: () => Iterable<ImageReading>, now?: () => number) {
  const metrics = createMetrics()
  const log = { debug() {}, info() {}, warn() {} }
  const memory = new CacheMemory({ path, intervalMs: 0, images, metrics, log, ...(now && { now }) })
  const kept = (): number => Number(/^warmroute_snapshot_kept_ranks (\d+)/m.exec(metrics.registry.text())?.[1])
  return { memory, kept }
}

async function saved(): Promise<[source: string, sequence: number][]> {
  return (await loadSnapshot(path))!.map(({ source, anchor }) => [source, anchor.sequence])
}

it('keeps the part of a rank that is not back, or proves its part just now, until it is refuted', async () => {
  const old = ['away', 'back', 'proving', 'lost', 'refused'].map((source) => readingOf(source, 5))
  await saveSnapshot(path, old)
  const { memory, kept } = newMemory(() => [readingOf('back', 9), inDoubt()])
  await memory.save() // asked for before the file was read
  for (const source of ['back', 'proving', 'lost', 'refused']) memory.claim(source)
  memory.settled(imageOf('lost', 5), false)
  memory.refused(imageOf('refused', 5), 'no_replay')
  await memory.save()
  const parts = [
    ['back', 9],
    ['away', 5],
    ['proving', 5],
  ]
  expect(await saved()).toEqual(parts)
  expect(kept()).toBe(2)
  await memory.close()
  expect(await saved()).toEqual(parts)
})

it('keeps the last part of a rank in doubt, and drops it when no replay can continue it, or when it is old', async () => {
  let images = [readingOf('a', 1), readingOf('b', 1), readingOf('c', 1)]
  let nowMs = 0
  const { memory, kept } = newMemory(
    () => images,
    () => nowMs,
  )
  await memory.save()
  images = [readingOf('a', 2), inDoubt(), inDoubt()]
  memory.drop('c') // its engine was restarted
  await memory.save()
  expect(await saved()).toEqual([
    ['a', 2],
    ['b', 1],
  ])
  nowMs = 500_000
  images = [readingOf('c', 7), inDoubt(), inDoubt()]
  await memory.save() // a has been in doubt for 500 s, b too
  expect(await saved()).toEqual([
    ['c', 7],
    ['a', 2],
    ['b', 1],
  ])
  expect(kept()).toBe(2)
  nowMs = 600_000
  images = [inDoubt()]
  await memory.save()
  expect(await saved()).toEqual([['c', 7]])
  await memory.close()
})
