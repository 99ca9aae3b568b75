import { describe, expect, it } from 'vitest'
import type { ErrorCode } from '../../core/protocol/index.js'
import { WarmrouteError } from '../../core/protocol/index.js'
import { refusal } from './engine-refusal.js'
import type { ErrorShape } from './error-body.js'
import { errorAnswer, errorFrames } from './error-body.js'
import { errorStatus } from './error-status.js'

const overloadCodes = [
  'WR_ALL_WORKERS_OVERLOADED',
  'WR_PINNED_WORKER_OVERLOADED',
  'WR_QUEUE_REJECTED',
  'WR_SESSION_CAPACITY',
  'WR_TRACKER_FULL',
] as const
const unavailableCodes = [
  'WR_ALL_WORKERS_FILTERED',
  'WR_ENGINE_UNREACHABLE',
  'WR_MODEL_NOT_READY',
  'WR_NO_ENDPOINTS',
  'WR_PREFILL_UNAVAILABLE',
  'WR_ROUTER_CLOSED',
  'WR_SHUTTING_DOWN',
  'WR_TOKENS_BUSY',
  'WR_TOKENS_DEADLINE',
] as const

function said(
  code: ErrorCode,
  shape: ErrorShape,
  overloadStatus: number,
): Record<string, unknown> & { status: number } {
  const { status, body, retryAfter } = errorAnswer(new WarmrouteError(code), shape, overloadStatus)
  const value = JSON.parse(body) as { error?: { type: string }; type: string; message?: string; code?: number }
  return { status, type: value.error?.type ?? value.type, retryAfter, message: value.message }
}

it('every code with such a status is in one of the two lists', () => {
  const codes = Object.entries(errorStatus).filter(([, status]) => status === 'overload' || status === 503)
  expect(codes.map(([code]) => code)).toEqual([...overloadCodes, ...unavailableCodes].sort())
})

describe.each([529, 503, 420])('overload has status %d', (overloadStatus) => {
  it.each(overloadCodes)('%s is overload', (code) => {
    const common = { status: overloadStatus, retryAfter: 1 }
    expect(said(code, 'openai', overloadStatus)).toMatchObject({ ...common, type: 'overloaded_error' })
    expect(said(code, 'anthropic', overloadStatus)).toMatchObject({ ...common, type: 'overloaded_error' })
    expect(said(code, 'dynamo', overloadStatus)).toMatchObject({
      ...common,
      type: overloadStatus === 503 ? 'Service Unavailable' : 'Overloaded',
    })
  })

  it.each(unavailableCodes)('%s is not', (code) => {
    const common = { status: 503, retryAfter: 1 }
    expect(said(code, 'openai', overloadStatus)).toMatchObject({ ...common, type: 'service_unavailable' })
    expect(said(code, 'anthropic', overloadStatus)).toMatchObject({ ...common, type: 'overloaded_error' }) // spec 1.4
    const flat = said(code, 'dynamo', overloadStatus)
    expect(flat).toMatchObject({ ...common, type: 'Service Unavailable' })
    expect(flat['message']).not.toContain('busy')
    expect(flat['message']).not.toContain('overloaded')
  })

  it('the same holds in a stream', () => {
    const frame = (code: ErrorCode): unknown => errorFrames(new WarmrouteError(code), 'openai', overloadStatus)
    for (const code of overloadCodes) expect(frame(code)).toContain('"overloaded_error"')
    for (const code of unavailableCodes) expect(frame(code)).toContain('"service_unavailable"')
  })

  it("an engine's own 503 says that it cannot serve, its 529 that it is overloaded", () => {
    expect(refusal(503, overloadStatus).code).toBe('WR_ENGINE_UNREACHABLE')
    expect(refusal(529, overloadStatus).code).toBe('WR_ALL_WORKERS_OVERLOADED')
  })
})

it("another status that the operator chose for overload is taken for it in an engine's answer", () => {
  expect(refusal(420, 420).code).toBe('WR_ALL_WORKERS_OVERLOADED')
})

it.each([
  ['requests', 'requests'],
  ['raw_isl_tokens', 'raw ISL tokens'],
  ['cached_tokens', 'cached tokens'],
] as const)('a queue whose %s are full keeps its text and its figures when strict', (limitKind, words) => {
  const rejection = { policyClass: 'batch', limitKind, current: 4, limit: 3 }
  const error = new WarmrouteError('WR_QUEUE_REJECTED', { reason: '4 of 3', rejection })
  expect(JSON.parse(errorAnswer(error, 'dynamo', 529).body)).toEqual({
    message: `router policy class "batch" queue ${words} limit reached (current=4, limit=3)`,
    type: 'Overloaded',
    code: 529,
    details: { policy_class: 'batch', limit_kind: limitKind, current: 4, limit: 3 },
  })
})
