/** Reads the three places a setting can come from. Each finding keeps its origin, so that a complaint can name the place. */
import { LineCounter, isAlias, isMap, isScalar, parseDocument } from 'yaml'
import type { NamedOption, OptionNames } from './names.js'
import { nearest } from './nearest.js'
import { envOf } from './option.js'

export type Origin =
  | { readonly kind: 'default' }
  | { readonly kind: 'file'; readonly path: string; readonly line: number }
  | { readonly kind: 'env'; readonly name: string }
  | { readonly kind: 'flag'; readonly name: string }

export interface Finding {
  readonly option: NamedOption
  readonly value: unknown
  readonly origin: Origin
  /** Upstream ignores what it cannot read under its own environment names. */
  readonly isLenient: boolean
}

export interface Findings {
  readonly found: Finding[]
  /** Each ends the start. */
  readonly complaints: string[]
  readonly warnings: string[]
}

const ownPrefix = 'WARMROUTE_'

export function newFindings(): Findings {
  return { found: [], complaints: [], warnings: [] }
}

export function describeOrigin(origin: Origin): string {
  switch (origin.kind) {
    case 'default':
      return 'default'
    case 'file':
      return `${origin.path}:${origin.line}`
    case 'env':
    case 'flag':
      return origin.name
  }
}

/** A YAML file with one section per group. Sections named `x-…` hold what others refer to by `*name` or `<<: *name`. */
export function readFileText(names: OptionNames, path: string, text: string, findings: Findings): void {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: true, merge: true })
  for (const { code, message } of document.errors)
    findings.complaints.push(
      `${path}: ${code === 'MULTIPLE_DOCS' ? 'holds more than one document' : firstLine(message)}`,
    )
  if (document.errors.length > 0 || document.contents === null) return
  if (!isMap(document.contents)) {
    findings.complaints.push(`${path}: expected sections such as "${names.all[0]?.group}:"`)
    return
  }
  let plain: Readonly<Record<string, Readonly<Record<string, unknown>> | undefined>>
  try {
    plain = document.toJS() as typeof plain
  } catch (error) {
    findings.complaints.push(`${path}: ${firstLine((error as Error).message)}`) // aliases that would never end
    return
  }
  const groups = new Set(names.all.map((named) => named.group))
  for (const section of document.contents.items) {
    const group = isScalar(section.key) ? String(section.key.value) : ''
    const at = `${path}:${lineOf(lines, section.key)}`
    if (group.startsWith('x-')) continue
    const keys = isAlias(section.value) ? section.value.resolve(document) : section.value
    if (!groups.has(group)) {
      findings.complaints.push(`${at}: unknown section "${group}"${meant(group, groups)}`)
    } else if (isMap(keys)) {
      const places = new Map(keys.items.map(({ key }) => [isScalar(key) ? String(key.value) : '', key]))
      for (const [key, value] of Object.entries(plain[group]!)) {
        const line = lineOf(lines, places.get(key) ?? section.key) // what was merged in stands elsewhere
        const option = names.byKey.get(`${group}.${key}`)
        if (option) {
          findings.found.push({ option, value, origin: { kind: 'file', path, line }, isLenient: false })
        } else {
          const known = names.all.filter((it) => it.group === group).map((it) => it.key.slice(group.length + 1))
          findings.complaints.push(`${path}:${line}: unknown key "${group}.${key}"${meant(key, known)}`)
        }
      }
    } else if (!isScalar(keys) || keys.value !== null) {
      findings.complaints.push(`${at}: section "${group}" must hold keys`)
    }
  }
}

/** Our own name wins over upstream's. Values are trimmed; an empty one is not set. */
export function readEnv(
  names: OptionNames,
  env: Readonly<Record<string, string | undefined>>,
  findings: Findings,
): void {
  for (const option of names.all) {
    const own = envOf(option.name)
    const name = [own, ...(option.option.extras.env ?? [])].find((it) => (env[it] ?? '').trim() !== '')
    if (name === undefined) continue
    const isLenient = name !== own && option.option.extras.isStrictEnv !== true
    addText(option, env[name]!.trim(), { kind: 'env', name }, isLenient, findings)
  }
  for (const name of Object.keys(env)) {
    if (!name.startsWith(ownPrefix) || names.byOwnEnv.has(name) || name === 'WARMROUTE_CONFIG') continue
    const known = [...names.byOwnEnv.keys()].map((it) => it.slice(ownPrefix.length)) // what all share says nothing
    const near = nearest(name.slice(ownPrefix.length), known)
    findings.warnings.push(`${name} is not a setting${near === undefined ? '' : `; did you mean ${ownPrefix}${near}?`}`)
  }
}

/** `--name value`, `--name=value`, and `--name` / `--no-name` for switches. What is no flag is returned. */
export function readFlags(names: OptionNames, argv: readonly string[], findings: Findings): string[] {
  const rest: string[] = []
  for (let index = 0; index < argv.length; index++) {
    const word = argv[index]!
    if (!word.startsWith('--') || word === '--') {
      rest.push(word)
      continue
    }
    const [flag, inline] = splitOnce(word)
    const negated = flag.startsWith('--no-') ? names.byFlag.get(`--${flag.slice(5)}`) : undefined
    const option = names.byFlag.get(flag) ?? (negated?.option.isSwitch ? negated : undefined)
    const origin: Origin = { kind: 'flag', name: flag }
    if (!option) {
      findings.complaints.push(`unknown flag ${flag}${meant(flag, names.byFlag.keys())}`)
    } else if (option.option.isSwitch && inline === undefined) {
      findings.found.push({ option, value: names.byFlag.get(flag) === option, origin, isLenient: false })
    } else {
      const value = inline ?? argv[++index]
      if (value === undefined) findings.complaints.push(`${flag} needs a value`)
      else addText(option, value.trim(), origin, false, findings)
    }
  }
  return rest
}

function addText(option: NamedOption, text: string, origin: Origin, isLenient: boolean, findings: Findings): void {
  let value: unknown
  try {
    value = option.option.fromText(text)
  } catch {
    value = undefined
  }
  if (value !== undefined) findings.found.push({ option, value, origin, isLenient })
  else refuseText(option, text, origin, isLenient, findings)
}

function refuseText(option: NamedOption, text: string, origin: Origin, isLenient: boolean, findings: Findings): void {
  const sentence = `${describeOrigin(origin)}: "${text.slice(0, 80)}" is not ${option.option.accepts}`
  if (isLenient) findings.warnings.push(`${sentence}; ignored`)
  else findings.complaints.push(sentence)
}

export function meant(word: string, known: Iterable<string>): string {
  const near = nearest(word, known)
  return near === undefined ? '' : `; did you mean ${near}?`
}

function lineOf(lines: LineCounter, node: unknown): number {
  const range = (node as { range?: [number, number, number] | null } | null)?.range
  return range ? lines.linePos(range[0]).line : 1
}

function splitOnce(word: string): [string, string | undefined] {
  const at = word.indexOf('=')
  return at < 0 ? [word, undefined] : [word.slice(0, at), word.slice(at + 1)]
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0]!.replace(/:$/, '')
}
