import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { NaiveSink } from '../../test/naive-sink.js'
import { KvIndex, WasmIndex } from '../core/index/index.js'
import { hashCount, newMatchColumns, RankTable } from '../core/protocol/index.js'
import type { DepthIndex } from './recorded-steps.case.js'
import { replayRecordings } from './recorded-steps.case.js'
import { recordingTable } from './recording-table.case.js'

const rows = replayRecordings(() => new NaiveSink())

it('predicts what the engine reported at every recorded request', () => {
  expect(rows.filter((row) => row.predicted !== row.reported)).toEqual([])
  expect(rows).toHaveLength(129)
  expect(rows.filter((row) => row.reported > 0)).toHaveLength(27)
})

it('predicts the same through the real index', () => {
  expect(replayRecordings(newRealIndex)).toEqual(rows)
})

function newRealIndex(): DepthIndex {
  const ranks = new RankTable()
  for (const rank of [0, 1]) ranks.intern(BigInt(rank), 0)
  const index = new KvIndex({ ranks, device: WasmIndex.create({ seedLo: 1, seedHi: 2 })!, startMs: 0, seed: 3 })
  const columns = newMatchColumns(2)
  return {
    apply: (batch) => index.apply(batch),
    depth(rank, local) {
      index.findMatches(local, hashCount(local), columns)
      return columns.device[rank]!
    },
  }
}

it('has the same table in the docs', () => {
  expect(readFileSync('docs/reference/recordings.md', 'utf8')).toBe(recordingTable(rows))
})
