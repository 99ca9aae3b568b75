/** Looks at the buckets of many names before the first is needed, so that their cache misses overlap. */
import { OVERFLOW, bucketAt, homeOf, scale } from './buckets'
import { mix } from './mix'
import { bucketsOf, nextPagesOf, pagesOf } from './ranks'

export const STEP: u32 = 64
/** Hash and home bucket of each name of the step at hand. */
export const HASHES: usize = memory.data(64 * 8)
export const HOMES: usize = memory.data(64 * 4)

let sink: u32 = 0

/** Keeps the loads alive: the optimiser may not drop what somebody could ask for. */
export function touched(): u32 {
  return sink
}

/** At most STEP names; the rank has a table. */
@inline export function touchHomes(record: usize, externals: usize, count: u32): void {
  let sum: u32 = 0
  if (nextPagesOf(record)) {
    for (let i: u32 = 0; i < count; i++) {
      const hash = mix(load<u64>(externals + (i << 3)))
      const home = homeOf(record, hash)
      store<u64>(HASHES + (i << 3), hash)
      store<u32>(HOMES + (i << 2), <u32>home)
      sum += load<u8>(home, OVERFLOW)
    }
  } else {
    const buckets = bucketsOf(record)
    const pages = pagesOf(record)
    for (let i: u32 = 0; i < count; i++) {
      const hash = mix(load<u64>(externals + (i << 3)))
      const home = bucketAt(pages, scale(hash, buckets))
      store<u64>(HASHES + (i << 3), hash)
      store<u32>(HOMES + (i << 2), <u32>home)
      sum += load<u8>(home, OVERFLOW)
    }
  }
  sink += sum
}
