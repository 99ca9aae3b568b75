/** What we know of each engine: how to recognise it, what it says on its wires, and what it wants to hear. */
export { predictCachedTokens, reusableTokens } from './cached-tokens.js'
export type { CachedTokensInput } from './cached-tokens.js'
export { engineKeepAliveMs, requestControls, takesRank } from './controls.js'
export type { ControlInput, RequestControls } from './controls.js'
export { detectEngine } from './detect.js'
export { engineErrorKinds, readEngineError, readFinishReason } from './engine-errors.js'
export type { EngineError, EngineErrorKind } from './engine-errors.js'
export { engineKinds, namesPairs, reachableEndpoint } from './engine-facts.js'
export type { AdapterFact, EngineFacts, EngineKind, EventSourceFact, Fact, ServedModel } from './engine-facts.js'
export { idFields } from './id-fields.js'
export type { IdField } from './id-fields.js'
export { probeSocketType } from './greeting.js'
export { readOrcaHeader, readSglangLoad, readSglangLoads, readVllmLoad } from './load-signals.js'
export type { RankLoad } from './load-signals.js'
export { HttpProbe } from './probe.js'
export type { HttpProbeOptions, Probe, ProbeReply } from './probe.js'
export { engineRoute } from './routes.js'
export { fatalValue, textLists, unboundedField } from './sglang/fatal-values.js'
export type { FatalValue } from './sglang/fatal-values.js'
export { Sighting } from './sighting.js'
export {
  canDecodeAlone,
  canPair,
  connectorOf,
  connectors,
  isSequential,
  leaseMarginMs,
  leaseMsOf,
} from './transfer/connector.js'
export type { Connector, TransferFacts } from './transfer/connector.js'
export {
  appointment,
  promptCount,
  releasingDecode,
  sequentialDecode,
  sequentialPrefill,
  unpairable,
} from './transfer/leg-bodies.js'
export type { Appointment, AppointmentInput, LegEdit } from './transfer/leg-bodies.js'
export { readTransferParams } from './transfer/read-params.js'
export { TrtllmPollReader } from './trtllm/poll-reader.js'
export { pollTrtllm } from './trtllm/poller.js'
export type { PollerOptions } from './trtllm/poller.js'
export { KvEventDecoder } from './wire/kv-event-decoder.js'
export type { WireDialect } from './wire/kv-event-decoder.js'
