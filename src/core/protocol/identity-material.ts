/**
 * What the digest of an identity is made of (Dynamo `lib/kv-router/src/identity.rs`): a tag and strings, each behind its
 * length, so that no two lists of strings give the same bytes. Which digest is taken of it is the caller's.
 */
import { WarmrouteError } from './errors.js'

export type IdentityTag =
  | 'dynamo/indexer-cache-semantics/default/v1'
  | 'dynamo/indexer-cache-semantics/explicit/v1'
  | 'dynamo/indexer-routing-scope/default/v1'
  | 'dynamo/indexer-routing-scope/explicit/v1'
  | 'dynamo/stable-dp-slot/explicit/v1'

const entriesMax = 32
const keyBytesMax = 128
const valueBytesMax = 1024
const encoder = new TextEncoder()

/** An identity that a person wrote out, as pairs: sorted by key, so that the order of writing does not matter. Throws on bad ones. */
export function explicitMaterial(tag: IdentityTag, pairs: readonly (readonly [string, string])[]): Uint8Array {
  if (pairs.length < 1 || pairs.length > entriesMax)
    throw refused(`an identity has 1 to ${entriesMax} entries`, pairs.length)
  const keys = new Set<string>()
  for (const [key, value] of pairs) {
    if (keys.has(key)) throw refused('an identity names a key twice', key)
    keys.add(key)
    requireBytes(`a key has 1 to ${keyBytesMax} bytes`, key, keyBytesMax)
    requireBytes(`a value has 1 to ${valueBytesMax} bytes`, value, valueBytesMax)
  }
  const sorted = [...pairs].sort(([a], [b]) => compareBytes(encoder.encode(a), encoder.encode(b)))
  return material(tag, pairs.length, sorted.flat())
}

/** An identity derived from defaults: the values in their order. */
export function defaultMaterial(tag: IdentityTag, values: readonly string[]): Uint8Array {
  return material(tag, values.length, values)
}

/** Cache semantics also depend on the block size and on how events name blocks. */
export function withCacheSemantics(identity: Uint8Array, blockSize: number, eventHashFormat: number): Uint8Array {
  const bytes = new Uint8Array(identity.length + 6)
  bytes.set(identity)
  const view = new DataView(bytes.buffer)
  view.setUint32(identity.length, blockSize, true)
  view.setUint16(identity.length + 4, eventHashFormat, true)
  return bytes
}

function material(tag: IdentityTag, count: number, strings: readonly string[]): Uint8Array {
  const parts = [framed(tag), u32(count), ...strings.map(framed)]
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}

function framed(text: string): Uint8Array {
  const body = encoder.encode(text)
  const bytes = new Uint8Array(4 + body.length)
  bytes.set(u32(body.length))
  bytes.set(body, 4)
  return bytes
}

function u32(value: number): Uint8Array {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, value, true)
  return bytes
}

function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const shorter = Math.min(a.length, b.length)
  for (let i = 0; i < shorter; i++) if (a[i] !== b[i]) return a[i]! - b[i]!
  return a.length - b.length
}

function requireBytes(rule: string, text: string, max: number): void {
  const { length } = encoder.encode(text)
  if (length < 1 || length > max) throw refused(rule, length)
}

function refused(reason: string, value: unknown): WarmrouteError {
  return new WarmrouteError('WR_INVALID_ARGUMENT', { reason, value })
}
