import { expect, it } from 'vitest'
import { readText } from '../../test/recordings.js'
import { readEngineError, readFinishReason } from './engine-errors.js'

interface RecordedError {
  readonly step: string
  readonly status: number
  readonly body: string
}

it('reads a message and a kind out of every recorded error', () => {
  const errors = ['vllm', 'sglang'].flatMap((name) => JSON.parse(readText(`${name}/errors.json`)) as RecordedError[])
  expect(errors.length).toBeGreaterThan(30)
  for (const { step, status, body } of errors) {
    const error = readEngineError(status, body)
    expect(error.message.length).toBeGreaterThan(0)
    expect(error.message).not.toContain('{"')
    expect(error.canRetryElsewhere).toBe(status >= 500)
    if (step.includes('unknown-model')) expect(error.kind).toBe('not_found')
    if (step === 'err-too-long-chat' || step === 'err-too-long') expect(error.kind).toBe('too_long')
  }
})

it.each([
  [503, '{"object":"error","message":"The request queue is full.","code":503}', 'overloaded', true],
  [503, '{"error":"The model is currently scaling. Please try again later."}', 'unavailable', true],
  [503, '', 'unavailable', true],
  [429, '{"error":{"message":"slow down"}}', 'overloaded', true],
  [
    500,
    '{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause."}}',
    'unavailable',
    true,
  ],
  [500, '{"error":{"message":"list index out of range"}}', 'internal', true],
  [401, '{"error":"Unauthorized"}', 'unauthorized', false],
  [400, '{"detail":"nope"}', 'bad_request', false],
  [404, 'plain text', 'not_found', false],
] as const)('maps %i %s to %s', (status, body, kind, canRetryElsewhere) => {
  expect(readEngineError(status, body)).toMatchObject({ kind, canRetryElsewhere })
})

it('takes an abort that nobody asked for as a reason to go elsewhere', () => {
  expect(readFinishReason('abort')).toMatchObject({ kind: 'aborted', canRetryElsewhere: true })
  expect(readFinishReason('error')).toMatchObject({ kind: 'internal' })
  expect(readFinishReason('stop')).toBeUndefined()
  expect(readFinishReason(null)).toBeUndefined()
})
