/** Reads the core's short list of chunks that lookups passed most often. */
import { pathThrough } from './core-runs.js'
import { address, type IndexCore } from './index-core.js'
import type { HotPrefix } from './prefix-index.js'
import type { HotPath } from './shard.js'

const listed = 64
const shownMax = 16

interface Candidate {
  readonly prefix: HotPrefix
  readonly chunk: number
  readonly parentChunk: number
}

export function hottestOf(core: IndexCore): readonly HotPrefix[] {
  return hotCandidates(core).map((it) => it.prefix)
}

export function hotPathsOf(core: IndexCore): readonly HotPath[] {
  const view = new Uint32Array(core.memory.buffer)
  return hotCandidates(core).map(({ prefix, chunk }) => ({ prefix, path: pathThrough(view, chunk) }))
}

function hotCandidates(core: IndexCore): Candidate[] {
  const candidates: Candidate[] = []
  const view = new DataView(core.memory.buffer)
  for (let entry = 0; entry < listed; entry++) {
    const chunk = view.getUint32(address(core.hot()) + 8 * entry, true)
    if (chunk !== 0) candidates.push(...read(core, view, chunk))
  }
  // A prefix that leads to an almost equally hot longer one says nothing of its own.
  const shown = candidates.filter(
    (it) =>
      !candidates.some((longer) => longer.parentChunk === it.chunk && longer.prefix.finds >= 0.9 * it.prefix.finds),
  )
  return shown.sort((a, b) => b.prefix.finds - a.prefix.finds || b.prefix.depth - a.prefix.depth).slice(0, shownMax)
}

function read(core: IndexCore, view: DataView, chunk: number): Candidate[] {
  const len = view.getUint8(chunk + 8)
  const cap = view.getUint8(chunk + 9)
  const finds = view.getUint32(chunk + 12, true)
  if (cap === 0 || len === 0 || finds === 0) return []
  const local = chunk + 64 + 8 * (cap + len - 1)
  return [
    {
      chunk,
      parentChunk: (view.getUint32(chunk, true) & ~63) >>> 0,
      prefix: {
        finds,
        depth: view.getUint32(chunk + 40, true) + len,
        ranks: core.holdersOf(chunk + len - 1),
        localLo: view.getUint32(local, true),
        localHi: view.getUint32(local + 4, true),
      },
    },
  ]
}
