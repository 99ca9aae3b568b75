/**
 * Conditional disaggregation: a prompt that is mostly cached on the decode worker, or that would wait for a busy prefill
 * worker, is prefilled where it decodes. Follows the 1.5.0-dev rules; every comparison is strict.
 */

export type ConditionalPolicy = 'isl_bounding' | 'prefill_load' | 'isl_or_load'

export interface ConditionalSettings {
  readonly policy: ConditionalPolicy
  /** New tokens below which a local prefill is cheap. */
  readonly effIslThreshold: number
  /** Share of the prompt that may be new. */
  readonly effIslRatioThreshold: number
  /** Multiple of a prefill worker's batch; falls back to the router's queue threshold. */
  readonly prefillBusyThreshold?: number | undefined
  readonly routerQueueThreshold?: number | undefined
  /** Share of a decode worker's blocks above which it takes on no prefill. */
  readonly decodeBusyThreshold?: number | undefined
}

export interface ConditionalFacts {
  readonly promptTokens: number
  /** On the decode worker that would be chosen; undefined when its rank cannot be resolved. */
  readonly decodeCachedTokens: number | undefined
  readonly decodePotentialBlocks?: number | undefined
  readonly decodeTotalBlocks?: number | undefined
  /** Of the prefill worker that would be chosen; unknown counts as not busy. */
  readonly prefillActiveTokens?: number | undefined
  readonly prefillCapacityTokens?: number | undefined
  readonly hasPrefillPin?: boolean | undefined
  readonly isKvDecode?: boolean | undefined
}

export type BypassReason = 'mostly-cached' | 'prefill-busy'

/** Why the remote prefill may be skipped; undefined when it may not. */
export function bypassRemotePrefill(settings: ConditionalSettings, facts: ConditionalFacts): BypassReason | undefined {
  const { promptTokens, decodeCachedTokens } = facts
  if (facts.hasPrefillPin || facts.isKvDecode === false || promptTokens <= 0 || decodeCachedTokens === undefined)
    return undefined
  const reason = reasonToBypass(settings, facts, promptTokens - Math.min(decodeCachedTokens, promptTokens))
  return reason && !isDecodeBusy(settings, facts) ? reason : undefined
}

function reasonToBypass(
  settings: ConditionalSettings,
  facts: ConditionalFacts,
  netNew: number,
): BypassReason | undefined {
  const { policy } = settings
  if (policy !== 'prefill_load' && isMostlyCached(settings, facts, netNew)) return 'mostly-cached'
  if (policy !== 'isl_bounding' && isPrefillBusy(settings, facts)) return 'prefill-busy'
  return undefined
}

function isMostlyCached(settings: ConditionalSettings, facts: ConditionalFacts, netNew: number): boolean {
  return netNew < settings.effIslThreshold && netNew / Math.max(1, facts.promptTokens) < settings.effIslRatioThreshold
}

function isPrefillBusy(settings: ConditionalSettings, facts: ConditionalFacts): boolean {
  const threshold = settings.prefillBusyThreshold ?? settings.routerQueueThreshold
  const { prefillActiveTokens, prefillCapacityTokens } = facts
  if (threshold === undefined || prefillActiveTokens === undefined || prefillCapacityTokens === undefined) return false
  return prefillActiveTokens > threshold * prefillCapacityTokens
}

/** The veto: a decode worker that is busy, or whose size is unknown, takes on no prefill. */
function isDecodeBusy(settings: ConditionalSettings, facts: ConditionalFacts): boolean {
  const { decodeBusyThreshold: threshold } = settings
  if (threshold === undefined) return false
  const { decodePotentialBlocks, decodeTotalBlocks } = facts
  if (decodePotentialBlocks === undefined || decodeTotalBlocks === undefined) return true
  return decodePotentialBlocks > threshold * decodeTotalBlocks
}
