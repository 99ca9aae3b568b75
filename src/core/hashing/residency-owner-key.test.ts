import { expect, it } from 'vitest'
import type { CacheOwnerId, DigestSource } from '../protocol/index.js'
import { residencyOwnerKey } from './index.js'
import { vectors } from './vectors.case.js'

it.each(vectors.residency_owner_keys)('names rank $dp_rank of worker $worker_id', ({ worker_id, dp_rank, key_hex }) => {
  const rank = { workerId: BigInt(worker_id), dpRank: dp_rank }
  expect(residencyOwnerKey({ domain: 'worker', rank })).toBe(key_hex)
})

it('tells cache owners apart by every digest, its source and the data centre', () => {
  const digest = (fill: string, source: DigestSource = 'explicit') => ({ digest: fill.repeat(32), source })
  const owner = (semantics = digest('1'), scope = digest('2'), dcId = 3n, slot = digest('4')): CacheOwnerId => ({
    pool: { indexerDomain: { cacheSemantics: semantics, routingScope: scope }, dcId },
    slot,
  })
  const owners = [
    owner(),
    owner(digest('a')),
    owner(digest('1', 'default_derived')),
    owner(digest('2'), digest('1')),
    owner(digest('1'), digest('2'), 2n ** 64n - 1n),
    owner(digest('1'), digest('2'), 3n, digest('4', 'default_derived')),
  ]
  const keys = owners.map((it) => residencyOwnerKey({ domain: 'cache_owner', owner: it }))
  expect(new Set(keys).size).toBe(owners.length)
  for (const key of keys) expect(key).toMatch(/^[0-9a-f]{32}$/)
})
