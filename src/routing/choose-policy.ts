/** Which worker-selection policy a router uses: the one its stage names, else the one of its workers' role, else none. */
import type { RouterConfig } from '../core/protocol/index.js'
import { WarmrouteError } from '../core/protocol/index.js'
import type { SelectionPolicy } from '../core/selection/index.js'
import { parseWorkerSelection } from '../core/selection/index.js'
import type { KvRouterOptions } from './kv-router-options.js'

/**
 * Undefined: the built-in selection, or a selector of one's own. Throws `WR_INVALID_CONFIG` for a policy that is named and
 * not there: choosing by another one would be a silent lie.
 */
export function chooseSelectionPolicy(
  config: RouterConfig,
  options: KvRouterOptions<unknown>,
): SelectionPolicy | undefined {
  if (options.selector) return undefined
  const { policies, selectionPolicyTypes = new Map<string, never>(), workerType } = options
  const role = options.workerRole ?? (workerType === 'prefill' ? 'prefill' : 'aggregated')
  const { byRole, instances } = parseWorkerSelection(policies?.workerSelection, selectionPolicyTypes)
  const name = role === 'prefill' ? config.routerPrefillPolicy : config.routerDecodePolicy
  if (name === undefined) return byRole.get(role)
  const policy = instances.get(name)
  if (policy) return policy
  const known = instances.size === 0 ? 'none is' : `given are ${[...instances.keys()].join(', ')}`
  throw new WarmrouteError('WR_INVALID_CONFIG', {
    reason: `the worker-selection policy ${name} is not given; ${known}`,
  })
}
