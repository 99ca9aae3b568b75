/**
 * What the intake remembers of one rank besides the index: how many copies of each block the engine holds, which
 * namespace a hash belongs to, and which cache groups count. Engines store a block twice and remove it twice; a set would
 * lose it at the first removal.
 */
import type { Rank } from '../core/protocol/index.js'
import type { FrozenTable } from './hash-table.js'
import { HashTable } from './hash-table.js'
import type { NamespaceDump, NamespaceNames } from './namespaces.js'
import { Namespaces } from './namespaces.js'
import type { FilterReason, LearnedGroups } from './prefilter.js'
import { filterReasons } from './prefilter.js'

export interface LedgerCounters {
  storedEvents: number
  removedEvents: number
  clearedEvents: number
  storedBlocks: number
  removedBlocks: number
  /** Stores of a block that the rank already had. */
  doubledBlocks: number
  /** Removals that left another copy behind. */
  keptCopies: number
  /** Removals of blocks that we never saw stored: a late join, or a store that was passed over. */
  unknownRemovals: number
  /** Stores below a parent that cannot be traced to the root: history from before we joined. They give no credit. */
  unrootedStores: number
  /** Prefixes that an engine announced again without holding another copy. */
  reports: number
  /** Tiers that were emptied because they outgrew their bound. */
  tierOverflows: number
  readonly filtered: Record<FilterReason, number>
}

export function newLedgerCounters(): LedgerCounters {
  return {
    storedEvents: 0,
    removedEvents: 0,
    clearedEvents: 0,
    storedBlocks: 0,
    removedBlocks: 0,
    doubledBlocks: 0,
    keptCopies: 0,
    unknownRemovals: 0,
    unrootedStores: 0,
    reports: 0,
    tierOverflows: 0,
    filtered: Object.fromEntries(filterReasons.map((reason) => [reason, 0])) as Record<FilterReason, number>,
  }
}

const reportsMax = 64
const tierCount = 4

export class RankLedger {
  readonly rank: Rank
  readonly counters: LedgerCounters = newLedgerCounters()
  readonly namespaces: Namespaces
  readonly groups: LearnedGroups = new Map()
  readonly #copies: HashTable[] = []
  readonly #otherGroups = new Map<number, HashTable>()
  readonly #seed: number
  readonly #reports: Uint32Array[] = []

  constructor(rank: Rank, names: NamespaceNames, seed: number) {
    this.rank = rank
    this.#seed = seed
    this.namespaces = new Namespaces(names, seed)
    for (let tier = 0; tier < tierCount; tier++) this.#copies.push(new HashTable(seed))
  }

  /** Copies per hash in one tier and cache group. */
  copies(tier: number, group: number): HashTable {
    if (group <= 0) return this.#copies[tier]!
    const key = group * tierCount + tier
    let table = this.#otherGroups.get(key)
    if (!table) this.#otherGroups.set(key, (table = new HashTable(this.#seed)))
    return table
  }

  /** Distinct blocks that the engine says it holds on its device. */
  get deviceBlocks(): number {
    return this.#copies[0]!.size
  }

  get bytesUsed(): number {
    let bytes = 0
    for (const table of this.#copies) bytes += table.bytesUsed
    for (const table of this.#otherGroups.values()) bytes += table.bytesUsed
    return bytes
  }

  clear(): void {
    for (const table of this.#copies) table.clear()
    this.#otherGroups.clear()
    this.namespaces.clear()
    this.#reports.length = 0
  }

  /**
   * A request asked the engine to announce the prefix it hits (`kv_cache_report_mode: "full"`). The next parentless store
   * of these tokens is that report: it has no removal of its own, so counting it would keep blocks for ever.
   */
  expectReport(tokens: Uint32Array): void {
    if (this.#reports.length === reportsMax) this.#reports.shift()
    this.#reports.push(tokens)
  }

  /** Whether a parentless store of these tokens was announced, and if so no more. */
  takeReport(tokens: Uint32Array, from: number, count: number): boolean {
    for (let index = 0; index < this.#reports.length; index++) {
      const expected = this.#reports[index]!
      if (count > expected.length) continue
      let same = 0
      while (same < count && tokens[from + same] === expected[same]) same++
      if (same < count) continue
      this.#reports.splice(index, 1)
      return true
    }
    return false
  }

  /** Every table of copies, which `copies` also answers. */
  *tables(): Generator<LedgerTable, void, void> {
    for (const [tier, table] of this.#copies.entries()) yield { tier, group: 0, table }
    for (const [key, table] of this.#otherGroups)
      yield { tier: key % tierCount, group: Math.floor(key / tierCount), table }
  }

  /** As it is now, in steps: it may change between them. */
  dump(): Generator<undefined, LedgerDump, void> {
    const tables = Array.from(this.tables(), (it) => ({ ...it, table: it.table.freeze() }))
    return dumpTables(tables, this.namespaces, this.namespaces.freeze(), [...this.groups])
  }

  /** Instead of what it had, in steps. */
  *load({ copies, namespaces, groups }: LedgerDump): Generator<undefined, void, void> {
    this.clear()
    for (const [group, attention] of groups) this.groups.set(group, attention)
    for (const { tier, group, entries } of copies) yield* this.copies(tier, group).load(entries)
    yield* this.namespaces.load(namespaces)
  }
}

export interface LedgerTable {
  readonly tier: number
  readonly group: number
  readonly table: HashTable
}

export interface LedgerDump {
  /** Triples of hash and copies, per tier and cache group. */
  readonly copies: readonly { readonly tier: number; readonly group: number; readonly entries: Uint32Array }[]
  readonly namespaces: NamespaceDump
  readonly groups: readonly (readonly [number, number])[]
}

function* dumpTables(
  tables: readonly (Omit<LedgerTable, 'table'> & { readonly table: FrozenTable })[],
  namespaces: Namespaces,
  frozenNames: FrozenTable,
  groups: LedgerDump['groups'],
): Generator<undefined, LedgerDump, void> {
  try {
    const copies: LedgerDump['copies'][number][] = []
    for (const { tier, group, table } of tables) {
      if (table.size > 0) copies.push({ tier, group, entries: yield* table.dump() })
      table.release()
    }
    return { copies, namespaces: yield* namespaces.dump(frozenNames), groups }
  } finally {
    for (const { table } of tables) table.release()
    frozenNames.release()
  }
}
