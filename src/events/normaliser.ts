/**
 * From decoded events to what the index is told: filters, inherits namespaces, counts copies, converts tokens to hashes.
 * Stateful through the rank's ledger only, so a purge of the ledger is a purge of all it remembers.
 */
import type { EventBatch, TieredBatch } from '../core/index/index.js'
import { storageTiers } from '../core/protocol/index.js'
import { copyWords } from './converter.js'
import type { Converter } from './converter.js'
import type { DecodedBatch } from './decoded-batch.js'
import { eventKind, tierCode } from './decoded-batch.js'
import type { HashTable } from './hash-table.js'
import type { FilterReason } from './prefilter.js'
import { filterEvent } from './prefilter.js'
import type { RankLedger } from './rank-ledger.js'

export interface NormaliserLimits {
  /** Distinct blocks remembered per rank and tier. A lower tier beyond it is emptied; the device is not believed. */
  readonly blocksMax: number
}

export class Normaliser {
  readonly #converter: Converter
  readonly #blockSize: number
  readonly #limits: NormaliserLimits

  constructor(converter: Converter, blockSize: number, limits: NormaliserLimits) {
    this.#converter = converter
    this.#blockSize = blockSize
    this.#limits = limits
  }

  apply(batch: DecodedBatch, ledger: RankLedger, out: TieredBatch): void {
    for (let event = 0; event < batch.eventCount; event++) {
      const reason = filterEvent(batch, event, ledger.groups) ?? this.#applyEvent(batch, event, ledger, out)
      if (reason) ledger.counters.filtered[reason]++
    }
  }

  #applyEvent(batch: DecodedBatch, event: number, ledger: RankLedger, out: TieredBatch): FilterReason | undefined {
    const kind = batch.kind[event]!
    if (kind === eventKind.cleared) {
      ledger.counters.clearedEvents++
      ledger.clear()
      out.cleared(ledger.rank)
      return undefined
    }
    const tier = batch.tier[event]!
    const copies = ledger.copies(tier, batch.group[event]!)
    const events = out.of(storageTiers[tier]!)
    if (kind === eventKind.removed) {
      this.#remove(batch, event, ledger, copies, events)
      return undefined
    }
    if (tier > 0 && copies.size + batch.hashCount[event]! > this.#limits.blocksMax) {
      ledger.counters.tierOverflows++
      copies.clear()
      events.cleared(ledger.rank)
    }
    return this.#store(batch, event, ledger, copies, events)
  }

  #store(
    batch: DecodedBatch,
    event: number,
    ledger: RankLedger,
    copies: HashTable,
    out: EventBatch,
  ): FilterReason | undefined {
    const { counters } = ledger
    const size = batch.blockSize[event]!
    const count = batch.hashCount[event]!
    if (size === 0 || batch.tokenCount[event] === 0) return 'placeholder'
    // Fewer hashes than blocks of tokens: a group that masks blocks out, whose hits are not ours to predict.
    if (Math.floor((batch.tokenCount[event]! - batch.isEagle[event]!) / size) > count) return 'masked_group'
    // Disk and external tiers neither learn nor teach: their events come from other hands and repeat what the device said.
    const isNear = batch.tier[event]! < tierCode.disk
    const namespace = isNear ? this.#namespaceOf(batch, event, ledger) : batch.namespace[event] || undefined
    if (namespace === null) return 'ambiguous_cache_namespace'
    // Lower tiers continue chains that began on the device; their index takes any parent.
    const isRooted = batch.tier[event]! > 0 || isChainRooted(batch, event, copies)
    const doubled = countCopies(batch, event, copies, isRooted ? 1 : 0)
    if (doubled > 0 && this.#isReport(batch, event, ledger, copies)) {
      counters.reports++
      for (let index = 0; index < count; index++) uncount(batch, event, index, copies)
    } else if (doubled > 0) {
      if (hasDuplicate(batch, event)) {
        for (let index = 0; index < count; index++) uncount(batch, event, index, copies)
        return 'duplicate_hash'
      }
      counters.doubledBlocks += doubled
    }
    if (isNear && !ledger.namespaces.stored(namespace, batch.hashes, batch.hashStart[event]!, count)) {
      return 'ambiguous_cache_namespace'
    }
    if (size !== this.#blockSize) return 'wrong_block_size'
    if (batch.isOpaque[event] === 1) return 'opaque_media'
    counters.storedEvents++
    if (!isRooted) {
      counters.unrootedStores++
      return undefined
    }
    const complete = this.#converter.completeBlocks(batch, event)
    if (complete > 0) this.#converter.append(batch, event, complete, namespace, ledger.rank, out)
    counters.storedBlocks += complete
    return complete < count ? 'short_tokens' : undefined
  }

  /** Null: cannot be known. */
  #namespaceOf(batch: DecodedBatch, event: number, ledger: RankLedger): string | undefined | null {
    const own = batch.namespace[event]
    if (own || batch.hasParent[event] === 0 || ledger.namespaces.isEmpty) return own || undefined
    return ledger.namespaces.inherited(batch.parents[2 * event]!, batch.parents[2 * event + 1]!)
  }

  #isReport(batch: DecodedBatch, event: number, ledger: RankLedger, copies: HashTable): boolean {
    if (batch.hasParent[event] === 1) return false
    for (let index = 0; index < batch.hashCount[event]!; index++) {
      const at = 2 * (batch.hashStart[event]! + index)
      if (copies.get(batch.hashes[at]!, batch.hashes[at + 1]!) < 4) return false // something in it is new
    }
    return ledger.takeReport(batch.tokens, batch.tokenStart[event]!, batch.tokenCount[event]!)
  }

  #remove(batch: DecodedBatch, event: number, ledger: RankLedger, copies: HashTable, out: EventBatch): void {
    const { counters } = ledger
    const { hashes } = batch
    const start = batch.hashStart[event]!
    const count = batch.hashCount[event]!
    const isNear = batch.tier[event]! < tierCode.disk
    counters.removedEvents++
    let gone = 0
    for (let at = 2 * start; at < 2 * (start + count); at += 2) {
      const low = hashes[at]!
      const high = hashes[at + 1]!
      const left = copies.countDown(low, high)
      if (left > 0) {
        counters.keptCopies++
        continue
      }
      if (left < 0) counters.unknownRemovals++
      if (isNear) ledger.namespaces.removed(low, high)
      // The event's own columns are the scratch space: what goes moves to the front.
      hashes[2 * (start + gone)] = low
      hashes[2 * (start + gone) + 1] = high
      gone++
    }
    if (gone === 0) return
    counters.removedBlocks += gone
    const at = out.openRemoved(ledger.rank, gone)
    copyWords(out.words, at, hashes, 2 * start, 2 * gone)
  }
}

