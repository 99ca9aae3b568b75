/** Writes the TypeScript index as a snapshot, and fills one from it. */
import { root } from './block-trie.js'
import { HolderSets } from './holder-sets.js'
import type { Knowledge } from './knowledge.js'
import { openSnapshot, readSnapshot, singleHolder, type SnapshotSink, SnapshotWriter } from './snapshot-format.js'

export function snapshotKnowledge(know: Knowledge): Uint8Array {
  const { trie } = know
  const runs = trie.runs()
  const writer = new SnapshotWriter(5 * trie.nodeCount)
  const own = ownNameHolders(know)
  const numbers = new Map<number, number>([[0, 0]])
  const numberOf = (node: number): number => {
    const set = own.get(node) ?? trie.holders[node]!
    if (set < 0) return singleHolder + (-1 - set)
    let number = numbers.get(set)
    if (number === undefined) {
      const bits = new Uint32Array(trie.sets.wordCount(set))
      for (let word = 0; word < bits.length; word++) bits[word] = trie.sets.word(set, word)
      numbers.set(set, (number = writer.set(bits)))
    }
    return number
  }
  for (const { first, count } of runs) for (let node = first; node < first + count; node++) numberOf(node)
  const runOf = new Map<number, number>() // first node of a chunk -> run
  for (const { first, count, parent } of runs) {
    const local = new Uint32Array(2 * count)
    const external = new Uint32Array(2 * count)
    const spans: number[] = []
    for (let index = 0; index < count; index++) {
      local.set([trie.localLo[first + index]!, trie.localHi[first + index]!], 2 * index)
      external.set([trie.externalLo[first + index]!, trie.externalHi[first + index]!], 2 * index)
      const number = numberOf(first + index)
      if (spans.at(-1) === number && spans.length > 0) spans[spans.length - 2]!++
      else spans.push(1, number)
    }
    const parentRun = parent === root ? -1 : runOf.get(parent & ~31)!
    runOf.set(first, writer.run(parentRun, parent & 31, local, external, spans))
  }
  for (const set of own.values()) trie.sets.release(set)
  for (let rank = 0; rank < know.rankCount; rank++) {
    for (const [node, names] of know.names(rank)?.aliases ?? []) {
      for (const [lo, hi] of names) writer.alias(rank, runOf.get(node & ~31)!, node & 31, lo, hi)
    }
  }
  return writer.finish()
}

/** Nodes that some rank knows by an alias only -> the set of those who use its own name. Retained until released. */
function ownNameHolders(know: Knowledge): Map<number, number> {
  const { trie } = know
  const own = new Map<number, number>()
  for (let rank = 0; rank < know.rankCount; rank++) {
    for (const node of know.names(rank)?.aliases.keys() ?? []) {
      if (know.find(rank, trie.externalLo[node]!, trie.externalHi[node]!) === node) continue
      const before = own.get(node)
      const set = trie.sets.flip(before ?? trie.holders[node]!, rank)
      trie.sets.retain(set)
      if (before !== undefined) trie.sets.release(before)
      own.set(node, set)
    }
  }
  return own
}

/** Into empty knowledge. Throws `WR_SNAPSHOT_INVALID`; the knowledge is of no use then. */
export function restoreKnowledge(know: Knowledge, image: Uint8Array): void {
  const sets = [0]
  const words = openSnapshot(image)
  readSnapshot(words, sinkOf(know, sets, words))
  for (const set of sets) know.trie.sets.release(set)
}

function sinkOf(know: Knowledge, sets: number[], words: Uint32Array): SnapshotSink {
  const { trie } = know
  const runs: number[][] = []
  return {
    set(bits) {
      sets.push(trie.sets.intern(bits))
      trie.sets.retain(sets.at(-1)!) // until all runs are in
      return sets.at(-1) !== 0
    },
    run(parentRun, parentIndex, blocks, from) {
      let parent = parentRun < 0 ? root : runs[parentRun]![parentIndex]!
      const nodes: number[] = []
      for (let at = from; at < from + 2 * blocks; at += 2) {
        if (trie.childOf(parent, words[at]!, words[at + 1]!) !== 0) return false
        parent = trie.addChild(parent, words[at]!, words[at + 1]!)
        trie.externalLo[parent] = words[at + 2 * blocks]!
        trie.externalHi[parent] = words[at + 2 * blocks + 1]!
        nodes.push(parent)
      }
      runs.push(nodes)
      return true
    },
    span(from, to, holders) {
      const set = holders >= singleHolder ? HolderSets.single(holders - singleHolder) : sets[holders]!
      for (const node of runs.at(-1)!.slice(from, to)) if (!holdAll(know, node, set)) return false
      return true
    },
    alias(rank, run, index, at) {
      const [lo, hi] = [words[at]!, words[at + 1]!]
      if (know.find(rank, lo, hi) !== 0) return false
      know.holdNode(rank, runs[run]![index]!, lo, hi)
      return true
    },
  }
}

function holdAll(know: Knowledge, node: number, set: number): boolean {
  const { sets, externalLo, externalHi } = know.trie
  const [lo, hi] = [externalLo[node]!, externalHi[node]!]
  for (let word = 0; word < sets.wordCount(set); word++) {
    for (let bits = sets.word(set, word); bits !== 0; bits &= bits - 1) {
      const rank = 32 * word + 31 - Math.clz32(bits & -bits)
      if (know.find(rank, lo, hi) !== 0) return false
      know.holdNode(rank, node, lo, hi)
    }
  }
  return true
}
