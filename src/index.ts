/** Sends every LLM request to the worker whose KV cache is already warm for it. */
export { WarmrouteError } from './core/protocol/index.js'
export type { ErrorCode, RouterConfigInput } from './core/protocol/index.js'
export { createRouter } from './routing/index.js'
export type { Placement, Receipt, RouteOptions, Router, RouterOptions, WorkerOptions } from './routing/index.js'
