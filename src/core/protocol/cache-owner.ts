/**
 * Who owns a block that outlives its worker: a slot of a pool, named by digests rather than by worker and rank (Dynamo
 * `lib/kv-router/src/identity.rs`). Only events of the `cache_owner` domain carry one.
 */

/** Whether a person chose the material of a digest or it was derived from defaults. Two sources are two identities. */
export type DigestSource = 'explicit' | 'default_derived'

export interface IdentityDigest {
  /** 32 lowercase hex digits. */
  readonly digest: string
  readonly source: DigestSource
}

export interface IndexerDomainId {
  readonly cacheSemantics: IdentityDigest
  readonly routingScope: IdentityDigest
}

export interface PoolId {
  readonly indexerDomain: IndexerDomainId
  /** Unsigned 64-bit. */
  readonly dcId: bigint
}

export interface CacheOwnerId {
  readonly pool: PoolId
  readonly slot: IdentityDigest
}

/** `<semantics>:<scope>/<dc>/<slot>`, all lowercase hex. It does not tell the sources apart: see `cacheOwnerKey`. */
export function formatCacheOwner(owner: CacheOwnerId): string {
  const { cacheSemantics, routingScope } = owner.pool.indexerDomain
  const dc = owner.pool.dcId.toString(16).padStart(16, '0')
  return `${cacheSemantics.digest}:${routingScope.digest}/${dc}/${owner.slot.digest}`
}

/** Reads the string form; what a person wrote out is `explicit`. Undefined where it is not of that form. */
export function parseCacheOwner(text: string): CacheOwnerId | undefined {
  const match = /^([0-9a-f]{32}):([0-9a-f]{32})\/([0-9a-f]{16})\/([0-9a-f]{32})$/.exec(text)
  if (!match) return undefined
  const [, semantics, scope, dc, slot] = match as unknown as [string, string, string, string, string]
  const explicit = (digest: string): IdentityDigest => ({ digest, source: 'explicit' })
  return {
    pool: {
      indexerDomain: { cacheSemantics: explicit(semantics), routingScope: explicit(scope) },
      dcId: BigInt(`0x${dc}`),
    },
    slot: explicit(slot),
  }
}

/** Equal for equal owners and only for them: the string form and the three sources. */
export function cacheOwnerKey(owner: CacheOwnerId): string {
  const { cacheSemantics, routingScope } = owner.pool.indexerDomain
  const sources = [cacheSemantics, routingScope, owner.slot]
    .map((it) => (it.source === 'explicit' ? 'e' : 'd'))
    .join('')
  return `${formatCacheOwner(owner)}#${sources}`
}
