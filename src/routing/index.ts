/** The router alive: what the server asks, and the router that answers. */
export type { PromptHashes, RankLoad, RouteAnswer, RouterPort, RouteRequest } from './router-port.js'
export { RequestGuard } from './request-guard.js'
export type { BookingPort, GuardedRequest, GuardEnd, GuardHooks, GuardSummary } from './request-guard.js'
export { WorkerMonitor } from './worker-monitor.js'
export type { Watched, WorkerMonitorOptions, WorkerMonitorPorts } from './worker-monitor.js'
export { parseRouterRequest, requestIdOr, stringifyRouterResponse } from './request-protocol.js'
export type { NewRequest, RouterRequest, RouterResponse } from './request-protocol.js'
export { AgentController } from './agent-controller.js'
export type {
  AgentControllerOptions,
  OpenSession,
  SessionControl,
  SessionPort,
  SessionReply,
} from './agent-controller.js'
export { decodeOverride, PrefillRouter, prefillRouterConfig } from './prefill-router.js'
export type { InnerRoute, PrefillRouterOptions } from './prefill-router.js'
