/** Sends every LLM request to the worker whose KV cache is already warm for it. */
export { WarmrouteError } from './core/protocol/index.js'
export type { ErrorCode, RouterConfigInput } from './core/protocol/index.js'
export type { Receipt } from './core/router/index.js'
export { createRouter } from './routing/index.js'
export type { Placement, RouteOptions, Router, RouterOptions, WorkerOptions } from './routing/index.js'
