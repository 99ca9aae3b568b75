/** Reads the core's chunks straight out of its memory, and gives runs back to a fresh one. Layout: assembly/index/. */
import { WarmrouteError } from '../protocol/index.js'
import { blocksBefore, chunkBytes, chunksInUse, rankRecordBytes } from './core-runs.js'
import { ranksMax } from './event-batch.js'
import { address, type IndexCore } from './index-core.js'
import { nameTwice, readSnapshot, singleHolder, type SnapshotSink, SnapshotWriter } from './snapshot-format.js'

/** So many spans wait at most: 10 bytes for each. */
const spansMax = 1 << 20
const windowWords = 65_536
/** One name in a table that has just got its size, on average. */
const nameBytes = 13

/** Of a core that has nothing to drain. Inside, ranks have seats (assembly/index/seats.ts); a snapshot names ranks. */
export function snapshotCore(core: IndexCore): Uint8Array {
  const view = new Uint32Array(core.memory.buffer)
  const chunks = liveChunks(core, view)
  const writer = new SnapshotWriter(4 * address(core.distinctBlocks()) + 12 * chunks.length + 1024)
  const aliases = readAliases(core, view)
  const sets = new SetNumbers(writer, core, view, aliases)
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
  for (const { seat, node, lo, hi } of aliases)
    writer.alias(address(core.rankAt(seat)), runs[node >>> 6]!, node & 63, lo, hi)
  return writer.finish()
}

/** Throws `WR_SNAPSHOT_INVALID`; the core is of no use then. */
export function restoreCore(core: IndexCore, snapshot: Uint32Array): void {
  const { names, members, bytes } = readFirst(snapshot)
  core.growFor(bytes)
  const bits = address(core.take(65_536 / 8))
  const window = new SnapshotWindow(core, snapshot)
  if (bits === 0 || !window.isOpen) throw refused('no memory is left')
  const sets = [0]
  const runs: number[] = []
  const spans = new NamedSpans(core)
  const sink: SnapshotSink = {
    set(ranks) {
      const even = (ranks.length + 1) & ~1
      const view = new Uint32Array(core.memory.buffer, bits, even)
      view.fill(0)
      view.set(ranks)
      sets.push(address(core.keepSet(bits, even / 2)))
      return sets.at(-1) !== 0
    },
    run(parentRun, parentIndex, blocks, at) {
      const local = window.addressOf(at, 4 * blocks)
      const parent = parentRun < 0 ? 0 : runs[parentRun]! + parentIndex
      const run = address(core.restoreRun(parent, blocks, local, local + 8 * blocks))
      runs.push(run)
      return run !== 0
    },
    span(from, to, holders) {
      const set = holders >= singleHolder ? holders : sets[holders]!
      if (set === 0) return true
      const run = runs[runs.length - 1]!
      core.restoreHolders(run, from, to, set)
      if (holders >= singleHolder) return spans.add(holders - singleHolder, run, from, to)
      for (const rank of members[holders]!) if (!spans.add(rank, run, from, to)) return false
      return true
    },
    alias(rank, run, index, at) {
      return spans.flush() && core.restoreAlias(rank, runs[run]! + index, window.addressOf(at, 2)) !== 0
    },
  }
  for (const [rank, count] of names.entries()) if (count > 0) core.reserve(rank, count)
  readSnapshot(snapshot, sink)
  if (!spans.flush()) throw refused(nameTwice)
  for (const set of sets) core.dropSet(set)
  core.give(bits, 65_536 / 8)
  window.close()
}

function refused(reason: string): WarmrouteError {
  return new WarmrouteError('WR_SNAPSHOT_INVALID', { reason })
}

/** A part of the snapshot in the core's memory, which moves on as it is read. */
class SnapshotWindow {
  readonly #core: IndexCore
  readonly #snapshot: Uint32Array
  readonly #at: number
  /** Words [from, to) of the snapshot lie there. */
  #from = 0
  #to = 0

  constructor(core: IndexCore, snapshot: Uint32Array) {
    this.#core = core
    this.#snapshot = snapshot
    this.#at = address(core.take(4 * windowWords))
  }

  get isOpen(): boolean {
    return this.#at !== 0
  }

