/** Which index an event concerns and whose blocks it speaks of. Pure rules over one event; nothing here is stored. */
import type { CacheOwnerId } from './cache-owner.js'
import type { WorkerRank } from './rank-table.js'
import type { ResetScope, ResidencyDomain, RouterEvent } from './router-event.js'

/** Whose blocks: a rank's own, or those of a cache that outlives it. */
export type ResidencyOwner =
  | { readonly domain: 'worker'; readonly rank: WorkerRank }
  | { readonly domain: 'cache_owner'; readonly owner: CacheOwnerId }

/** The domain that counts, or undefined where the event is unsupported. Legacy events without one belong to the worker. */
export function effectiveDomain(event: RouterEvent): ResidencyDomain | undefined {
  switch (event.residencyDomain) {
    case 'unknown':
    case 'invalid':
      return undefined
    case 'missing':
    case 'worker':
      return 'worker'
    case 'cache_owner':
      // A device block lives and dies with its worker; only a clear may name this domain without naming a tier.
      return event.storageTier === 'device' && event.event.data.kind !== 'cleared' ? undefined : 'cache_owner'
  }
}

/** Undefined where the event is unsupported: it has no domain, or a cache owner's event does not say whose. */
export function ownerOf(event: RouterEvent): ResidencyOwner | undefined {
  switch (effectiveDomain(event)) {
    case undefined:
      return undefined
    case 'worker':
      return { domain: 'worker', rank: { workerId: event.workerId, dpRank: event.event.dpRank } }
    case 'cache_owner':
      return event.stateSource && { domain: 'cache_owner', owner: event.stateSource }
  }
}

/** What a `cleared` event clears: its domain, or everything where it names none. */
export function resetScopeOf(event: RouterEvent): ResetScope | undefined {
  return event.residencyDomain === 'missing' ? 'all' : effectiveDomain(event)
}

/** Whether the device index has to see it. A clear of the worker's domain concerns every tier, the device among them. */
export function concernsDevice(event: RouterEvent): boolean {
  if (event.event.data.kind === 'cleared') return effectiveDomain(event) === 'worker'
  return effectiveDomain(event) === 'worker' && event.storageTier === 'device'
}
