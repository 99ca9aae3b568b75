/** The synchronous decision: hashes, caches and loads in; picked, parked or refused out, with the booking made. */
export type { Decision, Dispatch, Picked, Refused } from './decision.js'
export type { Moment } from './moment.js'
export type { ParkedRequest } from './parked-request.js'
export type { PrefillEstimator } from './prefill-hint.js'
export type { Receipt, ReceiptRow } from './receipt.js'
export { RouterCore } from './router-core.js'
export type { RouterCoreOptions, RouterInputs, WorkerFlags } from './router-core.js'
export type { SchedulingRequest } from './scheduling-request.js'
