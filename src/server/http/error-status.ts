/** One table from our error codes to HTTP status, and from a status to the words that each API uses for it. */
import type { ErrorCode } from '../../core/protocol/index.js'
import { WarmrouteError } from '../../core/protocol/index.js'

/** `overload` is replaced by the configured status. 500: a fault of ours, or one that no request can cause. */
export const errorStatus: Readonly<Record<ErrorCode, number | 'overload'>> = {
  WR_ALL_WORKERS_FILTERED: 503,
  WR_ALL_WORKERS_OVERLOADED: 'overload',
  WR_BODY_TIMEOUT: 408,
  WR_BODY_TOO_LARGE: 413,
  WR_BOOKING_FAILED: 500,
  WR_BOOT_FAILED: 500,
  WR_DUPLICATE_REQUEST: 409,
  WR_ENGINE_DISCONNECTED: 502,
  WR_ENGINE_PROTOCOL: 502,
  WR_ENGINE_TIMEOUT: 504,
  WR_ENGINE_UNREACHABLE: 503,
  WR_EXPECTATION_FAILED: 417,
  WR_FORBIDDEN: 403,
  WR_HEADERS_TIMEOUT: 408,
  WR_HEADERS_TOO_LARGE: 431,
  WR_INVALID_ARGUMENT: 400,
  WR_INVALID_BODY: 400,
  WR_INVALID_CONFIG: 500,
  WR_INVALID_EVENT: 500,
  WR_INVALID_HTTP: 400,
  WR_INVALID_JSON: 400,
  WR_INVALID_LOG: 500,
  WR_INVALID_PICKER_ROW: 500,
  WR_INVALID_TOKEN_ID: 400,
  WR_METHOD_NOT_ALLOWED: 405,
  WR_MODEL_NOT_FOUND: 404,
  WR_MODEL_NOT_READY: 503,
  WR_NON_FINITE_COST: 500,
  WR_NOT_IMPLEMENTED: 501,
  WR_NO_ENDPOINTS: 503,
  WR_PINNED_WORKER_NOT_ALLOWED: 400,
  WR_PINNED_WORKER_OVERLOADED: 'overload',
  WR_PREFILL_FAILED: 502,
  WR_PREFILL_UNAVAILABLE: 503,
  WR_QUEUE_REJECTED: 'overload',
  WR_REQUEST_CANCELLED: 499,
  WR_REQUEST_NOT_FOUND: 404,
  WR_REQUEST_TIMEOUT: 504,
  WR_RESPONSE_NOT_FOUND: 404,
  WR_ROUTER_CLOSED: 503,
  WR_ROUTE_NOT_FOUND: 404,
  WR_ROUTING_LOOP: 508,
  WR_SELECTION_POLICY_FAILED: 500,
  WR_SESSION_CAPACITY: 'overload',
  WR_SESSION_OPEN_FAILED: 502,
  WR_SESSION_TARGET_MISMATCH: 400,
  WR_SHUTTING_DOWN: 503,
  WR_SNAPSHOT_INVALID: 500,
  WR_TIMEOUT: 504,
  WR_TOKENS_BAD_TOKENIZER: 400,
  WR_TOKENS_BUSY: 503,
  WR_TOKENS_DEADLINE: 503,
  WR_TOKENS_SOURCE_FAILED: 500,
  WR_TOKENS_TEMPLATE_FAILED: 400,
  WR_TOKENS_TEXT_TOO_LONG: 400,
  WR_TRACKER_FULL: 'overload',
  WR_TRACKING_HASH: 500,
  WR_UNAUTHORIZED: 401,
  WR_UNSUPPORTED_MEDIA_TYPE: 415,
  WR_WORKER_NOT_FOUND: 404,
}

export function statusOf(error: unknown, overloadStatus: number): number {
  const entry = error instanceof WarmrouteError ? errorStatus[error.code] : undefined
  return entry === 'overload' ? overloadStatus : (entry ?? 500)
}

/** Whatever status the operator gave it: others may have the same. */
export function isOverload(error: unknown): boolean {
  return error instanceof WarmrouteError && errorStatus[error.code] === 'overload'
}

/** OpenAI's `error.type`. `isBusy`: of an overload, whatever its status; others may have the same. */
export function openAiType(status: number, isBusy: boolean): string {
  if (isBusy) return 'overloaded_error'
  if (status === 401) return 'authentication_error'
  if (status === 403) return 'permission_error'
  if (status === 404) return 'not_found_error'
  if (status === 429) return 'rate_limit_error'
  if (status === 499) return 'request_cancelled'
  if (status === 503) return 'service_unavailable'
  return status < 500 ? 'invalid_request_error' : 'server_error'
}

/** Anthropic's `error.type` (spec 1.4). */
export function anthropicType(status: number, isBusy: boolean): string {
  return isBusy ? 'overloaded_error' : (anthropicTypes[status] ?? 'api_error')
}

const anthropicTypes: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  499: 'request_cancelled',
  503: 'overloaded_error',
  529: 'overloaded_error',
}

/** Upstream's flat `type`: the reason phrase. */
export function dynamoType(status: number, isBusy: boolean): string {
  if (isBusy && status !== 503) return 'Overloaded'
  return phrases[status] ?? 'UnknownError'
}

const phrases: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  409: 'Conflict',
  413: 'Payload Too Large',
  415: 'Unsupported Media Type',
  417: 'Expectation Failed',
  422: 'Unprocessable Entity',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  499: 'Client Closed Request',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
  508: 'Loop Detected',
  529: 'Overloaded',
}
