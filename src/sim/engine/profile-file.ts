/**
 * Engine profiles as files: one JSON object of terms (what `warmroute profile` writes), or measured points as JSON lines. Names
 * in files are in snake case.
 */
import type { PrefillCoefficients } from '../../core/load/index.js'
import { WarmrouteError } from '../../core/protocol/index.js'
import { fitProfile } from './fit-profile.js'
import type { TermsProfile, TimingProfile } from './timing.js'
import { parseStepTable } from './timing-table.js'
import type { StepTable } from './timing-table.js'

/** Throws `WR_INVALID_ARGUMENT` with what is wrong. `name` is the file's. */
export function parseEngineProfile(text: string, name: string): TimingProfile {
  const whole = readJson(text)
  if (whole === undefined || 'ms' in whole) return { kind: 'table', name, ...readPoints(text, name) }
  if (whole['kind'] !== 'terms')
    refuse(`${name} is no engine profile: its kind is ${JSON.stringify(whole['kind'])}, not "terms"`)
  const number = (part: string, key: string): number => {
    const value = (whole[part] as Record<string, unknown> | undefined)?.[key]
    if (typeof value !== 'number' || !(value >= 0 && value <= msMax)) refuse(`${name} lacks a usable ${part}.${key}`)
    return value
  }
  const profile: TermsProfile = {
    kind: 'terms',
    name: typeof whole['name'] === 'string' ? whole['name'] : name,
    prefill: {
      constant: number('prefill', 'constant'),
      perNew: number('prefill', 'per_new'),
      perNewSquared: number('prefill', 'per_new_squared'),
      perNewTimesPrefix: number('prefill', 'per_new_times_prefix'),
    },
    decode: {
      constant: number('decode', 'constant'),
      perRequest: number('decode', 'per_request'),
      perContextToken: number('decode', 'per_context_token'),
    },
  }
  if (
    profile.prefill.constant + profile.prefill.perNew === 0 ||
    profile.decode.constant + profile.decode.perRequest === 0
  )
    refuse(`${name} says that computing takes no time`)
  return profile
}

/** A day: no coefficient of a pass comes near it, and times stay numbers that can be added up. */
const msMax = 86_400_000

function readPoints(text: string, name: string): StepTable {
  try {
    return parseStepTable(text)
  } catch (cause) {
    if (!(cause instanceof WarmrouteError)) throw cause
    throw new WarmrouteError(
      cause.code,
      { ...cause.details, reason: `${name}: ${String(cause.details['reason'])}` },
      { cause },
    )
  }
}

/** `facts` stand beside the profile for people; nothing reads them. */
export function formatEngineProfile(profile: TermsProfile, facts: Readonly<Record<string, unknown>> = {}): string {
  const { prefill, decode } = profile
  const file = {
    kind: profile.kind,
    name: profile.name,
    prefill: {
      constant: rounded(prefill.constant),
      per_new: rounded(prefill.perNew),
      per_new_squared: rounded(prefill.perNewSquared),
      per_new_times_prefix: rounded(prefill.perNewTimesPrefix),
    },
    decode: {
      constant: rounded(decode.constant),
      per_request: rounded(decode.perRequest),
      per_context_token: rounded(decode.perContextToken),
    },
    ...facts,
  }
  return `${JSON.stringify(file, undefined, 2)}\n`
}

/** Where a router starts to learn from. */
export function prefillCoefficientsOf(profile: TimingProfile): PrefillCoefficients {
  switch (profile.kind) {
    case 'terms': {
      const { constant: base, perNew, perNewSquared, perNewTimesPrefix } = profile.prefill
      return { base, perToken: perNew, perToken2: perNewSquared, perTokenPrefix: perNewTimesPrefix }
    }
    case 'polynomial': {
      const [base, perToken, perToken2] = profile.prefill
      return { base, perToken, perToken2, perTokenPrefix: 0 }
    }
    case 'table':
      return prefillCoefficientsOf(fitProfile(profile, profile.name, Number.POSITIVE_INFINITY).profile)
  }
}

/** Undefined: it is not one JSON object, so it may be lines of them. */
function readJson(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const json: unknown = JSON.parse(text)
    return typeof json === 'object' && json !== null && !Array.isArray(json)
      ? (json as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}

function rounded(value: number): number {
  return Number(value.toPrecision(5))
}

function refuse(reason: string): never {
  throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason })
}
