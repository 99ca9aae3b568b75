/**
 * Reads the policy file's content (already a plain value; the YAML is somebody else's business) into profiles, and lists
 * everything that is wrong with it. Follows lib/kv-router/src/scheduling/policy_config.rs of 1.5.0-dev.
 */
import type { ConfigIssue, QueuePolicy } from '../protocol/index.js'
import { WarmrouteError } from '../protocol/index.js'
import type { PolicyClass } from './policy-class.js'
import type { PolicyConfig, PolicyProfile, UncachedBucket } from './policy-profile.js'

type Plain = Readonly<Record<string, unknown>>

const profileKeys = ['default_policy_family', 'uncached_isl_buckets', 'policy_classes']
const classKeys = [
  'name',
  'policy_family',
  'cache_bucket',
  'queue_policy',
  'quantum',
  'prefill_busy_threshold',
  'prefill_busy_threshold_frac',
  'request_queue_limit_per_worker',
  'raw_isl_token_queue_limit_per_worker',
  'cached_token_queue_limit_per_worker',
]
const identifier = /^[A-Za-z0-9_.-]+$/

/** Throws `WR_INVALID_CONFIG` with every complaint. `worker_selection` is left to the room that owns selection policies. */
export function parsePolicyConfig(content: unknown): PolicyConfig {
  const complaints: string[] = []
  const file = asObject(content, 'the policy file', complaints)
  unknownKeys(file, [...profileKeys, 'models', 'worker_selection'], 'the policy file', complaints)
  const hasRoot = profileKeys.some((key) => file[key] !== undefined)
  const root = hasRoot ? parseProfile(file, 'root', complaints) : undefined
  const models = new Map<string, PolicyProfile>()
  for (const [model, value] of Object.entries(asObject(file['models'] ?? {}, 'models', complaints))) {
    const profile = asObject(value, `models.${model}`, complaints)
    unknownKeys(profile, profileKeys, `models.${model}`, complaints)
    models.set(model, parseProfile(profile, `models.${model}`, complaints))
  }
  if (complaints.length > 0) {
    const issues: ConfigIssue[] = complaints.map((message) => ({ field: 'routerPolicyConfig', message }))
    throw new WarmrouteError('WR_INVALID_CONFIG', { reason: complaints.join('; '), issues })
  }
  return { root, models, workerSelection: file['worker_selection'] }
}

function parseProfile(plain: Plain, at: string, complaints: string[]): PolicyProfile {
  const buckets = asList(plain['uncached_isl_buckets'] ?? [], `${at}.uncached_isl_buckets`, complaints).map(
    (item, index): UncachedBucket => {
      const where = `${at}.uncached_isl_buckets[${index}]`
      const row = asObject(item, where, complaints)
      unknownKeys(row, ['min_tokens', 'bucket'], where, complaints)
      return {
        minTokens: wholeNumber(row['min_tokens'], `${where}.min_tokens`, complaints),
        bucket: name(row['bucket'], `${where}.bucket`, complaints),
      }
    },
  )
  const classes = asList(plain['policy_classes'] ?? [], `${at}.policy_classes`, complaints).map((item, index) =>
    parseClass(
      asObject(item, `${at}.policy_classes[${index}]`, complaints),
      `${at}.policy_classes[${index}]`,
      complaints,
    ),
  )
  const defaultFamily = name(plain['default_policy_family'], `${at}.default_policy_family`, complaints)
  const profile = { classes, defaultFamily, buckets }
  complaints.push(...judgeTogether(profile).map((complaint) => `${at}: ${complaint}`))
  return profile
}

