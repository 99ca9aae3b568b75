/** Reads the core's chunks straight out of its memory, and gives runs back to a fresh one. Layout: assembly/index/. */
import { WarmrouteError } from '../protocol/index.js'
import { blocksBefore, chunksInUse, rankRecordBytes } from './core-runs.js'
import { address, type IndexCore } from './index-core.js'
import { readSnapshot, runBlocksMax, singleHolder, type SnapshotSink, SnapshotWriter } from './snapshot-format.js'

export function snapshotCore(core: IndexCore): Uint8Array {
  const view = new Uint32Array(core.memory.buffer)
  const chunks = liveChunks(core, view)
  const writer = new SnapshotWriter(4 * address(core.distinctBlocks()) + 12 * chunks.length + 1024)
  const aliases = readAliases(core, view)
  const sets = new SetNumbers(writer, view, aliases)
  for (const chunk of chunks) spansOf(view, chunk, sets, [])
  const runs = new Uint32Array(view.length >>> 4) // by chunk address / 64
  const spans: number[] = []
  for (const chunk of chunks) {
    const at = chunk >>> 2
    const [count, cap] = sizesOf(view, chunk)
    const parent = view[at]!
    spans.length = 0
    spansOf(view, chunk, sets, spans)
    const local = view.subarray(at + 16 + 2 * cap, at + 16 + 2 * (cap + count))
    const external = view.subarray(at + 16, at + 16 + 2 * count)
    runs[chunk >>> 6] = writer.run(parent === 0 ? -1 : runs[parent >>> 6]!, parent & 63, local, external, spans)
  }
  for (const { rank, node, lo, hi } of aliases) writer.alias(rank, runs[node >>> 6]!, node & 63, lo, hi)
  return writer.finish()
}

/** Throws `WR_SNAPSHOT_INVALID`; the core is of no use then. */
export function restoreCore(core: IndexCore, snapshot: Uint32Array): void {
  const buffer = address(core.take(16 * runBlocksMax))
  const bits = address(core.take(65_536 / 8))
  if (buffer === 0 || bits === 0) throw new WarmrouteError('WR_SNAPSHOT_INVALID', { reason: 'no memory is left' })
  const sets = [0]
  const runs: number[] = []
  let words = new Uint32Array(core.memory.buffer)
  const view = (): Uint32Array => {
    if (words.buffer !== core.memory.buffer) words = new Uint32Array(core.memory.buffer)
    return words
  }
  const sink: SnapshotSink = {
    set(ranks) {
      const even = (ranks.length + 1) & ~1
      view().fill(0, bits >>> 2, (bits >>> 2) + even)
      view().set(ranks, bits >>> 2)
      sets.push(address(core.keepSet(bits, even / 2)))
      return sets.at(-1) !== 0
    },
    run(parentRun, parentIndex, local, external) {
      view().set(local, buffer >>> 2)
      view().set(external, (buffer >>> 2) + 2 * runBlocksMax)
      const parent = parentRun < 0 ? 0 : runs[parentRun]! + parentIndex
      runs.push(address(core.restoreRun(parent, local.length >>> 1, buffer, buffer + 8 * runBlocksMax)))
      return runs.at(-1) !== 0
    },
    span(from, to, holders) {
      const set = holders >= singleHolder ? holders : sets[holders]!
      return set === 0 || core.restoreHolders(runs.at(-1)!, from, to, set) !== 0
    },
    alias(rank, run, index, external) {
      view().set(external, buffer >>> 2)
      return core.restoreAlias(rank, runs[run]! + index, buffer) !== 0
    },
  }
  for (const [rank, names] of countNames(snapshot)) core.reserve(rank, names)
  readSnapshot(snapshot, sink)
  for (const set of sets) core.dropSet(set)
  core.give(buffer, 16 * runBlocksMax)
  core.give(bits, 65_536 / 8)
}

/** How many names each rank will have: tables that start at their size need not move while they fill. */
function countNames(snapshot: Uint32Array): Map<number, number> {
  const names = new Map<number, number>()
  const sets: number[][] = [[]]
  const add = (rank: number, count: number) => names.set(rank, (names.get(rank) ?? 0) + count)
  readSnapshot(snapshot, {
    set: (bits) => sets.push(ranksIn(bits)) > 0,
    run: () => true,
    span(from, to, holders) {
      if (holders >= singleHolder) add(holders - singleHolder, to - from)
      else for (const rank of sets[holders]!) add(rank, to - from)
      return true
    },
    alias: (rank) => add(rank, 1).size > 0,
  })
  return names
}

