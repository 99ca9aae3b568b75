/**
 * Copies of a block, counted per rank and tier: a removal is news only when the last copy goes, or when the block was
 * never seen. Stores always pass: an index takes them twice without harm, and a peer that joined late needs them.
 */
import type { DraftEvent } from './coalescer.js'

export class Deduplicator {
  readonly #copies = new Map<string, Map<bigint, number>>()

  /** The event as it should be published; undefined: nothing is left of it, and it takes no id. */
  filter(event: DraftEvent): DraftEvent | undefined {
    const { data, dpRank, tier } = event
    if (data.kind === 'cleared') {
      for (const key of this.#copies.keys()) if (key.startsWith(`${dpRank}/`)) this.#copies.delete(key)
      return event
    }
    const key = `${dpRank}/${tier}`
    let copies = this.#copies.get(key)
    if (!copies) this.#copies.set(key, (copies = new Map()))
    if (data.kind === 'stored') {
      for (const { blockHash } of data.blocks) copies.set(blockHash, (copies.get(blockHash) ?? 0) + 1)
      return event
    }
    const blockHashes = data.blockHashes.filter((hash) => isLast(copies, hash))
    if (blockHashes.length === data.blockHashes.length) return event
    return blockHashes.length === 0 ? undefined : { ...event, data: { kind: 'removed', blockHashes } }
  }
}

function isLast(copies: Map<bigint, number>, hash: bigint): boolean {
  const count = copies.get(hash) ?? 0
  if (count > 1) copies.set(hash, count - 1)
  else copies.delete(hash)
  return count <= 1
}
