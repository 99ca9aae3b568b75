/** The policies of `warmroute replay`, by name. */
import type { RouterConfigInput } from '../../core/protocol/index.js'
import { CorePolicy } from './core-policy.js'
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
  /** Settings of the router, over the policy's own; the others have none. */
  readonly settings: RouterConfigInput
}

/** Whether settings of the router mean anything to a policy. */
export function isRouterPolicy(name: PolicyName): name is 'warm' | 'dynamo' {
  return name === 'warm' || name === 'dynamo'
}

export function createPolicy(name: PolicyName, options: PolicyOptions): ReplayPolicy {
  const { workers, seed, routers, settings } = options
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

/** Nothing is parked by default, as in the recorded replays. Late binding trusts its bookings, so it is for one router. */
function configOf(name: 'warm' | 'dynamo', routers: number): RouterConfigInput {
  return name === 'dynamo'
    ? { policy: 'dynamo', routerQueueThreshold: undefined }
    : { policy: 'warm', routerLateBinding: routers === 1, routerQueueThreshold: undefined }
}
