/**
 * The names that SGLang's hierarchical cache gives to pages: SHA-256 over the page before and the tokens of this one.
 * Needed to ask a cache that several workers share. Follows lib/llm/src/kv_router/shared_cache.rs at v1.5.0.
 */
import { sha256 } from '@noble/hashes/sha2.js'
import { joined, toHex } from './bytes.js'

export interface PageCut {
  readonly pageSize: number
  /** Each position is hashed together with the token after it. */
  readonly isEagle?: boolean | undefined
}

/** Lowercase hex, one per complete page. */
export function computePageHashes(tokens: Uint32Array, { pageSize, isEagle = false }: PageCut): string[] {
  if (pageSize <= 0) return []
  const positions = isEagle ? Math.max(0, tokens.length - 1) : tokens.length
  const hashes: string[] = []
  let digest: Uint8Array = new Uint8Array(0)
  for (let start = 0; start + pageSize <= positions; start += pageSize) {
    digest = sha256(joined(digest, pageBytes(tokens, start, pageSize, isEagle)))
    hashes.push(toHex(digest))
  }
  return hashes
}

function pageBytes(tokens: Uint32Array, start: number, pageSize: number, isEagle: boolean): Uint8Array {
  const words: number[] = []
  for (let at = start; at < start + pageSize; at++) {
    words.push(tokens[at]!)
    if (isEagle) words.push(tokens[at + 1]!)
  }
  const view = new DataView(new ArrayBuffer(4 * words.length))
  for (const [at, word] of words.entries()) view.setUint32(4 * at, word, true)
  return new Uint8Array(view.buffer)
}