function ranksIn(bits: Uint32Array): number[] {
  const ranks: number[] = []
  for (const [index, word] of bits.entries()) {
    for (let rest = word; rest !== 0; rest &= rest - 1) ranks.push(32 * index + 31 - Math.clz32(rest & -rest))
  }
  return ranks
}

/** Addresses of all chunks in use, those nearer to the root first. */
function liveChunks(core: IndexCore, view: Uint32Array): number[] {
  const keys = new Float64Array(address(core.chunks()))
  let count = 0
  for (const chunk of chunksInUse(core, view)) keys[count++] = blocksBefore(view, chunk) * 2 ** 26 + chunk / 64
  return Array.from(keys.sort(), (key) => (key % 2 ** 26) * 64)
}

function sizesOf(view: Uint32Array, chunk: number): [len: number, cap: number] {
  const sizes = view[(chunk >>> 2) + 2]!
  return [sizes & 0xff, (sizes >>> 8) & 0xff]
}

interface Alias {
  readonly rank: number
  readonly node: number
  readonly lo: number
  readonly hi: number
  /** The rank calls the block by its own hash as well. */
  readonly isFurther: boolean
}

function readAliases(core: IndexCore, view: Uint32Array): Alias[] {
  const records = address(core.rankRecords()) >>> 2
  const aliases: Alias[] = []
  for (let rank = 0; rank < core.ranks(); rank++) {
    const record = records + (rankRecordBytes / 4) * rank
    if (view[record + 10] === 0) continue
    const table = view[record + 11]! >>> 2
    for (let slot = 0; slot <= view[record + 13]!; slot++) {
      const [lo = 0, hi = 0, node = 0, mark = 0] = view.subarray(table + 4 * slot, table + 4 * slot + 4)
      if (mark === 0) continue
      // A block's own name lies here too when its bucket had no room.
      const own = ((node & ~63) >>> 2) + 16 + 2 * (node & 63)
      if (lo === view[own] && hi === view[own + 1]) continue
      aliases.push({ rank, node, lo, hi, isFurther: core.usesOwn(rank, node) !== 0 })
    }
  }
  return aliases
}

/** The snapshot's numbers for holder sets. A span counts those who use the blocks' own names; aliases add the others. */
class SetNumbers {
  readonly #numbers = new Map<string | number, number>([[0, 0]])
  readonly #byAliasOnly = new Map<number, number[]>()
  readonly #writer: SnapshotWriter
  readonly #view: Uint32Array

  constructor(writer: SnapshotWriter, view: Uint32Array, aliases: readonly Alias[]) {
    this.#writer = writer
    this.#view = view
    for (const { rank, node, isFurther } of aliases) {
      if (isFurther) continue
      const ranks = this.#byAliasOnly.get(node)
      if (ranks) ranks.push(rank)
      else this.#byAliasOnly.set(node, [rank])
    }
  }

  of(node: number, set: number): number {
    const away = this.#byAliasOnly.size > 0 ? this.#byAliasOnly.get(node) : undefined
    if (set >= singleHolder) return away ? 0 : set
    const key = away ? `${set}-${away.join()}` : set
    let number = this.#numbers.get(key)
    if (number === undefined) {
      const entry = set << 2 // its address is 16 times its id: this many words
      const bits = this.#view.slice(entry + 6, entry + 6 + 2 * this.#view[entry + 4]!)
      for (const rank of away ?? []) bits[rank >>> 5]! &= ~(1 << (rank & 31))
      number = bits.some((word) => word !== 0) ? this.#writer.set(bits) : 0
      this.#numbers.set(key, number)
    }
    return number
  }
}

function spansOf(view: Uint32Array, chunk: number, sets: SetNumbers, spans: number[]): void {
  const [count, cap] = sizesOf(view, chunk)
  const at = (chunk >>> 2) + 16 + 4 * cap
  let length = 0
  let holders = 0
  for (let index = 0; index < count; index++) {
    const own = sets.of(chunk + index, view[at + index]!)
    if (length > 0 && own !== holders) {
      spans.push(length, holders)
      length = 0
    }
    holders = own
    length++
  }
  spans.push(length, holders)
}
