/** Judges one source file by the rules of the house. Pure, so that the tests can feed it bad examples. */
import { posix } from 'node:path'
import { corePackages, floorOf, roomOf } from './rooms.js'

const importPattern =
  /(?:^|\n)\s*(?:import|export)\b[^'"`;]*?\bfrom\s*['"]([^'"]+)['"]|(?:^|\n)\s*import\s*['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]/g

/** Words that would make the core depend on when and where it runs. */
const impure =
  /\b(Date\.now|new Date\(\)|performance\.now|Math\.random|setTimeout|setInterval|setImmediate|process\.|crypto\.)/

/** Complaints about one file; `path` is relative to `src/`. */
export function judgeImports(path: string, source: string): string[] {
  const isTest = /\.(test|case)\.ts$/.test(path)
  const from = roomOf(path)
  const complaints: string[] = []
  // Examples in doc comments import the package as its users do.
  for (const match of source.replaceAll(/^\s*\/\*\*[\s\S]*?\*\//gm, '').matchAll(importPattern)) {
    const specifier = match[1] ?? match[2] ?? match[3] ?? ''
    const complaint = specifier.startsWith('.')
      ? judgeRelative(path, from, specifier)
      : judgePackage(path, specifier, isTest)
    if (complaint) complaints.push(complaint)
  }
  if (path.startsWith('core/') && !isTest) {
    const word = impure.exec(withoutComments(source))?.[1]
    if (word) complaints.push(`src/${path}: core is pure, pass the value in instead of calling ${word}`)
  }
  return complaints
}

function judgeRelative(path: string, from: string | undefined, specifier: string): string | undefined {
  const target = posix.normalize(posix.join(posix.dirname(path), specifier))
  if (target.startsWith('..')) return undefined // fixtures and bench helpers, from tests
  const to = roomOf(target)
  if (to === undefined)
    return from === undefined ? undefined : `src/${path}: rooms do not import package entries (${specifier})`
  if (to === from) return undefined
  if (floorOf(to) < 0) return `src/${path}: ${to} is not a room of the house (scripts/rooms.ts)`
  if (target !== `${to}/index.js`) return `src/${path}: go through the front door of ${to}, not ${specifier}`
  if (from === undefined) return undefined
  if (floorOf(to) <= floorOf(from)) return `src/${path}: ${from} may not import ${to}, which is not below it`
  return undefined
}

function judgePackage(path: string, specifier: string, isTest: boolean): string | undefined {
  if (!path.startsWith('core/') || isTest) return undefined
  if (corePackages.some((name) => specifier === name || specifier.startsWith(`${name}/`))) return undefined
  return `src/${path}: core may not import ${specifier}`
}

function withoutComments(source: string): string {
  return source.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/\/\/.*/g, '')
}
