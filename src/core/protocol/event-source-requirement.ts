/** Whether a router needs its workers' KV events, by what they do. Follows lib/llm/src/kv_router.rs of 1.5.0-dev. */
import type { RouterConfig } from './router-config.js'
import { shouldSubscribeToKvEvents } from './router-config.js'

export const workerRoles = ['aggregated', 'prefill', 'decode', 'encode'] as const
export type WorkerRole = (typeof workerRoles)[number]

/** `unknown`: nobody said what the workers do, so events are listened to wherever the settings allow it. */
export type EventSourceRequirement =
  | 'not_required'
  | 'cache_aware_routing'
  | 'conditional_disagg_decode_cache'
  | 'unknown'

export function eventSourceRequirement(role: WorkerRole | undefined, config: RouterConfig): EventSourceRequirement {
  if (role === undefined) return 'unknown'
  if (config.useRemoteIndexer || !shouldSubscribeToKvEvents(config)) return 'not_required'
  if (role === 'prefill' || role === 'aggregated') return 'cache_aware_routing'
  return role === 'decode' && config.conditionalDisaggEnabled ? 'conditional_disagg_decode_cache' : 'not_required'
}

export function needsEventSource(role: WorkerRole | undefined, config: RouterConfig): boolean {
  if (config.useRemoteIndexer || !shouldSubscribeToKvEvents(config)) return false
  return eventSourceRequirement(role, config) !== 'not_required'
}
