/** The recorded and published hash vectors, read once for every test that judges by them. */
import { readFileSync } from 'node:fs'
import { createBlockHasher } from './index.js'

export interface BlockVector {
  readonly id: string
  readonly tokens: readonly number[]
  readonly block_size: number
  readonly options: {
    readonly lora_name?: string
    readonly cache_namespace?: string
    readonly is_eagle?: boolean
    readonly block_mm_hashes?: readonly (readonly string[] | null)[]
  }
  readonly seed: string
  readonly local_hashes: readonly string[]
  readonly sequence_hashes: readonly string[]
}

export interface KeyedVector {
  readonly origin: string
  readonly key_hex: string
  readonly key_id: string
  readonly model_name: string
  readonly routing_group: string
  readonly block_size: number
  readonly cache_namespace: string | null
  readonly lora_name: string | null
  readonly is_eagle: boolean
  readonly tokens: readonly number[]
  readonly block_mm_hashes: readonly (readonly string[] | null)[] | null
  readonly block_seed: string
  readonly chain_seed: string
  readonly sequence_hashes: readonly string[]
}

interface Vectors {
  readonly xxh3_raw: readonly { readonly data_utf8: string; readonly seed: string; readonly hash: string }[]
  readonly seeds: readonly {
    readonly cache_namespace: string | null
    readonly lora_name: string | null
    readonly seed: string
  }[]
  readonly blocks: readonly BlockVector[]
  readonly chains: readonly { readonly local_hashes: readonly string[]; readonly sequence_hashes: readonly string[] }[]
  readonly pad_values: readonly { readonly mm_hash: string; readonly pad_value: number }[]
  readonly pad_value_block: {
    readonly tokens_after_substitution: readonly number[]
    readonly block_size: number
    readonly local_hash: string
  }
  readonly tracking_keyed: readonly KeyedVector[]
  readonly sglang_page_hashes: readonly {
    readonly origin: string
    readonly tokens: readonly number[]
    readonly page_size: number
    readonly is_eagle: boolean
    readonly page_hashes: readonly string[]
  }[]
  readonly residency_owner_keys: readonly {
    readonly worker_id: string
    readonly dp_rank: number
    readonly key_hex: string
  }[]
  readonly kv_hashing_mm_frames: readonly {
    readonly description: string
    readonly block_size: number
    readonly tokens: readonly number[]
    readonly mm_runs: readonly { readonly mm_hash: string; readonly offset: number; readonly length: number }[]
    readonly block_hashes: readonly string[]
    readonly sequence_hashes: readonly string[]
  }[]
  readonly positional_lineage: {
    readonly entries: readonly { readonly position: number; readonly plh_hex: string }[]
  }
}

interface LiveVector {
  readonly block_size: number
  readonly token_ids: readonly number[]
  readonly tokens_hash: readonly string[]
  readonly block_hash: readonly string[]
}

const read = (path: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../../test/fixtures/${path}`, import.meta.url), 'utf8'))

export const vectors = read('spec/block-hashes.json') as Vectors
/** By version of the live system. */
export const liveVectors = Object.entries(read('dynamo/hash-vectors.json') as Record<string, LiveVector>)

/** Both implementations, for `describe.each`. */
export const hashers = (['wasm', 'ts'] as const).map((backend) => createBlockHasher({ backend }))

export const toInfos = (blocks: readonly (readonly string[] | null)[] | null | undefined) =>
  blocks?.map((hashes) => hashes && { mmObjects: hashes.map((hash) => ({ mmHash: BigInt(hash), offsets: [] })) })
