/** Settings that ask for a part which the router was not given: said once at start. */
import type { RouterConfig } from '../core/protocol/index.js'
import type { KvRouterOptions } from './kv-router-options.js'

/** Sentences for the log. */
export function missingParts(config: RouterConfig, options: KvRouterOptions<unknown>): string[] {
  const missing: [isMissing: boolean, sentence: string][] = [
    [
      config.routerPrefillLoadModel !== 'none' && !options.prefillLoadEstimator,
      'router_prefill_load_model is set and no estimator is given: prefill load will not fall with time',
    ],
    [
      config.sharedCacheType !== 'none' && !options.sharedCache,
      'shared_cache_type is set and no shared cache is given: nobody will be asked',
    ],
    [
      config.routerReplicaSync && !options.replica,
      'router_replica_sync is set and no way to peers is given: bookings stay here',
    ],
    [
      config.serveIndexer && !options.serveIndexer,
      'serve_indexer is set and no way to serve is given: the index stays here',
    ],
    [
      config.routerPolicyConfig !== undefined && !options.policies,
      'router_policy_config is set and no classes were read from it: one class holds all requests',
    ],
  ]
  return missing.flatMap(([isMissing, sentence]) => (isMissing ? [sentence] : []))
}
