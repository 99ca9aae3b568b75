/** Disaggregated prefill: may a model serve, when is a remote prefill not worth it, and may its KV still be read? */
export { bootstrapRoom, bootstrapRooms } from './bootstrap-room.js'
export { bypassRemotePrefill } from './conditional.js'
export type { BypassReason, ConditionalFacts, ConditionalPolicy, ConditionalSettings } from './conditional.js'
export { PrefillLifecycle } from './prefill-lifecycle.js'
export type { PrefillLifecycleOptions, PrefillRoute } from './prefill-lifecycle.js'
export { TransferTicket } from './transfer-ticket.js'
export type { TicketAnswer, TicketTerms } from './transfer-ticket.js'
