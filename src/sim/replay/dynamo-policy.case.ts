/**
 * Upstream's default cost over the harness's hooks, as plainly as it can be written: sets, maps and a scan. It shows that the
 * hooks carry what a KV router needs; the product's own router is judged elsewhere.
 */
import type { ReplayPolicy, ReplayRequest } from './replay.js'

interface Placed {
  readonly worker: number
  readonly prefillTokens: number
}

/** cost = max(0, (booked prefill + prompt) / block - cached blocks) + active blocks + own blocks that are not active yet. */
export function plainKvRouter(workers: number, blockTokens: number, seed: number): ReplayPolicy {
  const cached = Array.from({ length: workers }, () => new Set<number>())
  const active = Array.from({ length: workers }, () => new Map<number, number>())
  const prefill = new Float64Array(workers)
  const placed = new Map<number, Placed>()
  const draw = drawer(seed)

  const depthIn = (keys: Float64Array, holds: { has(key: number): boolean }): number => {
    let depth = 0
    while (depth < keys.length && holds.has(keys[depth]!)) depth++
    return depth
  }
  const costOf = (request: ReplayRequest, worker: number): number => {
    const { blockKeys, promptTokens } = request
    const work = (prefill[worker]! + promptTokens) / blockTokens - depthIn(blockKeys, cached[worker]!)
    const fresh = blockKeys.length - depthIn(blockKeys, active[worker]!)
    return Math.max(0, work) + active[worker]!.size + fresh
  }
  return {
    route(request) {
      const costs = Array.from({ length: workers }, (_, worker) => costOf(request, worker))
      const least = Math.min(...costs)
      const ties = costs.flatMap((cost, worker) => (cost === least ? [worker] : []))
      const worker = ties[Math.floor(draw() * ties.length)]! // never by id: low ids would fill up first
      const cachedTokens = depthIn(request.blockKeys, cached[worker]!) * blockTokens
      placed.set(request.index, { worker, prefillTokens: request.promptTokens - cachedTokens })
      prefill[worker]! += request.promptTokens - cachedTokens
      for (const key of request.blockKeys) active[worker]!.set(key, (active[worker]!.get(key) ?? 0) + 1)
      return worker
    },
    stored(worker, keys) {
      for (const key of keys) cached[worker]!.add(key)
    },
    removed(worker, key) {
      cached[worker]!.delete(key)
    },
    firstToken(request) {
      const { worker, prefillTokens } = placed.get(request.index)!
      prefill[worker]! -= prefillTokens
    },
    finished(request) {
      const { worker } = placed.get(request.index)!
      placed.delete(request.index)
      for (const key of request.blockKeys) {
        const left = active[worker]!.get(key)! - 1
        if (left === 0) active[worker]!.delete(key)
        else active[worker]!.set(key, left)
      }
    },
  }
}

function drawer(seed: number): () => number {
  let state = (seed * 7919) >>> 0 || 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    state >>>= 0
    return state / 4294967296
  }
}
