import fc from 'fast-check'
import { expect, it } from 'vitest'
import { cacheOwnerKey, formatCacheOwner, parseCacheOwner } from './cache-owner.js'
import { concernsDevice, effectiveDomain, ownerOf, resetScopeOf } from './residency.js'
import { anyRouterEvent, cacheOwner } from './router-event.case.js'
import type { KvCacheEventData, ResidencyDomainField, RouterEvent } from './router-event.js'
import type { StorageTier } from './storage-tier.js'

const removed: KvCacheEventData = { kind: 'removed', blockHashes: [1n] }
const cleared: KvCacheEventData = { kind: 'cleared' }

function event(residencyDomain: ResidencyDomainField, storageTier: StorageTier, data: KvCacheEventData): RouterEvent {
  return { workerId: 7n, storageTier, residencyDomain, event: { eventId: 1n, data, dpRank: 2 } }
}

it.each([
  { says: 'an event without a domain is the worker’s', of: event('missing', 'device', removed), domain: 'worker' },
  { says: 'an unknown domain is unsupported', of: event('unknown', 'disk', removed), domain: undefined },
  { says: 'an invalid domain is unsupported', of: event('invalid', 'disk', cleared), domain: undefined },
  { says: 'a cache owner holds lower tiers', of: event('cache_owner', 'disk', removed), domain: 'cache_owner' },
  { says: 'a cache owner holds no device block', of: event('cache_owner', 'device', removed), domain: undefined },
  { says: 'a cache owner may be cleared', of: event('cache_owner', 'device', cleared), domain: 'cache_owner' },
])('domain: $says', ({ of, domain }) => {
  expect(effectiveDomain(of)).toBe(domain)
})

it.each([
  { says: 'a clear without a domain clears all', of: event('missing', 'device', cleared), scope: 'all', device: true },
  { says: 'a worker’s clear clears its domain', of: event('worker', 'disk', cleared), scope: 'worker', device: true },
  {
    says: 'an owner’s clear spares the device',
    of: event('cache_owner', 'device', cleared),
    scope: 'cache_owner',
    device: false,
  },
  {
    says: 'an unknown domain clears nothing',
    of: event('unknown', 'device', cleared),
    scope: undefined,
    device: false,
  },
])('reset: $says', ({ of, scope, device }) => {
  expect(resetScopeOf(of)).toBe(scope)
  expect(concernsDevice(of)).toBe(device)
})

it('a cache owner’s event without its owner is unsupported', () => {
  expect(ownerOf(event('cache_owner', 'disk', removed))).toBeUndefined()
  const owner = cacheOwner(1)
  expect(ownerOf({ ...event('cache_owner', 'disk', removed), stateSource: owner })).toEqual({
    domain: 'cache_owner',
    owner,
  })
  expect(ownerOf(event('worker', 'disk', removed))).toEqual({ domain: 'worker', rank: { workerId: 7n, dpRank: 2 } })
})

it('every event is either unsupported or has exactly one owner and one place', () => {
  fc.assert(
    fc.property(anyRouterEvent, (it) => {
      const owner = ownerOf(it)
      if (owner) expect(owner.domain).toBe(effectiveDomain(it))
      if (concernsDevice(it)) expect(owner?.domain).toBe('worker')
    }),
  )
})

it('a cache owner reads back from its string form, as explicit', () => {
  const owner = cacheOwner(255)
  expect(formatCacheOwner(owner)).toMatch(/^0{31}1:0{31}2\/0{15}3\/0{30}ff$/)
  expect(parseCacheOwner(formatCacheOwner(owner))).toEqual(owner)
  expect(parseCacheOwner('00:00/0/0')).toBeUndefined()
})

it('owners that differ in their source only are two owners', () => {
  expect(cacheOwnerKey(cacheOwner(1))).not.toBe(cacheOwnerKey(cacheOwner(1, 'default_derived')))
})
