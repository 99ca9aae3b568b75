/** `npm run docs:recordings`: writes the table of predicted against reported cached tokens. */
import { writeFileSync } from 'node:fs'
import { replayRecordings } from '../src/engines/recorded-steps.case.js'
import { recordingTable } from '../src/engines/recording-table.case.js'
import { NaiveSink } from '../test/naive-sink.js'

writeFileSync('docs/reference/recordings.md', recordingTable(replayRecordings(() => new NaiveSink())))
