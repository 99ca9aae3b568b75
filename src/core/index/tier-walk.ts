/**
 * Follows a prompt from where the device leaves off through the tiers below it. Each rank has a continuation, the
 * position and external hash of its last block; each tier extends it as far as the rank owns the next edge, and hands it
 * on to the tier below. Ranks that stand at the same block walk together, so an edge is looked up once however many
 * ranks own it, and its owners are looked at only where they differ from those of the edge before.
 *
 * Nothing is allocated once the columns are as long as the fleet.
 */
import type { HashColumn, Rank } from '../protocol/index.js'
import { edgeChild, edgeSign, placeOf } from './lower-tier.js'
import type { LowerTier } from './lower-tier.js'
import type { TierOwners } from './tier-owners.js'

/** One party of ranks at the same block: a singly linked list through `#nextInParty`. */
interface Party {
  firstRank: number
  hasLast: boolean
  lastLo: number
  lastHi: number
  /** The edge that led here in this tier, or -1. */
  edge: number
  /** True: every rank of the party owns the edge whose owners have this sign. */
  isSigned: boolean
  signLo: number
  signHi: number
}

export class TierWalk {
  #rankCount = 0
  #isSeeded = new Uint32Array(0)
  #positions = new Uint32Array(0)
  #lastWords = new Uint32Array(0) // two per rank; means nothing at position 0
  #nextInParty = new Int32Array(0)
  #stamps = new Uint32Array(0)
  #starts = new Float64Array(0) // position * 2^32 + rank: sorting it sorts by position
  #stamp = 0
  readonly #parties: Party[] = []
  #partyCount = 0

