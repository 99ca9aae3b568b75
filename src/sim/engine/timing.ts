/**
 * How long one pass of an engine takes. A profile is data; a step timer adds up one pass after the other by it.
 * Milliseconds everywhere. What a pass computes is not decided here (`scheduler.ts`).
 */
import { WarmrouteError } from '../../core/protocol/index.js'
import { TableTimer } from './timing-table.js'
import type { StepTable } from './timing-table.js'

/** Dynamo's simulator: a square in the new tokens of a pass, and a square in the share of KV memory that decodes. */
export interface PolynomialProfile {
  readonly kind: 'polynomial'
  readonly name: string
  /** `[constant, per token, per token squared]` over all new tokens of the pass. */
  readonly prefill: readonly [number, number, number]
  /** `[constant, per share, per share squared]`; of what, says `decodeShare`. */
  readonly decode: readonly [number, number, number]
  /**
   * `contexts`: context tokens of the decoding requests over the tokens that fit (Dynamo 1.6). `held`: blocks that anybody
   * holds over all blocks (1.2), so requests that prefill slow the others down, and shared blocks count once.
   */
  readonly decodeShare: 'contexts' | 'held'
  readonly decodeMsMin: number
  /** Whether a request pays a decode step in the pass that ends its prefill (Dynamo up to 1.4: yes, 1.6: no). */
  readonly isFirstTokenDecoded: boolean
}

/**
 * A sum of terms fitted to a GPU: a cached prefix is not free, since new tokens attend to it. A pass pays one constant:
 * the prefill's, or the decode's when nothing is prefilled.
 */
export interface TermsProfile {
  readonly kind: 'terms'
  readonly name: string
  readonly prefill: {
    readonly constant: number
    readonly perNew: number
    readonly perNewSquared: number
    readonly perNewTimesPrefix: number
  }
  readonly decode: {
    readonly constant: number
    readonly perRequest: number
    readonly perContextToken: number
  }
}

/** Measured points, interpolated. */
export interface TableProfile extends StepTable {
  readonly kind: 'table'
  readonly name: string
}

/**
 * How long an engine takes for a pass: by a formula, or by measured points.
 *
 * @example
 * import { type TimingProfile, timingProfiles } from 'warmroute/sim'
 *
 * const profile: TimingProfile = timingProfiles['dynamo']!
 */
export type TimingProfile = PolynomialProfile | TermsProfile | TableProfile

/** Adds up one pass. `take` answers its milliseconds and starts the next. */
export interface StepTimer {
  /** `endsPrompt`: this pass also samples the request's next token. */
  prefill(newTokens: number, prefixTokens: number, endsPrompt: boolean): void
  /** `contextTokens` with the token being made. */
  decode(contextTokens: number): void
  /** `heldShare`: of the engine's blocks, how many are held by requests. */
  take(heldShare: number): number
}

export interface SpeedOptions {
  /** Divides every time. */
  readonly speedup: number
  /** Divides decode time once more. */
  readonly decodeSpeedup: number
}

/** Follows lib/mocker of Dynamo 1.6.1, checked against its recorded replays (docs/performance/sim.md). */
export const dynamoProfile: PolynomialProfile = {
  kind: 'polynomial',
  name: 'dynamo',
  prefill: [16.50142, 1.518344e-2, 4.209989e-7],
  decode: [5.74, 54.01, -25.74],
  decodeShare: 'contexts',
  decodeMsMin: 1,
  isFirstTokenDecoded: false,
}

/** The same as Dynamo 1.2.1 has it: the first token waits for a decode step too, and all held blocks slow a step down. */
export const dynamo12Profile: PolynomialProfile = {
  ...dynamoProfile,
  name: 'dynamo-1.2',
  decodeShare: 'held',
  isFirstTokenDecoded: true,
}

/**
 * Fitted to a Llama-3-8B-shaped model on one H200 (test/fixtures/gpu/README.md): prefill within 10 % for 1,024 new tokens
 * and more. The fit's decode term for a lone long sequence is left out; the table of measured points has it.
 */
export const h200Profile: TermsProfile = {
  kind: 'terms',
  name: 'h200-llama8b',
  prefill: { constant: 6.38, perNew: 2.24e-2, perNewSquared: 1.281e-6 / 2, perNewTimesPrefix: 2.065e-6 },
  decode: { constant: 5.81, perRequest: 2.039e-2, perContextToken: 1.837e-5 },
}

