import { expect, it } from 'vitest'
import * as names from './upstream-names.js'

it('are as the original has them', () => {
  const { workerKvIndexerQueryEndpoint, routerDiscoveryQuery, routerEndpointId, ...constants } = names
  expect(constants).toEqual({
    kvMetricsEndpoint: 'load_metrics',
    kvMetricsSubject: 'kv_metrics',
    prefillSubject: 'prefill_events',
    activeSequencesSubject: 'active_sequences_events',
    radixStateBucket: 'radix-bucket',
    radixStateFile: 'radix-state',
    sessionAffinitySubject: 'session_affinity_events',
    workerKvIndexerBufferSize: 1024,
    kvRouterEndpoint: 'router-discovery',
  })
  expect(workerKvIndexerQueryEndpoint(3)).toBe('worker_kv_indexer_query_dp3')
  expect(routerEndpointId('ns', 'backend')).toEqual({ namespace: 'ns', component: 'backend', name: 'router-discovery' })
  expect(routerDiscoveryQuery('ns', 'workers')).toEqual({
    kind: 'endpoint',
    namespace: 'ns',
    component: 'workers',
    endpoint: 'router-discovery',
  })
})
