/** Policies that ask no cache: what a load balancer without an index does. Each is a yardstick, as small as it can be. */
import { drawsOf } from './draws.js'
import type { ReplayPolicy, ReplayRequest } from './replay.js'

/** The worker with the fewest requests in flight; ties are drawn, otherwise low ids would fill up first. */
export function leastLoaded(workers: number, seed: number): ReplayPolicy {
  const inFlight = new Uint32Array(workers)
  const draw = drawsOf(seed)
  return {
    route() {
      const least = Math.min(...inFlight)
      const ties = [...inFlight.keys()].filter((worker) => inFlight[worker] === least)
      const worker = ties[Math.floor(draw() * ties.length)]!
      inFlight[worker]!++
      return worker
    },
    finished: (_, worker) => void inFlight[worker]!--,
  }
}

/** Any worker, drawn. */
export function randomChoice(workers: number, seed: number): ReplayPolicy {
  const draw = drawsOf(seed)
  return { route: () => Math.floor(draw() * workers) }
}

const prefixTokens = 1024
const pointsPerWorker = 128

/** Consistent hashing on the first 1,024 tokens: equal beginnings meet on one worker, whatever its load. */
export function prefixHash(workers: number): ReplayPolicy {
  const ring = Array.from({ length: workers * pointsPerWorker }, (_, point) => ({
    at: mix(point + 1),
    worker: point % workers,
  })).sort((a, b) => a.at - b.at)
  let prefixBlocks = 1
  const hashOf = ({ blockKeys, index }: ReplayRequest): number => {
    // A key is equal only behind equal content, so the last key of the prefix stands for all of it.
    const last = Math.min(prefixBlocks, blockKeys.length) - 1
    return last < 0 ? mix(index) : mix(blockKeys[last]!)
  }
  return {
    start: ({ engine }) => void (prefixBlocks = Math.max(1, Math.floor(prefixTokens / engine.blockTokens))),
    route(request) {
      const hash = hashOf(request)
      let low = 0
      let high = ring.length
      while (low < high) {
        const middle = (low + high) >>> 1
        if (ring[middle]!.at < hash) low = middle + 1
        else high = middle
      }
      return ring[low % ring.length]!.worker
    },
  }
}

/** Spreads whole numbers over 32 bits (the finaliser of MurmurHash3). */
function mix(value: number): number {
  let bits = (value >>> 0) ^ Math.floor(value / 2 ** 32)
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return (bits ^ (bits >>> 16)) >>> 0
}
