/**
 * How each engine names its blocks: a chain of SHA-256 digests over tokens and whatever else decides whether KV may be shared.
 * vLLM hashes canonical CBOR of (parent, tokens, extra keys); SGLang hashes the parent's digest and the tokens' bytes.
 */
import { hash as digestOf } from 'node:crypto'
import type { EngineName } from './engine-name.js'

/** What besides the tokens decides which blocks a request may share. */
export interface CacheScope {
  readonly salt?: string | undefined
  readonly loraName?: string | undefined
  /** SGLang's `extra_key`: separates the tree and does not enter the published hash. */
  readonly extraKey?: string | undefined
}

export interface BlockChain {
  /** The digest of a block whose parent's digest is `parent` (undefined for the first block). */
  next(parent: Uint8Array | undefined, tokens: readonly number[], from: number, to: number): Uint8Array
  /** An integer below 2^53 that stands for the block in the pool: equal only if the KV may be shared. */
  keyOf(digest: Uint8Array): number
}

/** `seed` is vLLM's PYTHONHASHSEED, or the text it uses when that is not set. SGLang has none. */
export function createBlockChain(engine: EngineName, scope: CacheScope, seed: string): BlockChain {
  return engine === 'vllm' ? vllmChain(scope, seed) : sglangChain(scope)
}

/** The 64 bits that an engine publishes. */
export function publishedHash(engine: EngineName, digest: Uint8Array): bigint {
  const view = new DataView(digest.buffer, digest.byteOffset, digest.byteLength)
  return engine === 'vllm' ? view.getBigUint64(digest.byteLength - 8) : view.getBigInt64(0)
}

function vllmChain(scope: CacheScope, seed: string): BlockChain {
  const root = sha256(cborText(seed))
  // An adapter enters every block, a salt only the first; tagged, unlike in the events (vLLM 0.32).
  const lora = scope.loraName === undefined ? [] : [cborTexts('lora', scope.loraName, scope.loraName)]
  const salt = scope.salt === undefined ? [] : [cborTexts('cache_salt', scope.salt)]
  const first = cborExtra([...lora, ...salt])
  const later = cborExtra(lora)
  return {
    next(parent, tokens, from, to) {
      const extra = parent === undefined ? first : later
      const bytes = Buffer.allocUnsafe(48 + (to - from) * 5 + extra.length)
      bytes[0] = 0x83 // an array of three
      bytes[1] = 0x58
      bytes[2] = 32
      bytes.set(parent ?? root, 3)
      let at = writeHead(bytes, 35, 0x80, to - from)
      for (let index = from; index < to; index++) at = writeHead(bytes, at, 0x00, tokens[index]!)
      bytes.set(extra, at)
      return sha256(bytes.subarray(0, at + extra.length))
    },
    keyOf: lowBits,
  }
}

function sglangChain(scope: CacheScope): BlockChain {
  const root = scope.salt === undefined ? undefined : sha256(Buffer.from(`sglang-cache-salt-v1\0${scope.salt}`))
  const isShared = scope.extraKey === undefined && scope.loraName === undefined
  const namespace = JSON.stringify([scope.extraKey, scope.loraName])
  return {
    next(parent, tokens, from, to) {
      const before = parent ?? root
      const bytes = Buffer.allocUnsafe((before?.length ?? 0) + (to - from) * 4)
      if (before) bytes.set(before, 0)
      let at = before?.length ?? 0
      for (let index = from; index < to; index++) at = bytes.writeUInt32LE(tokens[index]!, at)
      return sha256(bytes)
    },
    keyOf: isShared ? lowBits : (digest) => lowBits(sha256(Buffer.concat([digest, Buffer.from(namespace)]))),
  }
}

function sha256(bytes: Uint8Array): Uint8Array {
  return digestOf('sha256', bytes, 'buffer')
}

/** 53 of the 256 bits: two blocks of one engine meet in them about once in 10^10 full caches. */
function lowBits(digest: Uint8Array): number {
  const view = new DataView(digest.buffer, digest.byteOffset, digest.byteLength)
  return (view.getUint32(8) & 0x1fffff) * 4294967296 + view.getUint32(12)
}

function cborText(text: string): Buffer {
  const body = Buffer.from(text)
  const head = Buffer.alloc(9)
  return Buffer.concat([head.subarray(0, writeHead(head, 0, 0x60, body.length)), body])
}

function cborTexts(...texts: string[]): Buffer {
  return Buffer.concat([Buffer.from([0x80 + texts.length]), ...texts.map(cborText)])
}

function cborExtra(items: readonly Buffer[]): Buffer {
  if (items.length === 0) return Buffer.from([0xf6]) // null
  return Buffer.concat([Buffer.from([0x80 + items.length]), ...items])
}

/** CBOR's shortest head of a major type (already shifted) and a count. */
function writeHead(bytes: Buffer, at: number, major: number, count: number): number {
  if (count < 24) return bytes.writeUInt8(major | count, at)
  if (count < 256) return bytes.writeUInt8(count, bytes.writeUInt8(major | 24, at))
  if (count < 65536) return bytes.writeUInt16BE(count, bytes.writeUInt8(major | 25, at))
  return bytes.writeUInt32BE(count, bytes.writeUInt8(major | 26, at))
}
