/** Disaggregated prefill: may a model serve, where do its two sides meet, and when is a remote prefill not worth it? */
export { bootstrapRoom } from './bootstrap-room.js'
export { bypassRemotePrefill } from './conditional.js'
export type { BypassReason, ConditionalFacts, ConditionalPolicy, ConditionalSettings } from './conditional.js'
export { PrefillLifecycle } from './prefill-lifecycle.js'
export type { PrefillLifecycleOptions, PrefillRoute } from './prefill-lifecycle.js'
export { PrefillRendezvous } from './rendezvous.js'
export type { OnEndpoint } from './rendezvous.js'
