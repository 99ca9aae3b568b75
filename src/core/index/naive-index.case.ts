/**
 * The exact index as plain sets: too slow for anything but tests, too simple to be wrong. Per rank it keeps one map from
 * external hash to the block so named; a block is a path of local hashes, interned to a number. Everything else is
 * counted anew on every question.
 *
 * It has no caps, and says nothing of memory, aliases or hot prefixes.
 */
import type { HashColumn, Rank } from '../protocol/index.js'
import { hashAt, newHashColumn, setHashAt } from '../protocol/index.js'
import { type ApplyReport, type EventStatus, eventStatuses } from './apply-report.js'
import { type EventBatch, eventHeaderWords, eventKinds, hasParentFlag } from './event-batch.js'
import type { BlockFact, HotPrefix, IndexStats, PrefixIndex, Sharing } from './prefix-index.js'

/** A path of local hashes from the root, as a number. */
type Path = number
const root: Path = 0

export class NaiveIndex implements PrefixIndex {
  readonly #paths = new Map<string, Path>()
  readonly #parents: Path[] = [root]
  readonly #locals: bigint[] = [0n]
  /** Per rank: external hash to the block that the rank holds under it. */
  readonly #names = new Map<Rank, Map<bigint, Path>>()

  apply(batch: EventBatch, report: ApplyReport): void {
    report.begin(batch.eventCount)
    let at = 0
    for (let index = 0; index < batch.eventCount; index++) {
      const [kind, rank, count] = batch.words.subarray(at, at + 3) as unknown as [number, Rank, number]
      const parent = kind & hasParentFlag ? hashAt(batch.words.subarray(at + 4, at + 6), 0) : undefined
      at += eventHeaderWords
      const take = () => {
        const column = batch.words.subarray(at, at + 2 * count)
        at += 2 * count
        return Array.from({ length: count }, (_, block) => hashAt(column, block))
      }
      let status: EventStatus = 'ok'
      if ((kind & 0xff) === eventKinds.stored) status = this.#store(rank, parent, take(), take())
      else if ((kind & 0xff) === eventKinds.removed) status = this.#remove(rank, take())
      else this.clearRank(rank)
      report.statuses[index] = eventStatuses.indexOf(status)
    }
    report.count()
  }

  promptColumn(blockCount: number): HashColumn {
    return newHashColumn(blockCount)
  }

  find(local: HashColumn, blockCount: number, depths: Uint32Array, lastExternal?: HashColumn): number {
    let greatest = 0
    for (const [rank, names] of this.#names) {
      const held = new Set(names.values())
      let path = root
      let depth = 0
      for (; depth < blockCount; depth++) {
        const next = this.#paths.get(`${path}/${hashAt(local, depth)}`)
        if (next === undefined || !held.has(next)) break
        path = next
      }
      if (depth === 0) continue
      depths[rank] = depth
      greatest = Math.max(greatest, depth)
      if (!lastExternal) continue
      const [name] = [...names].find(([, it]) => it === path)!
      lastExternal[2 * rank] = Number(name & 0xffff_ffffn)
      lastExternal[2 * rank + 1] = Number(name >> 32n)
    }
    return greatest
  }

  chain(rank: Rank, local: HashColumn, blockCount: number, into: HashColumn): number {
    const prefix: bigint[] = []
    for (let block = 0; block < blockCount; block++) {
      prefix.push(hashAt(local, block))
      const [name] = this.namesAt(rank, prefix)
      if (name === undefined) return block
      setHashAt(into, block, name)
    }
    return blockCount
  }

  holds(rank: Rank, external: HashColumn): boolean {
    return this.#names.get(rank)?.has(hashAt(external, 0)) ?? false
  }

  drain(): number {
    return 0
  }

  clearRank(rank: Rank): number {
    const count = this.blocksOf(rank)
    this.#names.delete(rank)
    return count
  }

