/** The rows of `recorded-steps` as the page `docs/reference/recordings.md`. */
import type { RecordedRow } from './recorded-steps.case.js'

export function recordingTable(rows: readonly RecordedRow[]): string {
  const unexplained = rows.filter((row) => row.predicted !== row.reported).length
  const cells = rows.map(({ recording, step, rank, promptTokens, predicted, reported, rule }) =>
    [recording, step, rank, promptTokens, predicted, reported, rule].join(' | '),
  )
  return [
    '# Predicted and reported cached tokens, request by request',
    '',
    'Every event frame recorded from a real vLLM 0.32.0 and a real SGLang 0.5.23 is replayed through decoder, rank machine,',
    'normaliser and index; before each recorded request the cached tokens are predicted and then compared with what the',
    'engine reported. Made by `npm run docs:recordings`, checked by `src/engines/recorded-steps.test.ts`.',
    '',
    `Rows: ${rows.length}. Unexplained: ${unexplained}.`,
    '',
    'The formula is `min(matched blocks, floor((prompt tokens - 1) / block size)) x block size`, for both engines.',
    '',
    '| Recording | Step | Rank | Prompt tokens | Predicted | Reported | Rule |',
    '|---|---|---|---|---|---|---|',
    ...cells.map((line) => `| ${line} |`),
    '',
  ].join('\n')
}
