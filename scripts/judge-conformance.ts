/**
 * Follows every promise of `docs/reference/conformance/` to the test that keeps it. Pure, so that the tests can feed it
 * pages that lie. It proves that a test of that name exists, not that the test is a good one.
 */
import { posix } from 'node:path'

/** The text of a file, or undefined where there is none. Paths are relative to the repository. */
export type ReadFile = (path: string) => string | undefined

/** A row: `| behaviour | `path.test.ts` | test name |`. Inside a table that has one such row, every row is of that form. */
export function judgeConformance(page: string, text: string, read: ReadFile): string[] {
  const complaints: string[] = []
  let rowCount = 0
  for (const table of tablesOf(text)) {
    const body = table.slice(2) // header and ruler
    if (!body.some((row) => testPath(row) !== undefined)) continue
    rowCount += body.length
    for (const row of body) complaints.push(...judgeRow(page, row, read))
  }
  if (rowCount === 0) complaints.push(`${page}: no row names a test`)
  return complaints
}

/** The list of parts on the index page, as it must be: one line per page, by file name. */
export function listParts(parts: ReadonlyMap<string, string>): string {
  return [...parts]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([file, text]) => `- [${titleOf(text) ?? file}](conformance/${file})`)
    .join('\n')
}

export const partsMarkers = ['<!-- parts: npm run docs:conformance -->', '<!-- /parts -->'] as const

/** The index page with its list of parts brought up to date. */
export function withParts(page: string, parts: ReadonlyMap<string, string>): string {
  const [open, close] = partsMarkers
  const from = page.indexOf(open)
  const to = page.indexOf(close)
  if (from < 0 || to < from) return `${page}\n${open}\n\n${listParts(parts)}\n\n${close}\n`
  return `${page.slice(0, from + open.length)}\n\n${listParts(parts)}\n\n${page.slice(to)}`
}

type Row = readonly string[]

function judgeRow(page: string, row: Row, read: ReadFile): string[] {
  const path = testPath(row)
  const name = row[2]?.trim() ?? ''
  if (path === undefined) return [`${page}: the row "${row[0]}" names no test file`]
  if (row.length !== 3 || row[0] === '' || name === '')
    return [`${page}: the row "${row[0]}" is not | behaviour | \`file\` | test name |`]
  if (read(path) === undefined) return [`${page}: ${path} does not exist`]
  const names = testNamesIn(path, read)
  const missing = name.split(' > ').filter((part) => !names.some((it) => it(part)))
  return missing.map((part) => `${page}: ${path} has no test "${part}"`)
}

function testPath(row: Row): string | undefined {
  return /^`([\w./-]+\.(?:test|case|drill)\.tsx?)`$/.exec(row[1] ?? '')?.[1]
}

function titleOf(text: string): string | undefined {
  return /^# (.+)$/m.exec(text)?.[1]
}

function tablesOf(text: string): Row[][] {
  const tables: Row[][] = []
  let open = false
  for (const line of text.split('\n')) {
    const isRow = line.startsWith('|')
    if (isRow && !open) tables.push([])
    if (isRow) tables.at(-1)!.push(cellsOf(line))
    open = isRow
  }
  return tables
}

/** A pipe inside a cell is written `\|`. */
function cellsOf(line: string): Row {
  return line
    .trim()
    .replace(/^\||\|$/g, '')
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll('\\|', '|'))
}

type NameTest = (name: string) => boolean

/** Tests are named by string literals: in `it`, in the rows of an `it.each`, or in a `.case.ts` that the file imports. */
function testNamesIn(path: string, read: ReadFile, seen = new Set<string>()): NameTest[] {
  const source = read(path)
  if (source === undefined || seen.has(path)) return []
  seen.add(path)
  const literals = literalsOf(source)
  const cases = literals
    .filter((it) => it.startsWith('.') && it.endsWith('.case.js'))
    .map((it) => posix.join(posix.dirname(path), it.replace(/\.js$/, '.ts')))
  return [...literals.map(nameTest), ...cases.flatMap((it) => testNamesIn(it, read, seen))]
}

const literalOrComment = /\/\/.*|\/\*[\s\S]*?\*\/|'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\[\s\S])*)`/g

/** String literals outside of comments, with escapes undone. */
function literalsOf(source: string): string[] {
  return [...source.matchAll(literalOrComment)]
    .map((match) => match[1] ?? match[2] ?? match[3])
    .filter((it) => it !== undefined)
    .map((it) => it.replaceAll(/\\(.)/g, '$1'))
}

const hole = /\$\{[^}]*\}|%[sdifjoO#%]|\$[\w.]+/

/** `${name}: finds nothing` names `wasm: finds nothing` too; a literal that is all hole names nothing. */
function nameTest(literal: string): NameTest {
  const fixed = literal.split(hole)
  if (fixed.length === 1 || fixed.join('').trim().length < 4) return (name) => name === literal
  const pattern = new RegExp(`^${fixed.map((it) => it.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('.*')}$`, 's')
  return (name) => name === literal || pattern.test(name)
}