  describe(rank: Rank, names: HashColumn, count: number, facts: Uint32Array): void {
    const known = this.#names.get(rank) ?? new Map<bigint, Path>()
    const held = new Map([...known].map(([name, path]) => [path, name]))
    facts.fill(0, 0, 8 * count)
    for (let index = 0; index < count; index++) {
      const name = hashAt(names, index)
      const path = known.get(name)
      const parent = path === undefined ? undefined : this.#parents[path]!
      setHashAt(facts, 4 * index + 3, name)
      if (parent === undefined || (parent !== root && !held.has(parent))) continue
      facts[8 * index] = parent === root ? 1 : 2
      setHashAt(facts, 4 * index + 1, held.get(parent) ?? 0n)
      setHashAt(facts, 4 * index + 2, this.#locals[path!]!)
    }
  }

  *facts(rank: Rank): Iterable<BlockFact> {
    const names = [...(this.#names.get(rank) ?? [])]
    const named = new Map<Path, bigint>() // one name per block is enough to hang its children on
    for (const [name, path] of names) if (!named.has(path)) named.set(path, name)
    // Paths are numbered when first seen, so a parent always has a lower number than its children.
    const reachable = new Set<Path>([root])
    for (const [name, path] of names.sort((a, b) => a[1] - b[1])) {
      const parent = this.#parents[path]!
      if (!reachable.has(parent)) continue
      reachable.add(path)
      const parentName = named.get(parent) ?? 0n
      yield {
        hasParent: parent !== root,
        parentLo: Number(parentName & 0xffff_ffffn),
        parentHi: Number(parentName >> 32n),
        localLo: Number(this.#locals[path]! & 0xffff_ffffn),
        localHi: Number(this.#locals[path]! >> 32n),
        externalLo: Number(name & 0xffff_ffffn),
        externalHi: Number(name >> 32n),
      }
    }
  }

  blocksOf(rank: Rank): number {
    return this.#names.get(rank)?.size ?? 0
  }

  stats(): IndexStats {
    const holders = this.#holders()
    const heldBlocks = [...this.#names.values()].reduce((sum, names) => sum + names.size, 0)
    const withHoles = new Set<Path>()
    for (let path of holders.keys()) for (; path !== root; path = this.#parents[path]!) withHoles.add(path)
    const shared = [...holders.values()].filter((it) => it.size > 1)
    const sets = new Set(shared.map((it) => [...it].sort((a, b) => a - b).join()))
    return {
      heldBlocks,
      distinctBlocks: withHoles.size,
      holderSets: sets.size,
      aliases: 0,
      evictedBlocks: 0,
      bytesUsed: 0,
    }
  }

  sharing(): Sharing {
    const shared = [...this.#holders().values()].filter((it) => it.size > 1)
    const holds = shared.reduce((sum, it) => sum + it.size, 0)
    return { sharedBlocks: shared.length, ranksPerSharedBlock: shared.length && holds / shared.length }
  }

  hottest(): readonly HotPrefix[] {
    return []
  }

  /** A format of its own: it never meets the snapshots of the real ones. */
  snapshot(): Uint8Array {
    const ranks = [...this.#names].map(([rank, names]) => [rank, [...names].map(([name, path]) => [`${name}`, path])])
    const tree = this.#parents.map((parent, path) => [parent, `${this.#locals[path]}`])
    return new TextEncoder().encode(JSON.stringify({ tree, ranks }))
  }

  restore(snapshot: Uint8Array): void {
    const { tree, ranks } = JSON.parse(new TextDecoder().decode(snapshot)) as {
      tree: [Path, string][]
      ranks: [Rank, [string, Path][]][]
    }
    this.#paths.clear()
    this.#names.clear()
    this.#parents.length = this.#locals.length = 1
    for (const [parent, local] of tree.slice(1)) this.#path(parent, BigInt(local))
    for (const [rank, names] of ranks) this.#names.set(rank, new Map(names.map(([name, path]) => [BigInt(name), path])))
  }

  /** Every name under which the rank holds the block at the end of this prefix: `find` may answer with any of them. */
  namesAt(rank: Rank, prefix: readonly bigint[]): bigint[] {
    let path: Path | undefined = root
    for (const local of prefix) path = path === undefined ? undefined : this.#paths.get(`${path}/${local}`)
    return [...(this.#names.get(rank) ?? [])].filter(([, it]) => it === path).map(([name]) => name)
  }

  #store(rank: Rank, parent: bigint | undefined, external: bigint[], local: bigint[]): EventStatus {
    if (parent !== undefined && external.includes(parent)) return 'invalid_block'
    const names = this.#names.get(rank) ?? new Map<bigint, Path>()
    let path = parent === undefined ? root : names.get(parent)
    if (path === undefined) return 'parent_block_not_found'
    if (external.length === 0) return 'ok'
    let changed = false
    for (const [index, name] of external.entries()) {
      path = this.#path(path, local[index]!)
      if (names.get(name) !== path) changed = true
      names.set(name, path) // a hash that the rank uses for another block moves here: one name, one block
    }
    this.#names.set(rank, names)
    return changed ? 'ok' : 'duplicate_store'
  }

  #remove(rank: Rank, external: bigint[]): EventStatus {
    const names = this.#names.get(rank)
    let status: EventStatus = 'ok'
    for (const name of external) if (!names?.delete(name)) status = 'block_not_found'
    if (names?.size === 0) this.#names.delete(rank)
    return status
  }

  #holders(): Map<Path, Set<Rank>> {
    const holders = new Map<Path, Set<Rank>>()
    for (const [rank, names] of this.#names)
      for (const path of names.values()) holders.set(path, (holders.get(path) ?? new Set()).add(rank))
    return holders
  }

  #path(parent: Path, local: bigint): Path {
    const key = `${parent}/${local}`
    const known = this.#paths.get(key)
    if (known !== undefined) return known
    const path = this.#parents.length
    this.#parents.push(parent)
    this.#locals.push(local)
    this.#paths.set(key, path)
    return path
  }
}
