/** Reads what a package entry exports, from its sources or its declaration files. Pure over a `read` function, so that tests can feed it. */
import { posix } from 'node:path'

export interface ApiName {
  readonly name: string
  /** The declaration as the compiler wrote it, comments taken out. */
  readonly declaration: string
  /** The first line of its comment. */
  readonly summary: string | undefined
  /** The code of its `@example`. */
  readonly example: string | undefined
}

/** The files that an entry is read from: what was written, or what the compiler made of it. */
export type SurfaceFiles = '.ts' | '.d.ts'

/** Every name that the entry exports, sorted, with its declaration. */
export function readSurface(entry: string, read: (path: string) => string, files: SurfaceFiles = '.d.ts'): ApiName[] {
  const names = [...exportedNames(entry, read, files)].map(([name, from]) => describe(name, from.name, from.path, read))
  return names.sort((a, b) => (a.name < b.name ? -1 : 1))
}

interface Origin {
  readonly name: string
  readonly path: string
}

/** Follows `export { a, b as c } from './x.js'` to the files that declare the names. */
function exportedNames(path: string, read: (path: string) => string, files: SurfaceFiles): Map<string, Origin> {
  const source = read(path)
  const found = new Map<string, Origin>()
  for (const match of source.matchAll(/export (?:type )?\{([^}]*)\} from '([^']+)'/g)) {
    const target = posix.join(posix.dirname(path), match[2]!.replace(/\.js$/, files))
    const origins = exportedNames(target, read, files)
    for (const part of match[1]!
      .split(',')
      .map((it) => it.trim())
      .filter(Boolean)) {
      const [inner, outer = inner] = part.replace(/^type /, '').split(' as ')
      found.set(outer!, origins.get(inner!) ?? { name: inner!, path: target })
    }
  }
  const declared = /^export (?:declare )?(?:abstract )?(?:async )?(?:class|function|const|interface|type) (\w+)/gm
  for (const match of source.matchAll(declared)) found.set(match[1]!, { name: match[1]!, path })
  return found
}

function describe(name: string, inner: string, path: string, read: (path: string) => string): ApiName {
  const source = read(path)
  const start = new RegExp(
    `^export (?:declare )?(?:abstract )?(?:async )?(?:class|function|const|interface|type) ${inner}\\b`,
    'm',
  ).exec(source)
  if (!start) return { name, declaration: `(not found in ${path})`, summary: undefined, example: undefined }
  const comment = /\/\*\*(?:(?!\*\/)[\s\S])*\*\/\s*$/.exec(source.slice(0, start.index))?.[0] ?? ''
  const declaration = source.slice(start.index, endOfDeclaration(source, start.index))
  return { name, declaration: withoutComments(declaration), summary: summaryIn(comment), example: exampleIn(comment) }
}

function summaryIn(comment: string): string | undefined {
  const text = comment.replace(/^[\s\S]*?\/\*\*/, '').replace(/\*\/\s*$/, '')
  return text
    .split('\n')
    .map((line) => line.replace(/^\s*\* ?/, '').trim())
    .find((line) => line !== '' && !line.startsWith('@'))
}

function exampleIn(comment: string): string | undefined {
  const text = /@example\n([\s\S]*?)(?:\n\s*\* @|\s*\*\/)/.exec(comment)?.[1]
  return text?.replaceAll(/^\s*\* ?/gm, '')
}

/** One past the declaration: the brace that closes it, or the semicolon of its line where no brace is open. */
function endOfDeclaration(source: string, start: number): number {
  let depth = 0
  for (let at = start; at < source.length; at++) {
    const char = source[at]!
    if ('{(['.includes(char)) depth++
    else if ('})]'.includes(char)) {
      depth--
      if (depth === 0 && char === '}' && source[at + 1] === '\n') return at + 1
    } else if (char === ';' && depth === 0) return at + 1
  }
  return source.length
}

function withoutComments(text: string): string {
  return text
    .replaceAll(/\/\*[\s\S]*?\*\//g, '')
    .split('\n')
    .map((line) => line.trimEnd())
    .filter((line) => line !== '')
    .join('\n')
}
