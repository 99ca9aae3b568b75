/** An index as plain maps, for tests: what does each rank hold, and how deep does a prompt go? Too simple to be wrong. */
import type { EventBatch, TieredBatch } from '../src/core/index/index.js'
import { eventHeaderWords, eventKinds, factKinds, factWords, hasParentFlag } from '../src/core/index/index.js'
import type { HashColumn, Rank, StorageTier } from '../src/core/protocol/index.js'
import { hashAt, hashCount, setHashAt, storageTiers } from '../src/core/protocol/index.js'
import type { EventSink } from '../src/events/index.js'

export class NaiveSink implements EventSink {
  /** Per tier and rank: external hash -> path of local hashes from the root. */
  readonly #names = new Map<string, Map<bigint, string>>()
  crossings = 0

  apply(batch: TieredBatch): void {
    this.crossings++
    for (const tier of storageTiers) this.#applyTier(tier, batch.of(tier))
  }

  #applyTier(tier: StorageTier, batch: EventBatch): void {
    let at = 0
    for (let event = 0; event < batch.eventCount; event++) {
      const word = batch.words[at]!
      const rank = batch.words[at + 1]!
      const count = batch.words[at + 2]!
      const names = this.#of(tier, rank)
      const parent = word & hasParentFlag ? hashAt(batch.words.subarray(at + 4, at + 6), 0) : undefined
      const external = batch.words.subarray(at + eventHeaderWords, at + eventHeaderWords + 2 * count)
      at += eventHeaderWords + 2 * count
      if ((word & 0xff) === eventKinds.cleared) names.clear()
      else if ((word & 0xff) === eventKinds.removed) {
        for (let block = 0; block < count; block++) names.delete(hashAt(external, block))
      } else {
        const local = batch.words.subarray(at, at + 2 * count)
        at += 2 * count
        let path = parent === undefined ? '' : names.get(parent)
        for (let block = 0; block < count && path !== undefined; block++) {
          path = `${path}/${hashAt(local, block)}`
          names.set(hashAt(external, block), path)
        }
      }
    }
  }

  /** External hashes that the rank holds. */
  held(rank: Rank, tier: StorageTier = 'device'): Set<bigint> {
    return new Set(this.#of(tier, rank).keys())
  }

  /** As the index describes names, for readings of a rank. */
  describe(tier: StorageTier, rank: Rank, names: HashColumn, count: number, facts: Uint32Array): void {
    const paths = this.#of(tier, rank)
    const nameOf = new Map([...paths].map(([name, path]) => [path, name]))
    facts.fill(factKinds.absent, 0, factWords * count)
    for (let index = 0; index < count; index++) {
      const path = paths.get(hashAt(names, index))
      if (path === undefined) continue
      const end = path.lastIndexOf('/')
      const parent = nameOf.get(path.slice(0, end))
      if (end > 0 && parent === undefined) continue
      facts[factWords * index] = end > 0 ? factKinds.below : factKinds.atRoot
      setHashAt(facts, (factWords / 2) * index + 1, parent ?? 0n)
      setHashAt(facts, (factWords / 2) * index + 2, BigInt(path.slice(end + 1)))
      setHashAt(facts, (factWords / 2) * index + 3, hashAt(names, index))
    }
  }

  depth(rank: Rank, local: HashColumn, tier: StorageTier = 'device'): number {
    const paths = new Set(this.#of(tier, rank).values())
    let path = ''
    for (let depth = 0; depth < hashCount(local); depth++) {
      path = `${path}/${hashAt(local, depth)}`
      if (!paths.has(path)) return depth
    }
    return hashCount(local)
  }

  #of(tier: StorageTier, rank: Rank): Map<bigint, string> {
    const key = `${tier}/${rank}`
    let names = this.#names.get(key)
    if (!names) this.#names.set(key, (names = new Map()))
    return names
  }
}
