import { expect, it } from 'vitest'
import { judgeConformance, listParts, withParts } from './judge-conformance.js'

const files = new Map([
  [
    'src/core/index/find.test.ts',
    `import { suite } from './find.case.js'
// it('a name in a comment', () => {})
it('an empty query finds nothing', () => {})
it.each([{ says: 'a hole ends the prefix' }])('$says', () => {})
it(\`\${kind}: removes the worker's blocks\`, () => {})
it('can\\'t be crossed', () => {})
it('either | or', () => {})
suite('wasm')`,
  ],
  ['src/core/index/find.case.ts', `it('gives every rank its own depth', () => {})`],
])

function judge(...rows: string[]): string[] {
  const page = ['# Index', '', '| Behaviour | Test file | Test |', '| --- | --- | --- |', ...rows].join('\n')
  return judgeConformance('page.md', page, (path) => files.get(path))
}
const row = (name: string, path = 'src/core/index/find.test.ts') => `| it works | \`${path}\` | ${name} |`

it.each([
  { says: 'a test named in it()', name: 'an empty query finds nothing' },
  { says: 'a test named in a table', name: 'a hole ends the prefix' },
  { says: 'a test named by a template', name: "ts: removes the worker's blocks" },
  { says: 'a test in a case file', name: 'gives every rank its own depth' },
  { says: 'an escaped quote', name: "can't be crossed" },
  { says: 'an escaped pipe', name: 'either \\| or' },
  { says: 'a describe path', name: 'an empty query finds nothing > a hole ends the prefix' },
])('believes $says', ({ name }) => {
  expect(judge(row(name))).toEqual([])
})

it.each([
  { says: 'a test that nobody wrote', rows: [row('flies to the moon')], complaint: 'has no test "flies to the moon"' },
  { says: 'a name that only a comment has', rows: [row('a name in a comment')], complaint: 'has no test' },
  { says: 'half a name', rows: [row('an empty query')], complaint: 'has no test' },
  { says: 'a table that is all hole', rows: [row('anything at all')], complaint: 'has no test' },
  { says: 'a file that is gone', rows: [row('x', 'src/gone.test.ts')], complaint: 'src/gone.test.ts does not exist' },
  {
    says: 'a row without a test beside one that has it',
    rows: [row('a hole ends the prefix'), '| trust me | soon | later |'],
    complaint: 'the row "trust me" names no test file',
  },
  { says: 'a row without a name', rows: [row('')], complaint: 'is not | behaviour' },
  { says: 'a page without rows', rows: [], complaint: 'no row names a test' },
])('refuses $says', ({ rows, complaint }) => {
  const complaints = judge(...rows)
  expect(complaints).toHaveLength(1)
  expect(complaints[0]).toContain(complaint)
})

it('leaves other tables alone', () => {
  const page = `| Option | Price |\n| --- | --- |\n| a | b |\n\n| Behaviour | Test file | Test |\n| --- | --- | --- |\n${row('a hole ends the prefix')}`
  expect(judgeConformance('page.md', page, (path) => files.get(path))).toEqual([])
})

it('lists the parts by file name with their titles, and a second run changes nothing', () => {
  const parts = new Map([
    ['wire.md', '# The wire'],
    ['hashing.md', '# Hashing\n'],
  ])
  expect(listParts(parts)).toBe('- [Hashing](conformance/hashing.md)\n- [The wire](conformance/wire.md)')
  const page = withParts('# Conformance\n', parts)
  expect(page).toContain(listParts(parts))
  expect(withParts(page, parts)).toBe(page)
})