/** Whether the chain can be followed to the root through blocks that we saw stored. */
function isChainRooted(batch: DecodedBatch, event: number, copies: HashTable): boolean {
  if (batch.hasParent[event] === 0) return true
  return (copies.get(batch.parents[2 * event]!, batch.parents[2 * event + 1]!) & 1) === 1
}

/** One more copy of each block. Answers how many were there already. */
function countCopies(batch: DecodedBatch, event: number, copies: HashTable, mark: number): number {
  const { hashes } = batch
  const start = 2 * batch.hashStart[event]!
  const end = start + 2 * batch.hashCount[event]!
  let doubled = 0
  for (let at = start; at < end; at += 2) if (copies.countUp(hashes[at]!, hashes[at + 1]!, mark) > 0) doubled++
  return doubled
}

function uncount(batch: DecodedBatch, event: number, index: number, copies: HashTable): void {
  const at = 2 * (batch.hashStart[event]! + index)
  copies.countDown(batch.hashes[at]!, batch.hashes[at + 1]!)
}

/** A hash that occurs twice among parent and blocks: a chain cannot pass the same block twice. */
function hasDuplicate(batch: DecodedBatch, event: number): boolean {
  const seen = new Map<number, number[]>()
  const isNew = (low: number, high: number) => {
    const highs = seen.get(low)
    if (highs === undefined) seen.set(low, [high])
    else if (highs.includes(high)) return false
    else highs.push(high)
    return true
  }
  if (batch.hasParent[event] === 1) isNew(batch.parents[2 * event]!, batch.parents[2 * event + 1]!)
  for (let index = 0; index < batch.hashCount[event]!; index++) {
    const at = 2 * (batch.hashStart[event]! + index)
    if (!isNew(batch.hashes[at]!, batch.hashes[at + 1]!)) return true
  }
  return false
}
