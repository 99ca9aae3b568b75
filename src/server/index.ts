/** The HTTP front door: routes, streaming proxy, request lifecycle, admin. */
export { gatewayOptionsOf, modelRulesOf } from './from-config.js'
export { createGateway } from './gateway.js'
export type { Gateway, GatewayAddress } from './gateway.js'
export { hashKey } from './http/keys.js'
export type {
  AbsentWorker,
  AddedWorker,
  Deadlines,
  DisaggSpec,
  EndedRequest,
  GatewayOptions,
  HealthOptions,
  Limits,
  ListenOptions,
  Log,
  IndexFigures,
  ModelFigures,
  ModelSpec,
  PrefillPool,
  WorkerMode,
  WorkerRole,
  WorkerSpec,
  WorkerSteward,
} from './options.js'
export { workerRoles } from './options.js'
export { prefillPoolOf } from './pairs/index.js'
export { policyNames } from './policies/pick-rank.js'
export type { PolicyName } from './policies/pick-rank.js'
export { createPolicyRouter } from './policies/policy-router.js'
export type { PolicyRouterOptions } from './policies/policy-router.js'
export type { EndpointRow } from './request/endpoints.js'
export { howKnownWords } from './request/prompt.js'
export type { HowKnown, PromptRequest, PromptTokenizer, PromptTokens } from './request/prompt.js'
export { observeTokens } from './telemetry/token-meters.js'
export { createServiceTokenizer } from './request/service-tokenizer.js'
export type { OtherDialect, ParsedPrompt, ServiceTokenizerOptions } from './request/service-tokenizer.js'
export type { WorkerReport, WorkerState } from './workers/worker.js'
export { phaseOf, Turns } from './workers/phase.js'
export { roleOfLabels } from './workers/label-role.js'
export type { WorkerLabels } from './workers/label-role.js'
