/**
 * The classes of a model, and which of them a request belongs to. A profile comes from a file that an operator wrote
 * (`parse-policy-config.ts`), or is made up from two router settings when there is none.
 */
import type { RouterConfig } from '../protocol/index.js'
import type { PolicyClass } from './policy-class.js'
import { mayPark } from './policy-class.js'

export interface PolicyProfile {
  readonly classes: readonly PolicyClass[]
  /** Where a request without a class, or with an unknown one, belongs. */
  readonly defaultFamily: string
  /** Ascending; the first starts at 0. */
  readonly buckets: readonly UncachedBucket[]
  /** True: nobody wrote it; one class stands for the router's own settings. */
  readonly isSynthetic?: boolean | undefined
}

export interface UncachedBucket {
  readonly minTokens: number
  readonly bucket: string
}

export interface PolicyConfig {
  readonly root: PolicyProfile | undefined
  /** A model's profile replaces the root's as a whole. */
  readonly models: ReadonlyMap<string, PolicyProfile>
  /** `worker_selection` as it was written; the room that owns selection policies reads it. */
  readonly workerSelection?: unknown
}

/** Model profile, root profile, else one class from the router's own settings. */
export function profileFor(
  policies: PolicyConfig | undefined,
  model: string | undefined,
  config: RouterConfig,
): PolicyProfile {
  const ofModel = model === undefined ? undefined : policies?.models.get(model)
  return ofModel ?? policies?.root ?? syntheticProfile(config)
}

export function isQueueing(profile: PolicyProfile): boolean {
  return profile.classes.some(mayPark)
}

/** Resolves names once, so that a request's class is two lookups. */
export class ClassResolver {
  readonly #profile: PolicyProfile
  readonly #explicit = new Map<string, number>()
  /** Class per bucket, in the order of the buckets. */
  readonly #families = new Map<string, number[]>()

  constructor(profile: PolicyProfile) {
    this.#profile = profile
    for (const [index, { name, policyFamily, cacheBucket }] of profile.classes.entries()) {
      if (policyFamily === undefined) {
        this.#explicit.set(name, index)
        continue
      }
      const ofFamily = this.#families.get(policyFamily) ?? []
      ofFamily[profile.buckets.findIndex(({ bucket }) => bucket === cacheBucket)] = index
      this.#families.set(policyFamily, ofFamily)
    }
  }

  /** The index of the class of a request that asked for `wanted` and has `uncachedTokens` left to compute. */
  resolve(wanted: string | undefined, uncachedTokens: number): number {
    const explicit = wanted === undefined ? undefined : this.#explicit.get(wanted)
    if (explicit !== undefined) return explicit
    const family = this.#families.get(wanted ?? '') ?? this.#families.get(this.#profile.defaultFamily)!
    let bucket = 0
    const { buckets } = this.#profile
    while (bucket + 1 < buckets.length && buckets[bucket + 1]!.minTokens <= uncachedTokens) bucket++
    return family[bucket]!
  }
}

function syntheticProfile(config: RouterConfig): PolicyProfile {
  const only: PolicyClass = {
    name: 'default',
    policyFamily: 'default',
    cacheBucket: 'any',
    queuePolicy: config.routerQueuePolicy,
    quantum: 1,
    prefillBusyThresholdFrac: config.routerQueueThreshold,
  }
  return { classes: [only], defaultFamily: 'default', buckets: [{ minTokens: 0, bucket: 'any' }], isSynthetic: true }
}