  /** Where `count` words from position `at` lie; they are read one after the other. */
  addressOf(at: number, count: number): number {
    if (at + count > this.#to || at < this.#from) {
      this.#from = at
      this.#to = Math.min(at + windowWords, this.#snapshot.length)
      const words = new Uint32Array(this.#core.memory.buffer, this.#at, windowWords)
      words.set(this.#snapshot.subarray(this.#from, this.#to))
    }
    return this.#at + 4 * (at - this.#from)
  }

  close(): void {
    this.#core.give(this.#at, 4 * windowWords)
  }
}

/**
 * Blocks that wait for their names. A snapshot goes from the root outwards, so what follows each other belongs to other ranks; a
 * rank's table stays in the nearest caches while it takes all that wait for it (decision 0124).
 */
class NamedSpans {
  readonly #core: IndexCore
  readonly #ranks = new Uint32Array(spansMax)
  readonly #runs = new Uint32Array(spansMax)
  readonly #bounds = new Uint16Array(spansMax)
  #count = 0

  constructor(core: IndexCore) {
    this.#core = core
  }

  add(rank: number, run: number, from: number, to: number): boolean {
    const at = this.#count++
    this.#ranks[at] = rank
    this.#runs[at] = run
    this.#bounds[at] = (from << 8) | to
    return this.#count < spansMax || this.flush()
  }

  /** False when one name comes twice, or memory ran out. */
  flush(): boolean {
    const ranks = this.#ranks.subarray(0, this.#count)
    this.#count = 0
    for (const at of inOrderOf(ranks)) {
      const bounds = this.#bounds[at]!
      if (this.#core.restoreNames(ranks[at]!, this.#runs[at]!, bounds >>> 8, bounds & 0xff) === 0) return false
    }
    return true
  }
}

/** Positions by ascending rank, those of one rank as they came. */
function inOrderOf(ranks: Uint32Array): Uint32Array {
  const starts = new Uint32Array(ranksMax + 1)
  for (const rank of ranks) starts[rank + 1]!++
  for (let rank = 0; rank < ranksMax; rank++) starts[rank + 1]! += starts[rank]!
  const order = new Uint32Array(ranks.length)
  for (let at = 0; at < ranks.length; at++) order[starts[ranks[at]!]!++] = at
  return order
}

/**
 * Who is in which set, how many names each rank will have, and about how many bytes all will take: tables that start at their
 * size need not move while they fill, and a memory that grows once keeps the collector quiet.
 */
function readFirst(snapshot: Uint32Array): { names: Uint32Array; members: number[][]; bytes: number } {
  const names = new Uint32Array(ranksMax)
  const members: number[][] = [[]]
  let bytes = 0
  readSnapshot(snapshot, {
    set: (bits) => members.push(ranksIn(bits)) > 0,
    run(_, __, blocks) {
      bytes += blocks <= 8 ? chunkBytes[0]! : blocks <= 24 ? chunkBytes[1]! : chunkBytes[2]!
      return true
    },
    span(from, to, holders) {
      if (holders >= singleHolder) names[holders - singleHolder]! += to - from
      else for (const rank of members[holders]!) names[rank]! += to - from
      return true
    },
    alias: (rank) => ++names[rank]! > 0,
  })
  for (const count of names) bytes += count * nameBytes
  return { names, members, bytes }
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
  readonly seat: number
  readonly node: number
  readonly lo: number
  readonly hi: number
  /** The rank calls the block by its own hash as well. */
  readonly isFurther: boolean
}

function readAliases(core: IndexCore, view: Uint32Array): Alias[] {
  const records = address(core.rankRecords()) >>> 2
  const aliases: Alias[] = []
  for (let seat = 0; seat < core.seats(); seat++) {
    const record = records + (rankRecordBytes / 4) * seat
    if (view[record + 10] === 0) continue
    const table = view[record + 11]! >>> 2
    for (let slot = 0; slot <= view[record + 13]!; slot++) {
      const [lo = 0, hi = 0, node = 0, mark = 0] = view.subarray(table + 4 * slot, table + 4 * slot + 4)
      if (mark === 0) continue
      // A block's own name lies here too when its bucket had no room.
      const own = ((node & ~63) >>> 2) + 16 + 2 * (node & 63)
      if (lo === view[own] && hi === view[own + 1]) continue
      aliases.push({ seat, node, lo, hi, isFurther: core.usesOwn(seat, node) !== 0 })
    }
  }
  return aliases
}

/** The snapshot's numbers for holder sets. A span counts those who use the blocks' own names; aliases add the others. */
class SetNumbers {
  readonly #numbers = new Map<string | number, number>([[0, 0]])
  readonly #byAliasOnly = new Map<number, number[]>()
  readonly #writer: SnapshotWriter
  readonly #core: IndexCore
  readonly #view: Uint32Array

  constructor(writer: SnapshotWriter, core: IndexCore, view: Uint32Array, aliases: readonly Alias[]) {
    this.#writer = writer
    this.#core = core
    this.#view = view
    for (const { seat, node, isFurther } of aliases) {
      if (isFurther) continue
      const seats = this.#byAliasOnly.get(node)
      if (seats) seats.push(seat)
      else this.#byAliasOnly.set(node, [seat])
    }
  }

  of(node: number, set: number): number {
    const away = this.#byAliasOnly.size > 0 ? this.#byAliasOnly.get(node) : undefined
    if (set >= singleHolder) return away ? 0 : singleHolder + address(this.#core.rankAt(set - singleHolder))
    const key = away ? `${set}-${away.join()}` : set
    let number = this.#numbers.get(key)
    if (number === undefined) {
      const entry = set << 2 // its address is 16 times its id: this many words
      const bits = this.#view.slice(entry + 6, entry + 6 + 2 * this.#view[entry + 4]!)
      for (const seat of away ?? []) bits[seat >>> 5]! &= ~(1 << (seat & 31))
      number = bits.some((word) => word !== 0) ? this.#writer.set(this.#byRank(bits)) : 0
      this.#numbers.set(key, number)
    }
    return number
  }

  #byRank(seats: Uint32Array): Uint32Array {
    const ranks = ranksIn(seats).map((seat) => address(this.#core.rankAt(seat)))
    const bits = new Uint32Array((Math.max(...ranks) >>> 5) + 1)
    for (const rank of ranks) bits[rank >>> 5]! |= 1 << (rank & 31)
    return bits
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
