/**
 * Defaults, then the file, then the environment, then flags: the last that speaks is right. Refuses what it does not know,
 * and remembers for every value where it came from.
 */
import type { z } from 'zod'
import type { ConfigIssue } from '../core/protocol/index.js'
import { WarmrouteError } from '../core/protocol/index.js'
import type { OptionGroup } from './group.js'
import type { NamedOption } from './names.js'
import { nameOptions } from './names.js'
import { isInRange } from './option.js'
import type { Finding, Origin } from './sources.js'
import { describeOrigin, newFindings, readEnv, readFileText, readFlags } from './sources.js'
import { unreadReason } from './unread-names.js'

export interface ConfigSources {
  readonly file?: { readonly path: string; readonly text: string } | undefined
  readonly env?: Readonly<Record<string, string | undefined>> | undefined
  readonly flags?: readonly string[] | undefined
}

export interface LoadedConfig<Groups extends Readonly<Record<string, OptionGroup>>> {
  readonly values: { readonly [Name in keyof Groups]: Groups[Name] extends OptionGroup<infer Result> ? Result : never }
  /** Plain values by file key, `group.name`, defaults included, before rules between them are applied. */
  readonly given: ReadonlyMap<string, unknown>
  /** By file key. */
  readonly origins: ReadonlyMap<string, Origin>
  /** Each is said once, at start. */
  readonly warnings: readonly string[]
  /** Words of the command line that are no flags. */
  readonly rest: readonly string[]
}

export function loadConfig<Groups extends Readonly<Record<string, OptionGroup>>>(
  groups: Groups,
  sources: ConfigSources,
): LoadedConfig<Groups> {
  const names = nameOptions(Object.values(groups))
  const findings = newFindings()
  if (sources.file) readFileText(names, sources.file.path, sources.file.text, findings)
  readEnv(names, sources.env ?? {}, findings)
  const rest = readFlags(names, sources.flags ?? [], findings)

  const values = new Map<string, unknown>()
  const origins = new Map<string, Origin>(names.all.map((named) => [named.key, { kind: 'default' }]))
  const warnings = [...findings.warnings]
  const complaints = [...findings.complaints]
  for (const finding of findings.found) {
    const complaint = take(finding, values, origins)
    if (complaint === undefined) continue
    if (finding.isLenient && !complaint.isRange) warnings.push(`${complaint.sentence}; ignored`)
    else complaints.push(complaint.sentence)
  }
  refuse(complaints)
  warnings.push(...names.all.flatMap((named) => remarks(named, origins.get(named.key)!)))
  warnings.push(...unreadIn(sources.env ?? {}))

  const results: Record<string, unknown> = {}
  for (const [key, group] of Object.entries(groups)) {
    results[key] = completeGroup(group, names.all, values, origins)
  }
  const given = new Map(names.all.map(({ key, option }) => [key, values.has(key) ? values.get(key) : option.fallback]))
  return { values: results as LoadedConfig<Groups>['values'], given, origins, warnings, rest }
}

function unreadIn(env: Readonly<Record<string, string | undefined>>): string[] {
  return Object.keys(env).flatMap((name) => {
    const reason = (env[name] ?? '').trim() === '' ? undefined : unreadReason(name)
    return reason === undefined ? [] : [`${name} is not read: ${reason}`]
  })
}

interface Complaint {
  readonly sentence: string
  /** It could be read, and is too small or too large. */
  readonly isRange: boolean
}

function take(finding: Finding, values: Map<string, unknown>, origins: Map<string, Origin>): Complaint | undefined {
  const { option, origin } = finding
  const { schema, accepts, extras } = option.option
  const complain = (sentence: string, isRange: boolean): Complaint => ({
    sentence: `${describeOrigin(origin)}: ${sentence}`,
    isRange,
  })
  const parsed = schema.safeParse(finding.value)
  if (!parsed.success) return complain(insideOf(option.key, parsed.error) ?? `${option.key} must be ${accepts}`, false)
  if (extras.range && typeof parsed.data === 'number' && !isInRange(parsed.data, extras.range))
    return complain(`${option.key} must be ${accepts}`, true)
  values.set(option.key, parsed.data)
  origins.set(option.key, origin)
  return undefined
}

/** What is wrong inside of a list or an object, and where; undefined when the whole is of another kind. */
function insideOf(key: string, { issues }: z.ZodError): string | undefined {
  const [issue] = issues.map(innermost)
  if (!issue || issue.path.length === 0) return undefined
  const place = issue.path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`)).join('')
  return `${key}${place}: ${issue.message.charAt(0).toLowerCase()}${issue.message.slice(1)}`
}

/** Of several shapes that a value could have had, the one that it came nearest to. */
function innermost(issue: z.core.$ZodIssue): z.core.$ZodIssue {
  if (issue.code !== 'invalid_union') return issue
  const inner = issue.errors.flatMap(([first]) => (first ? [innermost(first)] : []))
  const nearest = inner.toSorted((one, other) => weight(other) - weight(one))[0]
  if (!nearest) return issue
  return { ...nearest, path: [...issue.path, ...nearest.path] }
}

function weight({ path, code }: z.core.$ZodIssue): number {
  return 2 * path.length + (code === 'invalid_type' ? 0 : 1)
}

function remarks(named: NamedOption, origin: Origin): string[] {
  if (origin.kind === 'default') return []
  const { noEffect, deprecated } = named.option.extras
  const where = `${named.key} (${describeOrigin(origin)})`
  return [
    ...(noEffect === undefined ? [] : [`${where} has no effect: ${noEffect}`]),
    ...(deprecated === undefined ? [] : [`${where} is deprecated: ${deprecated}`]),
  ]
}

function completeGroup(
  group: OptionGroup,
  all: readonly NamedOption[],
  values: ReadonlyMap<string, unknown>,
  origins: ReadonlyMap<string, Origin>,
): unknown {
  const mine = all.filter((named) => named.group === group.name)
  const plain = Object.fromEntries(
    mine.map(({ key, name, option }) => [name, values.has(key) ? values.get(key) : option.fallback]),
  )
  const keyOf = new Map(mine.map(({ name, key }) => [name, key]))
  const originOf = (name: string): Origin | undefined => origins.get(keyOf.get(name) ?? '')
  try {
    return group.complete(plain, (name) => (originOf(name)?.kind ?? 'default') !== 'default')
  } catch (error) {
    if (!(error instanceof WarmrouteError) || error.code !== 'WR_INVALID_CONFIG') throw error
    const issues = (error.details['issues'] ?? []) as readonly ConfigIssue[]
    refuse(
      issues.map(({ field, message }) => {
        const origin = originOf(field)
        return origin && origin.kind !== 'default' ? `${describeOrigin(origin)}: ${message}` : message
      }),
    )
    throw error
  }
}

function refuse(complaints: readonly string[]): void {
  if (complaints.length === 0) return
  throw new WarmrouteError('WR_INVALID_CONFIG', {
    reason: complaints.join('; '),
    issues: complaints.map((message) => ({ field: '', message })),
  })
}
