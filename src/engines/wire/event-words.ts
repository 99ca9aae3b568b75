/** Every word of the event wire that we act on, as bytes, so that reading a message builds no strings. */
import { attentionCode, eventKind, localityCode, ownershipCode, tierCode } from '../../events/index.js'
import { isRun } from './text-cache.js'

export const field = {
  unknown: 0,
  type: 1,
  blockHashes: 2,
  parent: 3,
  tokenIds: 4,
  blockSize: 5,
  medium: 6,
  adapterName: 7,
  salt: 8,
  extraKeys: 9,
  mediaInfos: 10,
  group: 11,
  attention: 12,
  locality: 13,
  ownership: 14,
  session: 15,
  adapterId: 16,
} as const

/** A closed set of words, found by length first. */
export class WordTable {
  readonly #byLength: { readonly run: Uint8Array; readonly code: number }[][] = []
  readonly #missing: number

  constructor(words: Readonly<Record<string, number>>, missing: number) {
    this.#missing = missing
    for (const [word, code] of Object.entries(words)) {
      const run = new TextEncoder().encode(word)
      ;(this.#byLength[run.length] ??= []).push({ run, code })
    }
  }

  find(bytes: Uint8Array, start: number, length: number): number {
    const candidates = this.#byLength[length]
    if (candidates === undefined) return this.#missing
    for (const { run, code } of candidates) if (isRun(bytes, start, length, run)) return code
    return this.#missing
  }
}

export const fieldNames = new WordTable(
  {
    type: field.type,
    block_hashes: field.blockHashes,
    parent_block_hash: field.parent,
    token_ids: field.tokenIds,
    block_size: field.blockSize,
    medium: field.medium,
    lora_name: field.adapterName,
    cache_salt: field.salt,
    extra_keys: field.extraKeys,
    block_mm_infos: field.mediaInfos,
    group_idx: field.group,
    kv_cache_spec_kind: field.attention,
    locality: field.locality,
    ownership: field.ownership,
    session_id: field.session,
    lora_id: field.adapterId,
  },
  field.unknown,
)

export const unknownKind = 255

export const kindNames = new WordTable(
  {
    BlockStored: eventKind.stored,
    BlockRemoved: eventKind.removed,
    AllBlocksCleared: eventKind.cleared,
    Ignored: eventKind.ignored,
  },
  unknownKind,
)

const upstreamMedia = {
  '': tierCode.device,
  GPU: tierCode.device,
  DEVICE: tierCode.device,
  CPU: tierCode.hostPinned,
  CPU_PINNED: tierCode.hostPinned,
  CPU_TIER1: tierCode.hostPinned,
  CPU_TIER2: tierCode.disk,
  DISK: tierCode.disk,
  NVME: tierCode.disk,
  STORAGE: tierCode.disk,
  EXTERNAL: tierCode.external,
  NETWORK: tierCode.external,
  REMOTE: tierCode.external,
  SHARED: tierCode.external,
}

/** Exactly the names that Dynamo's reader knows. Anything else is rejected, never taken for the device. */
export const upstreamMediumNames = new WordTable(upstreamMedia, tierCode.unknown)

/** Besides those, what stock connectors write: `cpu` (Mooncake store), `FS` and `OBJ` (vLLM v0.26 tiers). */
export const stockMediumNames = new WordTable(
  { ...upstreamMedia, cpu: tierCode.hostPinned, FS: tierCode.disk, OBJ: tierCode.disk },
  tierCode.unknown,
)

export const attentionNames = new WordTable(
  {
    full_attention: attentionCode.main,
    mla_attention: attentionCode.main,
    sink_full_attention: attentionCode.main,
    sliding_window: attentionCode.other,
    sliding_window_mla: attentionCode.other,
    mamba: attentionCode.other,
    chunked_local_attention: attentionCode.other,
    encoder_only_attention: attentionCode.other,
    cross_attention: attentionCode.other,
  },
  attentionCode.unknown,
)

export const localityNames = new WordTable(
  { LOCAL: localityCode.local, REMOTE: localityCode.remote },
  localityCode.unknown,
)

export const ownershipNames = new WordTable({ kvcr: ownershipCode.kvcr }, ownershipCode.unknown)

/** Dynamo's frontend marks salts that it forwards; the namespace is what follows. */
export const saltTag = 'dynamo-cache-salt:'
