/** Disaggregated requests: a prefill on one worker, a decode on another, one lifetime. */
export { firstTokenMsMax } from './first-token.js'
export { PairedRequest } from './paired-request.js'
export type { PrefillAnswer } from './prefill-leg.js'
export type { PairOptions } from './prefill-runner.js'
export { prefillPoolOf, PrefillSide } from './prefill-side.js'
export type { PrefillSideOptions } from './prefill-side.js'
export type { SkipReason } from './skip-reason.js'
export { asStream, outputTokensOf } from './terminal-answer.js'
