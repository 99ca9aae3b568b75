/**
 * Events as bytes, in the form that each engine version publishes. Read back by the decoders of `engines/`; judged by the
 * recorded payloads, which come out again byte for byte.
 */
import { encode } from '@msgpack/msgpack'
import { publishedHash } from './block-chain.js'
import { versionNumber } from './engine-name.js'
import type { EngineName } from './engine-name.js'
import type { BlocksRemoved, BlocksStored, KvEvent } from './kv-event.js'

export interface WireForm {
  readonly engine: EngineName
  /** Which fields a stored event has, and whether it is a map or a positional array. */
  readonly version: number
  /** Whole digests as `bin` instead of 64-bit integers (vLLM with VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0). */
  readonly hashes: 'integers' | 'bytes'
  /** Whether replayed batches carry the topic: four frames instead of three. */
  readonly isTopicReplayed: boolean
}

export function wireForm(engine: EngineName, version: string, hashes: 'integers' | 'bytes' = 'integers'): WireForm {
  const number = versionNumber(version)
  const isTopicReplayed = number >= (engine === 'vllm' ? 26_000 : 5_019)
  return { engine, version: number, hashes: engine === 'vllm' ? hashes : 'integers', isTopicReplayed }
}

/** One published batch: `[unix seconds, events, rank]`. */
export function encodeBatch(form: WireForm, unixSeconds: number, events: readonly KvEvent[], rank: number): Uint8Array {
  // The clock of every publisher is a float; a whole second would otherwise become an integer on the wire.
  const seconds = Number.isInteger(unixSeconds) ? unixSeconds + 1e-6 : unixSeconds
  return encode([seconds, events.map((event) => eventValue(form, event)), rank], {
    useBigInt64: true,
    ignoreUndefined: true,
  })
}

function eventValue(form: WireForm, event: KvEvent): unknown {
  const isMap = form.version >= (form.engine === 'vllm' ? 24_000 : 5_019)
  if (event.kind === 'cleared') return isMap ? { type: 'AllBlocksCleared' } : ['AllBlocksCleared']
  const fields =
    event.kind === 'stored'
      ? form.engine === 'vllm'
        ? vllmStored(form, event)
        : sglangStored(form, event)
      : removed(form, event)
  const type = event.kind === 'stored' ? 'BlockStored' : 'BlockRemoved'
  return isMap ? { type, ...Object.fromEntries(fields) } : [type, ...fields.map(([, value]) => value)]
}

type Fields = [name: string, value: unknown][]

function vllmStored(form: WireForm, event: BlocksStored): Fields {
  const { version } = form
  const fields: Fields = [...commonStored(form, event), ['lora_id', event.loraId ?? null]]
  if (version >= 10_002) fields.push(['medium', event.medium])
  if (version >= 14_000) fields.push(['lora_name', event.loraName ?? null])
  if (version >= 17_000) fields.push(['extra_keys', event.hashes.map((_, index) => extraKeys(event, index))])
  if (version >= 20_000) fields.push(['group_idx', 0])
  if (version >= 22_000) fields.push(['kv_cache_spec_kind', 'full_attention'])
  if (version >= 22_000 && version < 24_000) fields.push(['kv_cache_spec_sliding_window', null])
  if (version >= 28_000 && event.sessionId !== undefined) fields.push(['session_id', event.sessionId])
  return fields
}

function sglangStored(form: WireForm, event: BlocksStored): Fields {
  const { version } = form
  const fields: Fields = [...commonStored(form, event), ['lora_id', null]]
  if (version >= 5_009) fields.push(['medium', event.medium])
  if (version === 5_018 && event.salt !== undefined) fields.push(['metadata', { cache_salt: event.salt }])
  if (version >= 5_019 && event.salt !== undefined) fields.push(['cache_salt', event.salt])
  if (version >= 5_019 && event.sessionId !== undefined) fields.push(['session_id', event.sessionId])
  return fields
}

function commonStored(form: WireForm, event: BlocksStored): Fields {
  return [
    ['block_hashes', event.hashes.map((digest) => hashValue(form, digest))],
    ['parent_block_hash', event.parent === undefined ? null : hashValue(form, event.parent)],
    ['token_ids', event.tokens],
    ['block_size', event.blockTokens],
  ]
}

function removed(form: WireForm, event: BlocksRemoved): Fields {
  const fields: Fields = [['block_hashes', event.hashes.map((digest) => hashValue(form, digest))]]
  const hasMedium = form.engine === 'vllm' ? form.version >= 10_002 : form.version >= 5_009
  if (hasMedium) fields.push(['medium', event.medium])
  if (form.engine === 'vllm' && form.version >= 20_000) fields.push(['group_idx', 0])
  return fields
}

function hashValue(form: WireForm, digest: Uint8Array): bigint | Uint8Array {
  return form.hashes === 'bytes' ? Uint8Array.from(digest) : publishedHash(form.engine, digest)
}

/** Adapter on every block, salt on the first: bare, though the hash was made of tagged pairs. */
function extraKeys(event: BlocksStored, index: number): string[] | null {
  const keys: string[] = []
  if (event.loraName !== undefined) keys.push(event.loraName)
  if (event.salt !== undefined && event.firstBlock + index === 0) keys.push(event.salt)
  return keys.length === 0 ? null : keys
}
