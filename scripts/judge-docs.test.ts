import { expect, it } from 'vitest'
import { judgeErrorTable, judgeLinks, judgeRoomReadme, packedFiles } from './judge-docs.js'

const readme = '| File | Answers |\n|---|---|\n| pick.ts | which? |\n'

it.each([
  ['a table that names every file', ['pick.ts', 'pick.test.ts', 'index.ts'], 0],
  ['a file without a row', ['pick.ts', 'cost.ts'], 1],
  ['a row without a file', [], 1],
])('%s', (_says, files, complaints) => {
  expect(judgeRoomReadme('README.md', readme, files)).toHaveLength(complaints)
})

it('knows what the package holds', () => {
  const files = ['README.md', 'docs/a.md', 'docs/more/b.md', 'docs/raw.json', 'docsier.md', 'test/c.md']
  const manifest = JSON.stringify({ files: ['docs', '!docs/raw.json'] })
  expect(packedFiles(manifest, files)).toEqual(['README.md', 'docs/a.md', 'docs/more/b.md'])
})

it('finds links that lead out of the package', () => {
  const text = '[a](docs/a.md#part) [b](docs/) [c](../src/c.ts) [d](https://x.y) [e](#here) [f](docs/gone.md)'
  expect(judgeLinks('README.md', text, ['docs/a.md'])).toEqual([
    'README.md: ../src/c.ts is not in the package',
    'README.md: docs/gone.md is not in the package',
  ])
  expect(judgeLinks('docs/b.md', '[a](a.md) [r](../README.md)', ['docs/a.md'])).toHaveLength(1)
})

it('finds an error code without a row and a row without a code', () => {
  const source = 'const errorTexts = {\n  WR_ONE: "one",\n  WR_TWO: "two",\n}'
  expect(judgeErrorTable(source, '| `WR_ONE` | a | b |\n| `WR_GONE` | a | b |')).toEqual([
    'docs/reference/errors.md: no row for WR_TWO',
    'docs/reference/errors.md: WR_GONE is no error code',
  ])
})
