import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import type { RankImage } from '../../events/index.js'
import { loadSnapshot, saveSnapshot } from '../../events/index.js'
import { createMetrics } from '../../telemetry/index.js'
import { CacheMemory } from './cache-memory.js'

const folder = mkdtempSync(join(tmpdir(), 'cache-memory-'))
const path = join(folder, 'snapshot')
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function imageOf(source: string, sequence: number): RankImage {
  const nothing = new Uint32Array(0)
  return {
    workerId: 1n,
    dpRank: 0,
    source,
    anchor: { sequence, timestamp: 1, length: 1, check: 1 },
    isComplete: true,
    blockSize: 16,
    runs: nothing,
    copies: nothing,
    namespaces: nothing,
    names: {},
    groups: [],
  }
}

it('keeps the part of a rank that has not come back yet, in every snapshot until it does', async () => {
  await saveSnapshot(path, [imageOf('away', 5), imageOf('back', 5), imageOf('lost', 5)])
  const live = [imageOf('back', 9)]
  const log = { debug() {}, info() {}, warn() {} }
  const memory = new CacheMemory({ path, intervalMs: 0, images: () => live, metrics: createMetrics(), log })
  await memory.save() // asked for before the file was read
  memory.claim('back')
  memory.claim('lost') // offered to its engine, who did not prove it
  await memory.close()
  const kept = (await loadSnapshot(path))!.map(({ source, anchor }) => [source, anchor.sequence])
  expect(kept).toEqual([
    ['back', 9],
    ['away', 5],
  ])
})
