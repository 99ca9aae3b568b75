/** Cache owners for tests: one per number. */
import { type CacheOwnerId, invariant, parseCacheOwner } from '../protocol/index.js'

export function cacheOwner(number: number): CacheOwnerId {
  const digest = (it: number) => it.toString(16).padStart(32, '0')
  const owner = parseCacheOwner(`${digest(1)}:${digest(2)}/${'0'.repeat(15)}3/${digest(number)}`)
  invariant(owner !== undefined, 'the form of a cache owner')
  return owner
}