/**
 * Profiles by name, for flags and files.
 *
 * @example
 * import { timingProfiles } from 'warmroute/sim'
 *
 * console.log('dynamo' in timingProfiles) // => true
 */
export const timingProfiles: Readonly<Record<string, TimingProfile>> = Object.assign(
  Object.create(null) as Record<string, TimingProfile>, // what every object inherits is no profile
  Object.fromEntries([dynamoProfile, dynamo12Profile, h200Profile].map((profile) => [profile.name, profile])),
)

export function createTimer(profile: TimingProfile, capacityTokens: number, speed: SpeedOptions): StepTimer {
  if (!(speed.speedup > 0) || !(speed.decodeSpeedup > 0))
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'a speed-up must be above 0', ...speed })
  switch (profile.kind) {
    case 'polynomial':
      return new PolynomialTimer(profile, capacityTokens, speed)
    case 'terms':
      return new TermsTimer(profile, speed)
    case 'table':
      return new TableTimer(profile, speed, profile.name)
  }
}

class PolynomialTimer implements StepTimer {
  readonly #profile: PolynomialProfile
  readonly #capacityTokens: number
  readonly #speed: SpeedOptions
  #prefills = 0
  #endTokens = 0
  #prefixTokens = 0
  #decodes = 0
  #contextTokens = 0

  constructor(profile: PolynomialProfile, capacityTokens: number, speed: SpeedOptions) {
    this.#profile = profile
    this.#capacityTokens = capacityTokens
    this.#speed = speed
  }

  prefill(newTokens: number, prefixTokens: number, endsPrompt: boolean): void {
    this.#prefills++
    this.#endTokens += prefixTokens + newTokens
    this.#prefixTokens += prefixTokens
    if (endsPrompt && this.#profile.isFirstTokenDecoded) this.decode(prefixTokens + newTokens)
  }

  decode(contextTokens: number): void {
    this.#decodes++
    this.#contextTokens += contextTokens
  }

  take(heldShare: number): number {
    const ms = this.#prefillMs() / this.#speed.speedup + this.#decodeMs(heldShare)
    this.#prefills = this.#endTokens = this.#prefixTokens = this.#decodes = this.#contextTokens = 0
    return ms
  }

  #prefillMs(): number {
    const count = this.#prefills
    if (count === 0) return 0
    // Upstream multiplies back integer means, so a few tokens are lost: kept, since it is what was recorded.
    const tokens = count * (Math.floor(this.#endTokens / count) - Math.floor(this.#prefixTokens / count))
    if (tokens === 0) return 0
    const [constant, linear, square] = this.#profile.prefill
    return constant + linear * tokens + square * tokens * tokens
  }

  #decodeMs(heldShare: number): number {
    if (this.#decodes === 0) return 0
    const { decode, decodeShare, decodeMsMin } = this.#profile
    const share = decodeShare === 'held' ? heldShare : Math.min(1, this.#contextTokens / this.#capacityTokens)
    const [constant, linear, square] = decode
    const ms = Math.max(decodeMsMin, constant + linear * share + square * share * share)
    return ms / (this.#speed.speedup * this.#speed.decodeSpeedup)
  }
}

class TermsTimer implements StepTimer {
  readonly #profile: TermsProfile
  readonly #speed: SpeedOptions
  #prefillMs = 0
  #decodes = 0
  #contextTokens = 0

  constructor(profile: TermsProfile, speed: SpeedOptions) {
    this.#profile = profile
    this.#speed = speed
  }

  prefill(newTokens: number, prefixTokens: number): void {
    const { constant, perNew, perNewSquared, perNewTimesPrefix } = this.#profile.prefill
    if (this.#prefillMs === 0) this.#prefillMs = constant
    this.#prefillMs += newTokens * (perNew + perNewSquared * newTokens + perNewTimesPrefix * prefixTokens)
  }

  decode(contextTokens: number): void {
    this.#decodes++
    this.#contextTokens += contextTokens
  }

  take(): number {
    const { speedup, decodeSpeedup } = this.#speed
    let ms = this.#prefillMs / speedup
    if (this.#decodes > 0) {
      const { constant, perRequest, perContextToken } = this.#profile.decode
      const decodeMs =
        (this.#prefillMs > 0 ? 0 : constant) + perRequest * this.#decodes + perContextToken * this.#contextTokens
      ms += decodeMs / (speedup * decodeSpeedup)
    }
    this.#prefillMs = this.#decodes = this.#contextTokens = 0
    return ms
  }
}
