/**
 * The lower tiers as plain lists, for tests: every question looks at every fact. One instance is one tier; the walk over
 * tiers is a function of its own.
 */
export interface NaiveHold {
  readonly owner: number
  readonly parent: bigint | null
  readonly local: bigint
  readonly child: bigint
}

export interface Continuation {
  readonly position: number
  readonly last: bigint | null
}

export class NaiveTier {
  holds: NaiveHold[] = []

  store(owner: number, parent: bigint | null, blocks: readonly { local: bigint; child: bigint }[]): number {
    for (const [index, { local, child }] of blocks.entries()) {
      const isEdge = (it: NaiveHold) => it.parent === parent && it.local === local
      const own = this.holds.find((it) => it.owner === owner && it.child === child)
      if (own && !isEdge(own)) return index
      if (this.holds.some((it) => isEdge(it) && it.child !== child)) return index
      if (!own) this.holds.push({ owner, parent, local, child })
      parent = child
    }
    return blocks.length
  }

  remove(owner: number, hashes: readonly bigint[]): number {
    let unknown = 0
    for (const hash of hashes) {
      const before = this.holds.length
      this.holds = this.holds.filter((it) => it.owner !== owner || it.child !== hash)
      if (this.holds.length === before) unknown++
    }
    return unknown
  }

  clearOwner(owner: number): void {
    this.holds = this.holds.filter((it) => it.owner !== owner)
  }

  /** How far the given owners, together, carry one continuation. */
  extend(owners: readonly number[], from: Continuation, query: readonly bigint[]): Continuation {
    let { position, last } = from
    for (; position < query.length; position++) {
      const hold = this.holds.find(
        (it) => owners.includes(it.owner) && it.parent === last && it.local === query[position],
      )
      if (!hold) break
      last = hold.child
    }
    return { position, last }
  }
}

/** Hits per tier for one rank, which `owners` stand for. Device depth 0 means that it has no continuation yet. */
export function naiveTierWalk(
  tiers: readonly NaiveTier[],
  owners: readonly number[],
  device: Continuation,
  query: readonly bigint[],
): number[] {
  let continuation = device.position > 0 ? device : undefined
  return tiers.map((tier) => {
    const ownsRoot = tier.holds.some((it) => owners.includes(it.owner) && it.parent === null && it.local === query[0])
    if (!continuation && ownsRoot) continuation = { position: 0, last: null }
    if (!continuation) return 0
    const next = tier.extend(owners, continuation, query)
    const hits = next.position - continuation.position
    continuation = next
    return hits
  })
}
