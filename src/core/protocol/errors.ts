/** Every failure that a caller may have to handle. A code never changes once released; its sentence may. */

/** One sentence per code, in alphabetical order. `docs/reference/errors.md` says what to do about each. */
export const errorTexts = {
  WR_ALL_WORKERS_FILTERED: 'the selection policy filtered out every eligible worker',
  WR_ALL_WORKERS_OVERLOADED: 'all eligible workers are overloaded',
  WR_BODY_TIMEOUT: 'the request body did not arrive in time',
  WR_BODY_TOO_LARGE: 'the request body is too large',
  WR_BOOKING_FAILED: 'the request could not be placed',
  WR_BOOT_FAILED: 'the router could not start',
  WR_DUPLICATE_REQUEST: 'a request with this id is already booked',
  WR_ENGINE_DISCONNECTED: 'the connection to the worker broke',
  WR_ENGINE_PROTOCOL: "the worker's answer is not HTTP as expected",
  WR_ENGINE_TIMEOUT: 'the worker did not answer in time',
  WR_ENGINE_UNREACHABLE: 'the worker cannot be reached',
  WR_EXPECTATION_FAILED: 'an expectation that nobody can meet',
  WR_FORBIDDEN: 'this needs the admin key',
  WR_HEADERS_TIMEOUT: 'the request headers did not arrive in time',
  WR_HEADERS_TOO_LARGE: 'the request headers are too large',
  WR_INVALID_ARGUMENT: 'an argument is outside of what this call accepts',
  WR_INVALID_BODY: 'the request body cannot be used',
  WR_INVALID_CONFIG: 'the configuration breaks a rule',
  WR_INVALID_EVENT: 'a KV event cannot be read',
  WR_INVALID_HTTP: 'the request is not HTTP that can be read',
  WR_INVALID_JSON: 'a text is not valid JSON',
  WR_INVALID_LOG: 'a replay log cannot be read',
  WR_INVALID_PICKER_ROW: 'the selection policy picked a row that does not exist',
  WR_INVALID_TOKEN_ID: 'the model has no such token id',
  WR_METHOD_NOT_ALLOWED: 'this route has no such method',
  WR_MODEL_NOT_FOUND: 'Model not found',
  WR_MODEL_NOT_READY: 'the model is not ready to serve requests yet',
  WR_NON_FINITE_COST: 'the selection policy gave a cost that is not a finite number',
  WR_NOT_IMPLEMENTED: 'this is not supported',
  WR_NO_ENDPOINTS: 'no endpoints available to route work',
  WR_PINNED_WORKER_NOT_ALLOWED: 'the pinned worker is not in the allowed worker set',
  WR_PINNED_WORKER_OVERLOADED: 'the pinned worker is overloaded',
  WR_PREFILL_FAILED: 'the prompt could not be prefilled',
  WR_PREFILL_UNAVAILABLE: 'no prefill worker can serve',
  WR_QUEUE_REJECTED: 'the queue is full',
  WR_REQUEST_CANCELLED: 'Request cancelled',
  WR_REQUEST_NOT_FOUND: 'no request with this id is booked',
  WR_REQUEST_TIMEOUT: 'the request took too long',
  WR_RESPONSE_NOT_FOUND: 'the response is not kept by any worker',
  WR_ROUTER_CLOSED: 'the router is closed',
  WR_ROUTE_NOT_FOUND: 'Route not found',
  WR_ROUTING_LOOP: 'routers send this request to each other',
  WR_SELECTION_POLICY_FAILED: 'the selection policy failed',
  WR_SESSION_CAPACITY: 'no more sessions can be tracked',
  WR_SESSION_OPEN_FAILED: 'the worker did not open the session',
  WR_SESSION_TARGET_MISMATCH: 'the request names another worker than its session is bound to',
  WR_SHUTTING_DOWN: 'the service is shutting down',
  WR_SNAPSHOT_INVALID: 'an index snapshot cannot be used',
  WR_TIMEOUT: 'no answer came in time',
  WR_TOKENS_BAD_TOKENIZER: 'the tokenizer files of a model cannot be used',
  WR_TOKENS_BUSY: 'too many texts are waiting to be tokenised',
  WR_TOKENS_DEADLINE: 'a text was not tokenised in time',
  WR_TOKENS_SOURCE_FAILED: 'a source of tokens did not answer as it should',
  WR_TOKENS_TEMPLATE_FAILED: 'the chat template refused the request',
  WR_TOKENS_TEXT_TOO_LONG: 'a text is longer than is tokenised here',
  WR_TRACKER_FULL: 'the tracker of active requests is full',
  WR_TRACKING_HASH: 'the options of the tracking hash cannot be used',
  WR_UNAUTHORIZED: 'a valid API key is needed',
  WR_UNSUPPORTED_MEDIA_TYPE: 'Expected request with Content-Type application/json',
  WR_WORKER_NOT_FOUND: 'no such worker is tracked',
} as const

/**
 * The stable name of a failure.
 *
 * @example
 * import { type ErrorCode, WarmrouteError } from 'warmroute'
 *
 * const code: ErrorCode = 'WR_NO_ENDPOINTS'
 * console.log(new WarmrouteError(code).message) // => no endpoints available to route work
 */
export type ErrorCode = keyof typeof errorTexts

/**
 * A failure that a caller may have to handle.
 *
 * @example
 * import { createRouter, WarmrouteError } from 'warmroute'
 *
 * const router = await createRouter({ blockSize: 16 })
 * try {
 *   await router.route({ tokens: Uint32Array.of(1, 2, 3) })
 * } catch (error) {
 *   if (error instanceof WarmrouteError) console.log(error.code) // => WR_NO_ENDPOINTS
 * }
 * await router.close()
 */
export class WarmrouteError extends Error {
  override readonly name = 'WarmrouteError'
  readonly code: ErrorCode
  /** What a person needs to act: ids, the limit, the value that was refused. */
  readonly details: Readonly<Record<string, unknown>>

  constructor(code: ErrorCode, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super(sentence(code, details), options)
    this.code = code
    this.details = details
  }
}

/**
 * A rule of our own was broken: a bug. It ends the request or feed it happened in, is counted, and is never caught to carry on.
 *
 * @example
 * import { InvariantError } from 'warmroute/core'
 *
 * console.log(new InvariantError('a cursor only moves forward').name) // => InvariantError
 */
export class InvariantError extends Error {
  override readonly name = 'InvariantError'
}

export function invariant(holds: boolean, rule: string): asserts holds {
  if (!holds) throw new InvariantError(rule)
}

/** `details.reason` completes the sentence where the code alone would leave a person guessing. */
function sentence(code: ErrorCode, details: Record<string, unknown>): string {
  const reason = details['reason']
  return typeof reason === 'string' ? `${errorTexts[code]}: ${reason}` : errorTexts[code]
}
