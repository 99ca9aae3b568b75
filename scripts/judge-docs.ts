/** Compares documents with code. Pure, so that the tests can feed it documents that lie. */

/** A room's README has a table `| File | Answers |`; it names every source file of the room and nothing else. */
export function judgeRoomReadme(readme: string, text: string, files: readonly string[]): string[] {
  const rows = new Set([...text.matchAll(/^\|\s*`?([\w./-]+\.ts)`?\s*\|/gm)].map((match) => match[1]!))
  const wanted = files.filter((file) => !/(\.test|\.case|\.generated)\.ts$/.test(file) && file !== 'index.ts')
  return [
    ...wanted.filter((file) => !rows.has(file)).map((file) => `${readme}: no row for ${file}`),
    ...[...rows].filter((row) => !files.includes(row)).map((row) => `${readme}: ${row} is not in the folder`),
  ]
}

/** Every error code has a row in the reference page, and no row has lost its code. */
export function judgeErrorTable(source: string, page: string): string[] {
  const codes = new Set([...source.matchAll(/^\s+(WR_[A-Z0-9_]+):/gm)].map((match) => match[1]!))
  const rows = new Set([...page.matchAll(/^\|\s*`(WR_[A-Z0-9_]+)`\s*\|/gm)].map((match) => match[1]!))
  return [
    ...[...codes].filter((code) => !rows.has(code)).map((code) => `docs/reference/errors.md: no row for ${code}`),
    ...[...rows].filter((row) => !codes.has(row)).map((row) => `docs/reference/errors.md: ${row} is no error code`),
  ]
}
