/** Compares documents with code. Pure, so that the tests can feed it documents that lie. */
import { dirname, join, normalize } from 'node:path/posix'

/** A room's README has a table `| File | Answers |`; it names every source file of the room and nothing else. */
export function judgeRoomReadme(readme: string, text: string, files: readonly string[]): string[] {
  const rows = new Set([...text.matchAll(/^\|\s*`?([\w./-]+\.ts)`?\s*\|/gm)].map((match) => match[1]!))
  const wanted = files.filter((file) => !/(\.test|\.case|\.generated)\.ts$/.test(file) && file !== 'index.ts')
  return [
    ...wanted.filter((file) => !rows.has(file)).map((file) => `${readme}: no row for ${file}`),
    ...[...rows].filter((row) => !files.includes(row)).map((row) => `${readme}: ${row} is not in the folder`),
  ]
}

/** What the package holds besides `dist`, by its `files`: whole folders and names, some of them taken out again. */
export function packedFiles(manifest: string, files: readonly string[]): readonly string[] {
  const entries = ['README.md', 'LICENSE', 'package.json', ...(JSON.parse(manifest) as { files: string[] }).files]
  const isIn = (file: string, entry: string): boolean => file === entry || file.startsWith(`${entry}/`)
  return files.filter(
    (file) =>
      entries.some((entry) => isIn(file, entry)) &&
      !entries.some((entry) => entry.startsWith('!') && isIn(file, entry.slice(1))),
  )
}

/** A page links to pages and folders that lie where it lies; `files` are all that there is. */
export function judgeLinks(page: string, text: string, files: readonly string[]): string[] {
  const targets = [...text.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)].map((match) => match[1]!)
  const own = targets.filter((target) => !/^[a-z]+:/i.test(target))
  const missing = own.filter((target) => {
    const path = normalize(join(dirname(page), target)).replace(/\/$/, '')
    return !files.some((file) => file === path || file.startsWith(`${path}/`))
  })
  return missing.map((target) => `${page}: ${target} is not in the package`)
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
