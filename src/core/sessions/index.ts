/** Which worker a session belongs to: sticky sessions, and affinity that requests of one session wait for. */
export { AffinityCoordinator } from './affinity-coordinator.js'
export type {
  Acquired,
  AcquireRequest,
  AffinityEvent,
  AffinityLease,
  AffinityOptions,
  AffinityTarget,
} from './affinity-coordinator.js'
export { reapIntervalMs, StickySessions } from './sticky-sessions.js'
export type { SessionStore, StickyBinding, StickySessionsOptions } from './sticky-sessions.js'
