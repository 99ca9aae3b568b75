/** The WebAssembly core's calls, as assembly/index.ts promises them. Addresses are byte offsets into its memory. */
import { instantiateKernel } from '../hashing/index.js'
import { indexCore } from './core.generated.js'

export interface IndexCore {
  readonly memory: { readonly buffer: ArrayBuffer }
  init(seedLo: number, seedHi: number, maxBytes: number): void
  limitBlocks(overall: number, perRank: number, hostEpochs: number): void
  passEpochs(count: number): void
  ageOfOldest(): number
  evictOldest(): number
  growFor(bytes: number): void
  take(bytes: number): number
  give(at: number, bytes: number): void
  apply(words: number, events: number, statuses: number): void
  findBegin(results: number): void
  findWalk(hashes: number, count: number): number
  findFinish(): number
  findDepth(): number
  nameResults(results: number, names: number, count: number): void
  nameChain(rank: number, isFirst: number, hashes: number, count: number): number
  holdersAlong(isFirst: number, hashes: number, count: number): number
  holds(rank: number, external: number): number
  blocksOf(rank: number): number
  clearRank(rank: number): number
  clearInSteps(names: number): void
  drain(names: number): number
  collect(rank: number): number
  describe(rank: number, from: number, count: number, facts: number): void
  describeNames(rank: number, names: number, count: number, facts: number): void
  discard(): void
  heldBlocks(): number
  distinctBlocks(): number
  holderSets(): number
  sharedBlocks(): number
  holdsOfShared(): number
  aliases(): number
  evictedBlocks(): number
  bytesUsed(): number
  ranks(): number
  seats(): number
  seatOf(rank: number): number
  rankAt(seat: number): number
  chunks(): number
  edges(): number
  hot(): number
  holdersOf(node: number): number
  slabs(): number
  rankRecords(): number
  usesOwn(seat: number, node: number): number
  reserve(rank: number, names: number): number
  keepSet(bits: number, words: number): number
  dropSet(set: number): void
  restoreRun(parent: number, count: number, locals: number, externals: number): number
  restoreHolders(run: number, from: number, to: number, set: number): void
  restoreNames(rank: number, run: number, from: number, to: number): number
  restoreAlias(rank: number, node: number, external: number): number
}

/** A fresh core without knowledge; undefined where WebAssembly cannot run. */
export function newIndexCore(): IndexCore | undefined {
  return instantiateKernel<IndexCore>(indexCore)
}

/** Unsigned: the core's addresses use all 32 bits. */
export function address(value: number): number {
  return value >>> 0
}
