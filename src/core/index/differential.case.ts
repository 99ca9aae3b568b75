/**
 * Goal: no order of events makes an index answer otherwise than plain sets of blocks do.
 * Method: the same random steps drive the real index and `NaiveIndex`; statuses, depths, last names, facts and counts
 * are compared. Few ranks, few locals and few names make collisions common, and collisions are where bugs are.
 */
import { hashAt, type HashColumn, newHashColumn, toHashColumn } from '../protocol/index.js'
import { ApplyReport } from './apply-report.js'
import { EventBatch } from './event-batch.js'
import { NaiveIndex } from './naive-index.case.js'
import type { IndexStats, PrefixIndex } from './prefix-index.js'
import { factKinds, factWords } from './prefix-index.js'

/** A small generator with a 32-bit state: one seed, one run. */
export function randomOf(seed: number): (below: number) => number {
  let state = seed | 0
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let x = Math.imul(state ^ (state >>> 15), state | 1)
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61)
    return Math.floor((((x ^ (x >>> 14)) >>> 0) / 2 ** 32) * below)
  }
}

/** How wild the steps are. `names`: how the external hash of a block is chosen. */
export interface Shape {
  readonly ranks: number
  readonly locals: number
  readonly blocksMax: number
  readonly names: 'chained' | 'per rank' | 'clashing'
}

export interface DifferentialCounts {
  events: number
  blocks: number
  finds: number
}

interface Event {
  readonly kind: 'stored' | 'removed' | 'cleared'
  readonly rank: number
  readonly parent?: bigint
  readonly external: bigint[]
  readonly local: bigint[]
}

export class Differential {
  readonly counts: DifferentialCounts = { events: 0, blocks: 0, finds: 0 }
  #real: PrefixIndex
  readonly #model = new NaiveIndex()
  readonly #shape: Shape
  readonly #random: (below: number) => number
  /** Names that were used, so that parents and removes mostly hit. */
  readonly #used: bigint[][]

  constructor(real: PrefixIndex, shape: Shape, seed: number) {
    this.#real = real
    this.#shape = shape
    this.#random = randomOf(seed)
    this.#used = Array.from({ length: shape.ranks }, () => [])
  }

