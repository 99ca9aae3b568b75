/** `--set key=value` and `--sweep key=a:b:step`: settings of the router by the names that a config file has for them. */
import { groups, loadConfig } from '../../config/index.js'
import type { LoadedConfig } from '../../config/index.js'
import type { RouterConfigInput } from '../../core/protocol/index.js'
import { WarmrouteError } from '../../core/protocol/index.js'

export interface Sweep {
  readonly key: string
  readonly values: readonly number[]
}

const sweepValuesMax = 100

type Flag = '--set' | '--sweep'

/**
 * Only what was said; every value judged as the product judges its config file. An unknown key names the nearest one, and
 * complaints name the flag that a person wrote.
 */
export function readSettings(assignments: readonly string[], flag: Flag = '--set'): RouterConfigInput {
  if (assignments.length === 0) return {}
  const pairs = assignments.map((text) => splitAssignment(text, flag))
  const policy = pairs.find(([key]) => key === 'policy')
  if (policy) refuse(`${flag} policy: name policies with --policy`)
  const loaded = load(pairs, flag)
  const isSet = (name: string): boolean => loaded.origins.get(`routing.${snakeCase(name)}`)?.kind === 'file'
  const isOldWeightSet = isSet('overlapScoreWeight') // the deprecated name of these two
  return Object.fromEntries(
    Object.entries(loaded.values.routing).filter(
      ([name]) => isSet(name) || (isOldWeightSet && (name === 'prefillLoadScale' || name === 'overlapScoreCredit')),
    ),
  )
}

/** As if the settings stood in a file, one to a line; complaints then name lines that nobody wrote, so these are taken out. */
function load(
  pairs: readonly (readonly [string, string])[],
  flag: Flag,
): LoadedConfig<{ routing: typeof groups.routing }> {
  const text = ['routing:', ...pairs.map(([key, value]) => `  ${JSON.stringify(key)}: ${value}`)].join('\n')
  try {
    return loadConfig({ routing: groups.routing }, { file: { path: flag, text } })
  } catch (cause) {
    if (!(cause instanceof WarmrouteError)) throw cause
    const reason = String(cause.details['reason']).replaceAll(/(--\w+):\d+: /g, '$1: ')
    throw new WarmrouteError(cause.code, { ...cause.details, reason }, { cause })
  }
}

export function parseSweep(text: string): Sweep {
  const [key, range] = splitAssignment(text, '--sweep')
  const [from, to, step, ...more] = range.split(':').map(Number)
  if (more.length > 0 || ![from, to, step].every((it) => it !== undefined && Number.isFinite(it)) || !(step! > 0))
    refuse(`--sweep ${text}: expected name=from:to:step with a step above 0`)
  const count = Math.floor((to! - from!) / step! + 1e-9) + 1
  if (count < 1 || count > sweepValuesMax) refuse(`--sweep ${text}: gives ${count} values, not 1 to ${sweepValuesMax}`)
  // Rounded: 0.1 + 0.2 is no value that anybody asked for.
  const values = Array.from({ length: count }, (_, index) => Number((from! + index * step!).toPrecision(12)))
  for (const value of values) readSettings([`${key}=${value}`], '--sweep')
  return { key, values }
}

function splitAssignment(text: string, flag: Flag): [string, string] {
  const at = text.indexOf('=')
  if (at < 1 || at === text.length - 1)
    refuse(`${flag} ${text}: expected name=${flag === '--sweep' ? 'from:to:step' : 'value'}`)
  return [text.slice(0, at).trim(), text.slice(at + 1).trim()]
}

function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

function refuse(reason: string): never {
  throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason })
}
