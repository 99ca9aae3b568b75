/** The router alive: what the server asks, and the router that answers. */
export type { PromptEncoding, PromptHashes, RankLoad, RouteAnswer, RouterPort, RouteRequest } from './router-port.js'
export type { WaitSignal } from './wait-signal.js'
export { signalOf } from './wait-signal.js'
export { RequestGuard } from './request-guard.js'
export type { BookingPort, GuardedRequest, GuardEnd, GuardHooks, GuardSummary } from './request-guard.js'
export { WorkerMonitor } from './worker-monitor.js'
export type { Watched, WorkerMonitorOptions, WorkerMonitorPorts } from './worker-monitor.js'
export { parseRouterRequest, requestIdOr, stringifyRouterResponse } from './request-protocol.js'
export type { NewRequest, RequestContext, RouterRequest, RouterResponse } from './request-protocol.js'
export { InProcessAffinityCarrier } from './affinity-carrier.js'
export type { AffinityCarrier, AffinityLink, AffinityPhase, AffinityTopic } from './affinity-carrier.js'
export { AgentController } from './agent-controller.js'
export type {
  AgentControllerOptions,
  OpenSession,
  SessionControl,
  SessionPort,
  SessionReply,
  SessionUse,
} from './agent-controller.js'
export { decodeOverride, PrefillRouter, prefillRouterConfig } from './prefill-router.js'
export type { InnerRoute, PrefillRouterOptions } from './prefill-router.js'
export { roundedOverlapBlocks } from './best-match.js'
export type { BestMatchDetails, FindBestMatch, WorkerCacheHitEstimate } from './best-match.js'
export type { RuntimeConfigWatch } from './boot-wait.js'
export { InProcessRouter } from './in-process-router.js'
export type { InProcessRouterOptions } from './in-process-router.js'
export { KvRouter } from './kv-router.js'
export type { AddRequest, PromptQuestion } from './kv-router.js'
export type { Closeable, EventIntake, KvRouterOptions, ServedIndex } from './kv-router-options.js'
export { answerRouterRequest, handleRouterRequest } from './request-handler.js'
export { realClock, realRandomness, silentLog } from './router-ports.js'
export type {
  Randomness,
  RemoteIndexPort,
  RemoteMatch,
  RouterClock,
  RouterLog,
  RouterObserver,
  RoutingTimes,
  SharedCachePort,
} from './router-ports.js'
export { WorkerRegistry } from './worker-registry.js'
export { replayRouterLog } from './replay-log.js'
export { exportEventCounts, exportLoads, exportPrefillLearning, newMetricsObserver } from './metrics-observer.js'
export { createRouter } from './create-router.js'
export type { Placement, RouteOptions, Router, RouterOptions, WorkerOptions } from './create-router.js'
export type { Receipt } from './receipt.js'
export {
  activeSequencesSubject,
  kvMetricsEndpoint,
  kvMetricsSubject,
  kvRouterEndpoint,
  prefillSubject,
  radixStateBucket,
  radixStateFile,
  routerDiscoveryQuery,
  routerEndpointId,
  sessionAffinitySubject,
  workerKvIndexerBufferSize,
  workerKvIndexerQueryEndpoint,
} from './upstream-names.js'
export type { DiscoveryQuery, EndpointId } from './upstream-names.js'