  /** Starts from the device's answer: a rank with depth 0 has no continuation yet. */
  seed(depths: Uint32Array, lastExternal: HashColumn, rankCount: number): void {
    if (this.#positions.length < rankCount) this.#widen(rankCount)
    this.#rankCount = rankCount
    for (let rank = 0; rank < rankCount; rank++) {
      const depth = depths[rank]!
      this.#isSeeded[rank] = depth > 0 ? 1 : 0
      this.#positions[rank] = depth
      this.#lastWords[2 * rank] = lastExternal[2 * rank]!
      this.#lastWords[2 * rank + 1] = lastExternal[2 * rank + 1]!
    }
  }

  /** Extends every continuation through one tier and writes how far into `hits`, which the caller has cleared. */
  extend(tier: LowerTier, owners: TierOwners, local: HashColumn, blockCount: number, hits: Uint32Array): void {
    if (blockCount === 0) return
    this.#seedFromRoot(tier, owners, local)
    const startCount = this.#sortStarts(blockCount)
    this.#partyCount = 0
    let start = 0
    for (let position = 0; position < blockCount; position++) {
      if (this.#partyCount === 0) {
        if (start === startCount) return
        position = Math.floor(this.#starts[start]! / 2 ** 32)
      }
      for (; start < startCount && Math.floor(this.#starts[start]! / 2 ** 32) === position; start++)
        this.#join(this.#starts[start]! % 2 ** 32, position)
      for (let at = this.#partyCount - 1; at >= 0; at--) this.#step(at, tier, owners, local, position, hits)
    }
    while (this.#partyCount > 0) this.#end(this.#partyCount - 1, blockCount, hits)
  }

  /** Ranks that own the prompt's first block here and have no continuation start at the root. */
  #seedFromRoot(tier: LowerTier, owners: TierOwners, local: HashColumn): void {
    const edge = tier.edgeFrom(false, 0, 0, local[0]!, local[1]!)
    if (edge >= 0) tier.markRanks(edge, owners, this.#isSeeded, 1)
  }

  #sortStarts(blockCount: number): number {
    let count = 0
    for (let rank = 0; rank < this.#rankCount; rank++)
      if (this.#isSeeded[rank] === 1 && this.#positions[rank]! < blockCount)
        this.#starts[count++] = this.#positions[rank]! * 2 ** 32 + rank
    this.#starts.subarray(0, count).sort()
    return count
  }

  #join(rank: Rank, position: number): void {
    const hasLast = position > 0
    const lo = this.#lastWords[2 * rank]!
    const hi = this.#lastWords[2 * rank + 1]!
    let party: Party | undefined
    for (let at = 0; at < this.#partyCount && !party; at++) {
      const it = this.#parties[at]!
      if (it.hasLast === hasLast && (!hasLast || (it.lastLo === lo && it.lastHi === hi))) party = it
    }
    if (!party) {
      party = this.#parties[this.#partyCount] ??= newParty()
      this.#partyCount++
      party.firstRank = -1
      party.edge = -1
      party.hasLast = hasLast
      party.lastLo = hasLast ? lo : 0 // the root's edges have no parent words
      party.lastHi = hasLast ? hi : 0
    }
    party.isSigned = false
    this.#nextInParty[rank] = party.firstRank
    party.firstRank = rank
  }

  /** One block on: ranks that own the next edge go over it, the others stop where they stand. */
  #step(at: number, tier: LowerTier, owners: TierOwners, local: HashColumn, position: number, hits: Uint32Array): void {
    const party = this.#parties[at]!
    const localLo = local[2 * position]!
    const localHi = local[2 * position + 1]!
    const edge =
      party.edge >= 0
        ? tier.edgeAfter(party.edge, party.lastLo, party.lastHi, localLo, localHi)
        : tier.edgeFrom(party.hasLast, party.lastLo, party.lastHi, localLo, localHi)
    if (edge < 0) return this.#end(at, position, hits)
    const words = tier.wordsOf(edge)
    const from = placeOf(edge)
    const signLo = words[from + edgeSign]!
    const signHi = words[from + edgeSign + 1]!
    // The same owners as the edge before: nobody stops here, and nobody need be looked at.
    if (!party.isSigned || party.signLo !== signLo || party.signHi !== signHi) {
      this.#keepOwners(party, edge, tier, owners, position, hits)
      if (party.firstRank < 0) return this.#dissolve(at)
      party.isSigned = true
      party.signLo = signLo
      party.signHi = signHi
    }
    party.edge = edge
    party.hasLast = true
    party.lastLo = words[from + edgeChild]!
    party.lastHi = words[from + edgeChild + 1]!
  }

  #keepOwners(
    party: Party,
    edge: number,
    tier: LowerTier,
    owners: TierOwners,
    position: number,
    hits: Uint32Array,
  ): void {
    const stamp = this.#nextStamp()
    const stamps = this.#stamps
    const nextInParty = this.#nextInParty
    tier.markRanks(edge, owners, stamps, stamp)
    let kept = -1
    for (let rank = party.firstRank; rank >= 0; ) {
      const next = nextInParty[rank]!
      if (stamps[rank] === stamp) {
        nextInParty[rank] = kept
        kept = rank
      } else this.#stop(rank, party, position, hits)
      rank = next
    }
    party.firstRank = kept
  }

  #end(at: number, position: number, hits: Uint32Array): void {
    const party = this.#parties[at]!
    for (let rank = party.firstRank; rank >= 0; rank = this.#nextInParty[rank]!) this.#stop(rank, party, position, hits)
    this.#dissolve(at)
  }

  #stop(rank: Rank, party: Party, position: number, hits: Uint32Array): void {
    hits[rank] = position - this.#positions[rank]!
    this.#positions[rank] = position
    if (!party.hasLast) return
    this.#lastWords[2 * rank] = party.lastLo
    this.#lastWords[2 * rank + 1] = party.lastHi
  }

  /** The last party takes the place of the one that ended; its object is kept for the next walk. */
  #dissolve(at: number): void {
    const last = --this.#partyCount
    const ended = this.#parties[at]!
    this.#parties[at] = this.#parties[last]!
    this.#parties[last] = ended
  }

  #nextStamp(): number {
    if (this.#stamp === 0xffff_ffff) {
      this.#stamps.fill(0)
      this.#stamp = 0
    }
    return ++this.#stamp
  }

  #widen(rankCount: number): void {
    const length = Math.max(rankCount, 2 * this.#positions.length)
    this.#isSeeded = new Uint32Array(length)
    this.#positions = new Uint32Array(length)
    this.#lastWords = new Uint32Array(2 * length)
    this.#nextInParty = new Int32Array(length)
    this.#stamps = new Uint32Array(length)
    this.#starts = new Float64Array(length)
  }
}

function newParty(): Party {
  return { firstRank: -1, hasLast: false, lastLo: 0, lastHi: 0, edge: -1, isSigned: false, signLo: 0, signHi: 0 }
}
