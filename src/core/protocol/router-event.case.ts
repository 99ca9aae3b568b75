/** Random events for property tests: small ranges, so that blocks, owners and tiers meet. */
import fc from 'fast-check'
import type { CacheOwnerId, IdentityDigest } from './cache-owner.js'
import type { KvCacheEventData, ResidencyDomainField, RouterEvent } from './router-event.js'
import { storageTiers } from './storage-tier.js'

export function cacheOwner(number: number, source: IdentityDigest['source'] = 'explicit'): CacheOwnerId {
  const identity = (it: number): IdentityDigest => ({ digest: it.toString(16).padStart(32, '0'), source })
  return {
    pool: { indexerDomain: { cacheSemantics: identity(1), routingScope: identity(2) }, dcId: 3n },
    slot: identity(number),
  }
}

const u64 = fc.oneof(fc.bigInt(0n, 9n), fc.bigInt(0n, 2n ** 64n - 1n))
const u32 = fc.oneof(fc.nat(3), fc.nat(0xffff_ffff))

const anyData: fc.Arbitrary<KvCacheEventData> = fc.oneof(
  fc.record({
    kind: fc.constant('stored' as const),
    parentHash: fc.option(u64),
    startPosition: fc.option(u32),
    blocks: fc.array(
      fc.record({
        blockHash: u64,
        tokensHash: u64,
        mmExtraInfo: fc.option(
          fc.record({
            mmObjects: fc.array(fc.record({ mmHash: u64, offsets: fc.array(fc.tuple(u32, u32), { maxLength: 2 }) }), {
              maxLength: 2,
            }),
          }),
        ),
      }),
      { maxLength: 4 },
    ),
  }),
  fc.record({ kind: fc.constant('removed' as const), blockHashes: fc.array(u64, { maxLength: 4 }) }),
  fc.record({ kind: fc.constant('cleared' as const) }),
)

export const anyRouterEvent: fc.Arbitrary<RouterEvent> = fc
  .record({
    workerId: u64,
    storageTier: fc.constantFrom(...storageTiers),
    residencyDomain: fc.constantFrom<ResidencyDomainField>('worker', 'cache_owner', 'missing', 'unknown', 'invalid'),
    event: fc.record({ eventId: u64, data: anyData, dpRank: u32 }),
    owner: fc.option(fc.tuple(fc.nat(3), fc.constantFrom<IdentityDigest['source']>('explicit', 'default_derived'))),
  })
  .map(({ owner, ...event }) => (owner ? { ...event, stateSource: cacheOwner(...owner) } : event))