  /** One batch of events on both sides, with their statuses compared. */
  step(): void {
    const batch = new EventBatch(16)
    const events = Array.from({ length: 1 + this.#random(4) }, () => this.#event())
    for (const { kind, rank, parent, external, local } of events) {
      this.counts.events++
      this.counts.blocks += external.length
      if (kind === 'cleared') batch.cleared(rank)
      else if (kind === 'removed') batch.removed(rank, toHashColumn(external))
      else
        batch.stored(
          rank,
          parent === undefined ? undefined : toHashColumn([parent]),
          toHashColumn(external),
          toHashColumn(local),
        )
    }
    const real = new ApplyReport()
    const model = new ApplyReport()
    this.#real.apply(batch, real)
    this.#model.apply(batch, model)
    this.#real.drain(this.#random(12)) // what was cleared in steps goes between any two events
    for (let event = 0; event < events.length; event++) {
      if (real.statusOf(event) !== model.statusOf(event)) {
        fail(`event ${event} of ${text(events)} ended ${real.statusOf(event)}, and should ${model.statusOf(event)}`)
      }
    }
  }

  find(): void {
    const { ranks } = this.#shape
    const local = Array.from({ length: this.#random(this.#shape.blocksMax * 2) }, () => this.#local())
    const column = this.#columnOf(local)
    const [depths, wanted] = [new Uint32Array(ranks), new Uint32Array(ranks)]
    const last = newHashColumn(ranks)
    const greatest = this.#real.find(column, local.length, depths, last)
    if (greatest !== this.#model.find(column, local.length, wanted))
      fail(`greatest depth of [${local.join()}] is ${greatest}`)
    for (let rank = 0; rank < ranks; rank++) {
      if (depths[rank] !== wanted[rank])
        fail(`depth of [${local.join()}] at rank ${rank} is ${depths[rank]}, not ${wanted[rank]}`)
      if (depths[rank]! > 0) this.#checkName(rank, local.slice(0, depths[rank]), last, rank)
    }
    this.#chain(local, column, depths)
    this.counts.finds++
    this.counts.blocks += local.length
  }

  /** Everything that both sides can be asked for. Shards (not `isOne`) keep sets of ranks each for themselves. */
  audit(isOne = true): void {
    this.#compareStats(['heldBlocks'])
    const [sharing, wanted] = [this.#real.sharing(), this.#model.sharing()]
    if (Math.abs(sharing.ranksPerSharedBlock - wanted.ranksPerSharedBlock) > 1e-9)
      fail(`${sharing.ranksPerSharedBlock} ranks share a block, not ${wanted.ranksPerSharedBlock}`)
    if (sharing.sharedBlocks !== wanted.sharedBlocks)
      fail(`${sharing.sharedBlocks} blocks are shared, not ${wanted.sharedBlocks}`)
    for (let rank = 0; rank < this.#shape.ranks; rank++) {
      if (this.#real.blocksOf(rank) !== this.#model.blocksOf(rank)) fail(`blocks of rank ${rank} differ`)
      const facts = factSet(this.#real, rank)
      const wanted = factSet(this.#model, rank)
      if (facts.join() !== wanted.join())
        fail(`facts of rank ${rank} are\n${facts.join()}\nand should be\n${wanted.join()}`)
      if (!describesItsFacts(this.#real, rank)) fail(`names of rank ${rank} are described otherwise than its facts`)
      for (const name of this.#used[rank]!.slice(0, 20)) {
        const column = toHashColumn([name])
        if (this.#real.holds(rank, column) !== this.#model.holds(rank, column)) fail(`holds(${rank}, ${name}) differs`)
      }
    }
    // Half of the time steps go on across audits.
    if (this.#random(2) === 0) return
    if (this.#real.drain(Number.POSITIVE_INFINITY) !== 0) fail('something is left to drain')
    this.#compareStats(isOne ? ['heldBlocks', 'distinctBlocks', 'holderSets'] : ['heldBlocks', 'distinctBlocks'])
  }

  #compareStats(keys: readonly (keyof IndexStats)[]): void {
    const [real, model] = [this.#real.stats(), this.#model.stats()]
    for (const key of keys) if (real[key] !== model[key]) fail(`${key} is ${real[key]}, not ${model[key]}`)
  }

  replaceReal(real: PrefixIndex): void {
    this.#real = real
  }

  /** Through a snapshot and back, on the real side only. */
  rewrite(): void {
    this.#real.restore(this.#real.snapshot())
  }

  /** Clears everything, and looks for what is left behind. */
  drain(): void {
    for (let rank = 0; rank < this.#shape.ranks; rank++) {
      if (this.#real.clearRank(rank) !== this.#model.clearRank(rank))
        fail(`clearing rank ${rank} forgot another number`)
      this.#used[rank] = []
    }
    this.#real.drain(Number.POSITIVE_INFINITY)
    const { heldBlocks, distinctBlocks, holderSets, aliases } = this.#real.stats()
    if (heldBlocks + distinctBlocks + holderSets + aliases !== 0) {
      fail(`after the drain: ${heldBlocks} held, ${distinctBlocks} nodes, ${holderSets} sets, ${aliases} aliases`)
    }
  }

  /** Prompts come from anywhere: every other one is written into the index's own memory first. */
  #columnOf(local: readonly bigint[]): HashColumn {
    const column = toHashColumn(local)
    if (this.#random(2) === 0) return column
    const own = this.#real.promptColumn(local.length)
    own.set(column)
    return own
  }

  /** One rank's names of the whole prefix, and nothing written behind it. */
  #chain(local: bigint[], column: HashColumn, depths: Uint32Array): void {
    const rank = this.#random(this.#shape.ranks + 1)
    const names = newHashColumn(local.length).fill(0xffff_ffff)
    const count = this.#real.chain(rank, column, local.length, names)
    if (count !== (depths[rank] ?? 0)) fail(`rank ${rank} names ${count} blocks of [${local.join()}]`)
    for (let block = 0; block < count; block++) this.#checkName(rank, local.slice(0, block + 1), names, block)
    if (names.subarray(2 * count).some((word) => word !== 0xffff_ffff)) fail(`names behind the prefix of rank ${rank}`)
  }

  #checkName(rank: number, prefix: bigint[], column: HashColumn, at: number): void {
    const name = hashAt(column, at)
    const names = this.#model.namesAt(rank, prefix)
    if (!names.includes(name))
      fail(`rank ${rank} does not call the end of [${prefix.join()}] ${name} but ${names.join()}`)
  }

  #event(): Event {
    const rank = this.#random(this.#shape.ranks)
    const dice = this.#random(100)
    if (dice < 4) return { kind: 'cleared', rank, external: [], local: [] }
    if (dice < 35) return { kind: 'removed', rank, external: this.#names(rank), local: [] }
    return this.#stored(rank)
  }

  #stored(rank: number): Event {
    const used = this.#used[rank]!
    const count = this.#random(8) === 0 ? this.#random(this.#shape.blocksMax) : this.#random(5)
    const parent = used.length > 0 && this.#random(3) > 0 ? this.#pick(used) : this.#random(20) === 0 ? 99n : undefined
    const local = Array.from({ length: count }, () => this.#local())
    let chain = parent ?? 7n
    const external = local.map((it) => {
      chain = this.#name(rank, chain, it)
      return chain
    })
    for (const name of external) {
      if (used.length < 200) used.push(name)
      else used[this.#random(200)] = name
    }
    return { kind: 'stored', rank, ...(parent === undefined ? {} : { parent }), external, local }
  }

  #names(rank: number): bigint[] {
    const used = this.#used[rank]!
    if (used.length === 0) return [99n]
    if (this.#random(4) > 0) return Array.from({ length: 1 + this.#random(4) }, () => this.#pick(used))
    // A run of names, as an engine evicts it: forwards or backwards.
    const from = this.#random(used.length)
    const run = used.slice(from, from + 1 + this.#random(40))
    return this.#random(2) === 0 ? run : run.reverse()
  }

  #local(): bigint {
    return BigInt(this.#random(this.#shape.locals)) * 0x1_0000_0001n
  }

  #name(rank: number, chain: bigint, local: bigint): bigint {
    if (this.#shape.names === 'clashing') return BigInt(this.#random(60)) << BigInt(this.#random(2) * 32)
    const salt = this.#shape.names === 'per rank' ? BigInt(rank) : 0n
    return BigInt.asUintN(64, (chain + salt + 1n) * 0x9e3779b97f4a7c15n + local * 0x632be59bd9b4e019n + 1n)
  }

  #pick(names: readonly bigint[]): bigint {
    return names[this.#random(names.length)]!
  }
}

/** Every fact is also found by its name. */
function describesItsFacts(index: PrefixIndex, rank: number): boolean {
  for (const fact of Array.from(index.facts(rank), (it) => ({ ...it }))) {
    const words = new Uint32Array(factWords)
    index.describe(rank, Uint32Array.of(fact.externalLo, fact.externalHi), 1, words)
    const [kind, , parentLo, parentHi, localLo, localHi] = words
    if (kind !== (fact.hasParent ? factKinds.below : factKinds.atRoot)) return false
    if (localLo !== fact.localLo || localHi !== fact.localHi) return false
    if (fact.hasParent && (parentLo !== fact.parentLo || parentHi !== fact.parentHi)) return false
  }
  return true
}

function factSet(index: PrefixIndex, rank: number): string[] {
  const known = new Map<string, string>() // name -> path: which of several names a parent goes by is free
  const facts: string[] = []
  for (const fact of index.facts(rank)) {
    const parent = fact.hasParent ? known.get(`${fact.parentHi}:${fact.parentLo}`) : 'root'
    if (parent === undefined) fail(`a fact of rank ${rank} comes before its parent`)
    const path = `${parent}/${fact.localHi}:${fact.localLo}`
    known.set(`${fact.externalHi}:${fact.externalLo}`, path)
    facts.push(`${path}=${fact.externalHi}:${fact.externalLo}`)
  }
  return facts.sort()
}

function text(events: readonly Event[]): string {
  return JSON.stringify(events, (_, value: unknown) => (typeof value === 'bigint' ? `${value}` : value))
}

function fail(what: string): never {
  throw new Error(what)
}
