import { expect, it } from 'vitest'
import { judgeErrorTable, judgeRoomReadme } from './judge-docs.js'

const readme = '| File | Answers |\n|---|---|\n| pick.ts | which? |\n'

it.each([
  ['a table that names every file', ['pick.ts', 'pick.test.ts', 'index.ts'], 0],
  ['a file without a row', ['pick.ts', 'cost.ts'], 1],
  ['a row without a file', [], 1],
])('%s', (_says, files, complaints) => {
  expect(judgeRoomReadme('README.md', readme, files)).toHaveLength(complaints)
})

it('finds an error code without a row and a row without a code', () => {
  const source = 'const errorTexts = {\n  WR_ONE: "one",\n  WR_TWO: "two",\n}'
  expect(judgeErrorTable(source, '| `WR_ONE` | a | b |\n| `WR_GONE` | a | b |')).toEqual([
    'docs/reference/errors.md: no row for WR_TWO',
    'docs/reference/errors.md: WR_GONE is no error code',
  ])
})
