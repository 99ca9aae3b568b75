/** The settings that price a rank, after a request's own wishes. */
import type { RouterConfig, RouterConfigOverride } from '../protocol/index.js'
import { WarmrouteError } from '../protocol/index.js'
import type { TierWeights } from './cache-hits.js'

export interface CostSettings extends TierWeights {
  readonly overlapScoreCredit: number
  /** Above 0: a rank with more booked prefill than the calmest one gets less credit for its device cache. */
  readonly overlapScoreCreditDecay: number
  readonly prefillLoadScale: number
  readonly sharedCacheMultiplier: number
  /** Cost of each request that is already running on the rank. */
  readonly decodeActiveRequestWeight: number
  readonly trackPrefillTokens: boolean
  /** Where prefill is not tracked, a decode worker's cache takes off from its blocks; 1.2.0 gives no credit then. */
  readonly creditsDecodeWorkers: boolean
  /** 0 takes the cheapest; above 0 samples, the cheaper the likelier. */
  readonly temperature: number
}

export function costSettingsOf(config: RouterConfig, override: RouterConfigOverride = {}): CostSettings {
  return {
    overlapScoreCredit: override.overlapScoreCredit ?? config.overlapScoreCredit,
    overlapScoreCreditDecay: config.overlapScoreCreditDecay,
    prefillLoadScale: override.prefillLoadScale ?? config.prefillLoadScale,
    hostCacheHitWeight: config.hostCacheHitWeight,
    diskCacheHitWeight: config.diskCacheHitWeight,
    sharedCacheMultiplier: override.sharedCacheMultiplier ?? config.sharedCacheMultiplier,
    decodeActiveRequestWeight: config.decodeActiveRequestWeight,
    trackPrefillTokens: override.trackPrefillTokens ?? config.routerTrackPrefillTokens,
    creditsDecodeWorkers: config.compat !== 'dynamo-1.2',
    temperature: override.routerTemperature ?? config.routerTemperature,
  }
}

/** One bad number would make every comparison of costs false; `core/protocol` judges ranges, this only keeps NaN out. */
export function validateCostSettings(settings: CostSettings): void {
  requireAmount('overlapScoreCredit', settings.overlapScoreCredit)
  requireAmount('overlapScoreCreditDecay', settings.overlapScoreCreditDecay)
  requireAmount('prefillLoadScale', settings.prefillLoadScale)
  requireAmount('hostCacheHitWeight', settings.hostCacheHitWeight)
  requireAmount('diskCacheHitWeight', settings.diskCacheHitWeight)
  requireAmount('sharedCacheMultiplier', settings.sharedCacheMultiplier)
  requireAmount('decodeActiveRequestWeight', settings.decodeActiveRequestWeight)
  requireAmount('temperature', settings.temperature)
}

function requireAmount(field: string, value: number): void {
  if (value >= 0 && value < Number.POSITIVE_INFINITY) return
  throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `${field} is ${value}`, field, value })
}
