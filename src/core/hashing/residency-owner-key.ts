/** A short name for whoever holds a block, the same on every replica. Follows lib/kv-router/src/identity.rs at v1.5.0. */
import { blake3 } from '@noble/hashes/blake3.js'
import type { IdentityDigest, ResidencyOwner } from '../protocol/index.js'
import { fromHex, joined, toHex, u32be, u64be, utf8 } from './bytes.js'

/** 32 lowercase hex digits. */
export function residencyOwnerKey(owner: ResidencyOwner): string {
  return toHex(blake3(materialOf(owner)).subarray(0, 16))
}

function materialOf(owner: ResidencyOwner): Uint8Array {
  if (owner.domain === 'worker') {
    const { workerId, dpRank } = owner.rank
    return joined(utf8('dynamo/residency-owner/worker/v1'), u64be(workerId), u32be(dpRank))
  }
  const { pool, slot } = owner.owner
  const { cacheSemantics, routingScope } = pool.indexerDomain
  return joined(
    utf8('dynamo/residency-owner/cache-owner/v1'),
    sourced(cacheSemantics),
    sourced(routingScope),
    u64be(pool.dcId),
    sourced(slot),
  )
}

function sourced({ digest, source }: IdentityDigest): Uint8Array {
  return joined(fromHex(digest), Uint8Array.of(source === 'explicit' ? 1 : 0))
}
