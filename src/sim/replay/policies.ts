/** The policies of `warmroute replay`, by name. */
import type { RouterConfigInput } from '../../core/protocol/index.js'
import { WarmrouteError } from '../../core/protocol/index.js'
import { CorePolicy } from './core-policy.js'
import { PairPolicy } from './pair-policy.js'
import { leastLoaded, prefixHash, randomChoice } from './plain-policies.js'
import type { ReplayPolicy } from './replay.js'
import { roundRobin } from './round-robin.js'
import { severalRouters } from './several-routers.js'

export const policyNames = ['warm', 'dynamo', 'round-robin', 'least-loaded', 'random', 'prefix-hash'] as const
export type PolicyName = (typeof policyNames)[number]

export interface PolicyOptions {
  readonly workers: number
  readonly seed: number
  /** Replicas of the router, which do not share their bookings. */
  readonly routers: number
  /** The first workers only prefill, the others decode; 0: everybody does both. */
  readonly prefillWorkers?: number
  /** Settings of the router, over the policy's own; the others have none. */
  readonly settings: RouterConfigInput
}

/** Whether settings of the router mean anything to a policy. */
export function isRouterPolicy(name: PolicyName): name is 'warm' | 'dynamo' {
  return name === 'warm' || name === 'dynamo'
}

/** Throws `WR_INVALID_ARGUMENT` where a policy cannot route for such a fleet. */
export function judgePolicy(
  name: PolicyName,
  { workers, routers, prefillWorkers }: { workers: number; routers: number; prefillWorkers: number },
): void {
  if (prefillWorkers === 0) return
  if (prefillWorkers >= workers)
    refuse(`of ${workers} workers, ${prefillWorkers} only prefill: nobody is left to decode`)
  if (routers > 1) refuse('several routers of a fleet of pairs are not simulated')
  if (!isRouterPolicy(name) && name !== 'round-robin')
    refuse(`${name} does not know of prefill workers: take warm, dynamo or round-robin`)
}

export function createPolicy(name: PolicyName, options: PolicyOptions): ReplayPolicy {
  const { workers, seed, routers, settings, prefillWorkers = 0 } = options
  if (prefillWorkers > 0) return createPairPolicy(name, options, prefillWorkers)
  switch (name) {
    case 'warm':
    case 'dynamo': {
      const config = { ...configOf(name, routers), ...settings }
      const each = Array.from(
        { length: routers },
        (_, router) => new CorePolicy({ config, seed: seed + router * 7919 }),
      )
      return routers === 1 ? each[0]! : severalRouters(each)
    }
    case 'round-robin':
      return roundRobin(workers)
    case 'least-loaded':
      return leastLoaded(workers, seed)
    case 'random':
      return randomChoice(workers, seed)
    case 'prefix-hash':
      return prefixHash(workers)
  }
}

/** Policies that know of pairs: our own router, and taking turns on both sides. */
function createPairPolicy(name: PolicyName, options: PolicyOptions, prefillWorkers: number): ReplayPolicy {
  const { workers, seed, routers, settings } = options
  judgePolicy(name, { workers, routers, prefillWorkers })
  if (isRouterPolicy(name))
    return new PairPolicy({ prefillWorkers, config: { ...configOf(name, 1), ...settings }, seed })
  const prefill = roundRobin(prefillWorkers)
  const decode = roundRobin(workers - prefillWorkers)
  return {
    route: (request, nowMs) => prefill.route(request, nowMs),
    routeDecode: (request, nowMs) => prefillWorkers + decode.route(request, nowMs),
  }
}

function refuse(reason: string): never {
  throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason })
}

/** Nothing is parked by default, as in the recorded replays. Late binding trusts its bookings, so it is for one router. */
function configOf(name: 'warm' | 'dynamo', routers: number): RouterConfigInput {
  return name === 'dynamo'
    ? { policy: 'dynamo', routerQueueThreshold: undefined }
    : { policy: 'warm', routerLateBinding: routers === 1, routerQueueThreshold: undefined }
}
