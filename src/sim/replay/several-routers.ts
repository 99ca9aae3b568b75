/**
 * Router replicas that do not tell each other of their bookings: requests go to them in turn, every one hears all events,
 * and each knows the load of its own requests alone.
 */
import type { ReplayPolicy, ReplayRequest } from './replay.js'

export function severalRouters(routers: readonly ReplayPolicy[]): ReplayPolicy {
  const ownerOf = (request: ReplayRequest): ReplayPolicy => routers[request.index % routers.length]!
  return {
    route: (request, nowMs) => ownerOf(request).route(request, nowMs),
    start(fleet) {
      for (const router of routers) router.start?.(fleet)
    },
    stored(worker, keys, parent, nowMs) {
      for (const router of routers) router.stored?.(worker, keys, parent, nowMs)
    },
    removed(worker, key, nowMs) {
      for (const router of routers) router.removed?.(worker, key, nowMs)
    },
    firstToken: (request, worker, nowMs) => ownerOf(request).firstToken?.(request, worker, nowMs),
    outputBlock: (request, worker, blocks, nowMs) => ownerOf(request).outputBlock?.(request, worker, blocks, nowMs),
    finished: (request, worker, nowMs) => ownerOf(request).finished?.(request, worker, nowMs),
  }
}
