/** Builds an exact index: WebAssembly where it runs, its TypeScript twin elsewhere, in as many shards as asked for. */
import { WarmrouteError } from '../protocol/index.js'
import type { IndexOptions, PrefixIndex } from './prefix-index.js'
import type { Shard, ShardOptions } from './shard.js'
import { ShardedIndex } from './sharded-index.js'
import { TsIndex } from './ts-index.js'
import { WasmIndex } from './wasm-index.js'

const shardsMax = 64

export interface PrefixIndexOptions extends IndexOptions {
  /** `auto` takes WebAssembly if it can run. */
  readonly implementation?: 'auto' | 'wasm' | 'ts'
  /** One WebAssembly memory holds about 100 M blocks; more shards hold more, and each lookup asks all of them. */
  readonly shards?: number
}

/**
 * An empty index of who holds which prefix; `KvIndex` puts tiers and predictions around it.
 *
 * @example
 * import { createPrefixIndex, KvIndex, RankTable } from 'warmroute/core'
 *
 * const device = createPrefixIndex({ seedLo: 1, seedHi: 2 })
 * const index = new KvIndex({ ranks: new RankTable(), device, startMs: 0, seed: 7 })
 * console.log(index.stats().device.heldBlocks) // => 0
 */
export function createPrefixIndex(options: PrefixIndexOptions): PrefixIndex {
  const { implementation = 'auto', shards = 1, ...rest } = options
  if (!Number.isInteger(shards) || shards < 1 || shards > shardsMax) {
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `shards must be 1 to ${shardsMax}`, shards })
  }
  const make = (own: ShardOptions): Shard => {
    const wasm = implementation === 'ts' ? undefined : WasmIndex.create(own)
    if (!wasm && implementation === 'wasm') {
      throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'WebAssembly with SIMD cannot run here' })
    }
    return wasm ?? new TsIndex(own)
  }
  if (shards === 1) return make(rest)
  return new ShardedIndex(shards, rest, () => make({ ...rest, isShard: true }))
}
