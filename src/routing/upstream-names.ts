/**
 * Names under which the original router speaks on a cluster's planes (lib/llm/src/kv_router.rs at v1.2.0). Kept exact: a
 * fleet may hold both of us.
 */

/** Endpoint that answers with load metrics. */
export const kvMetricsEndpoint = 'load_metrics'
/** Subject of load reports, in a namespace. */
export const kvMetricsSubject = 'kv_metrics'
export const prefillSubject = 'prefill_events'
/** Subject of bookings that replicas share, in a component. */
export const activeSequencesSubject = 'active_sequences_events'
/** Subject of sessions' workers that routers share, in a namespace (1.5.0-dev). */
export const sessionAffinitySubject = 'session_affinity_events'
export const radixStateBucket = 'radix-bucket'
export const radixStateFile = 'radix-state'
/** Events that a worker keeps for those who missed some. */
export const workerKvIndexerBufferSize = 1024
/** Endpoint under which a router registers itself in the workers' component. */
export const kvRouterEndpoint = 'router-discovery'

/** Where the index of one rank of a worker is asked. */
export function workerKvIndexerQueryEndpoint(dpRank: number): string {
  return `worker_kv_indexer_query_dp${dpRank}`
}

export interface EndpointId {
  readonly namespace: string
  readonly component: string
  readonly name: string
}

/** What discovery is asked for the routers that serve a component. */
export interface DiscoveryQuery {
  readonly kind: 'endpoint'
  readonly namespace: string
  readonly component: string
  readonly endpoint: string
}

export function routerDiscoveryQuery(namespace: string, component: string): DiscoveryQuery {
  return { kind: 'endpoint', namespace, component, endpoint: kvRouterEndpoint }
}

/** The endpoint of the routers that serve a component. */
export function routerEndpointId(namespace: string, component: string): EndpointId {
  return { namespace, component, name: kvRouterEndpoint }
}