function parseClass(plain: Plain, at: string, complaints: string[]): PolicyClass {
  unknownKeys(plain, classKeys, at, complaints)
  const optional = <T>(key: string, read: (value: unknown, where: string, complaints: string[]) => T): T | undefined =>
    plain[key] === undefined || plain[key] === null ? undefined : read(plain[key], `${at}.${key}`, complaints)
  const policy = plain['queue_policy'] ?? 'fcfs'
  if (policy !== 'fcfs' && policy !== 'wspt') complaints.push(`${at}.queue_policy must be fcfs or wspt`)
  const quantum = plain['quantum'] === undefined ? 1 : wholeNumber(plain['quantum'], `${at}.quantum`, complaints)
  if (quantum < 1) complaints.push(`${at}.quantum must be above 0`)
  return {
    name: name(plain['name'], `${at}.name`, complaints),
    policyFamily: optional('policy_family', name),
    cacheBucket: optional('cache_bucket', name),
    queuePolicy: policy as QueuePolicy,
    quantum,
    prefillBusyThreshold: optional('prefill_busy_threshold', wholeNumber),
    prefillBusyThresholdFrac: optional('prefill_busy_threshold_frac', share),
    requestQueueLimitPerWorker: optional('request_queue_limit_per_worker', wholeNumber),
    rawIslTokenQueueLimitPerWorker: optional('raw_isl_token_queue_limit_per_worker', wholeNumber),
    cachedTokenQueueLimitPerWorker: optional('cached_token_queue_limit_per_worker', wholeNumber),
  }
}

/** Rules that no single value breaks. */
function judgeTogether({ classes, defaultFamily, buckets }: PolicyProfile): string[] {
  const complaints: string[] = []
  if (buckets[0] !== undefined && buckets[0].minTokens !== 0)
    complaints.push('the first uncached_isl_bucket must start at 0')
  for (let index = 1; index < buckets.length; index++)
    if (buckets[index]!.minTokens <= buckets[index - 1]!.minTokens)
      complaints.push('uncached_isl_buckets must ascend strictly')
  complaints.push(...repeats(buckets.map((it) => it.bucket)).map((it) => `bucket ${it} is named twice`))
  complaints.push(...repeats(classes.map((it) => it.name)).map((it) => `class ${it} is named twice`))

  const families = new Map<string, string[]>()
  for (const it of classes) {
    if ((it.policyFamily === undefined) !== (it.cacheBucket === undefined))
      complaints.push(`class ${it.name} needs both policy_family and cache_bucket, or neither`)
    else if (it.policyFamily !== undefined) {
      families.set(it.policyFamily, [...(families.get(it.policyFamily) ?? []), it.cacheBucket!])
      if (!buckets.some(({ bucket }) => bucket === it.cacheBucket))
        complaints.push(`class ${it.name} names the unknown bucket ${it.cacheBucket}`)
    }
  }
  for (const [family, covered] of families) {
    for (const { bucket } of buckets)
      if (!covered.includes(bucket)) complaints.push(`family ${family} has no class for bucket ${bucket}`)
    complaints.push(...repeats(covered).map((it) => `family ${family} has two classes for bucket ${it}`))
    if (classes.some((it) => it.policyFamily === undefined && it.name === family))
      complaints.push(`class ${family} has the name of a family`)
  }
  if (!families.has(defaultFamily)) complaints.push(`default_policy_family ${defaultFamily} is no family`)
  return complaints
}

function unknownKeys(plain: Plain, known: readonly string[], at: string, complaints: string[]): void {
  for (const key of Object.keys(plain)) if (!known.includes(key)) complaints.push(`${at} has the unknown key ${key}`)
}

function asObject(value: unknown, at: string, complaints: string[]): Plain {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Plain
  complaints.push(`${at} must hold keys`)
  return {}
}

function asList(value: unknown, at: string, complaints: string[]): readonly unknown[] {
  if (Array.isArray(value)) return value as unknown[]
  complaints.push(`${at} must be a list`)
  return []
}

function name(value: unknown, at: string, complaints: string[]): string {
  if (typeof value === 'string' && identifier.test(value)) return value
  complaints.push(`${at} must be a name of letters, digits, _ . or -`)
  return ''
}

function wholeNumber(value: unknown, at: string, complaints: string[]): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  complaints.push(`${at} must be a whole number from 0`)
  return 1
}

function share(value: unknown, at: string, complaints: string[]): number {
  if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value
  complaints.push(`${at} must be a finite number from 0`)
  return 1
}

function repeats(names: readonly string[]): string[] {
  return [...new Set(names.filter((it, index) => names.indexOf(it) !== index))]
}
