import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { NaiveSink } from '../../test/naive-sink.js'
import { replayRecordings } from './recorded-steps.case.js'
import { recordingTable } from './recording-table.case.js'

const rows = replayRecordings(() => new NaiveSink())

it('predicts what the engine reported at every recorded request', () => {
  expect(rows.filter((row) => row.predicted !== row.reported)).toEqual([])
  expect(rows).toHaveLength(129)
  expect(rows.filter((row) => row.reported > 0)).toHaveLength(27)
})

it('has the same table in the docs', () => {
  expect(readFileSync('docs/reference/recordings.md', 'utf8')).toBe(recordingTable(rows))
})
