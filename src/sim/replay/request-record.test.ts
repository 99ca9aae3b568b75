import { expect, it } from 'vitest'
import { parseTrace } from './trace.js'

interface Change {
  readonly event?: Record<string, unknown>
  readonly request?: Record<string, unknown>
  readonly replay?: Record<string, unknown>
}

const record = ({ event, request, replay }: Change = {}): Record<string, unknown> => ({
  schema: 'dynamo.request.trace.v1',
  event_type: 'request_end',
  event_time_unix_ms: 1_700_000_000_900,
  event_source: 'dynamo',
  request: {
    request_id: 'a',
    request_received_ms: 1_700_000_000_000,
    output_tokens: 5,
    replay: { trace_block_size: 16, input_length: 40, input_sequence_hashes: [11, 22, 33], ...replay },
    ...request,
  },
  ...event,
})
const lines = (...records: readonly Record<string, unknown>[]): string =>
  records.map((it) => JSON.stringify(it)).join('\n')

it('reads requests with their own block size, in or out of an envelope, and counts from the first', () => {
  const later = record({ request: { request_received_ms: 1_700_000_000_250 } })
  const text = lines(record(), { timestamp: 3, event: later }, record({ event: { event_type: 'tool_end' } }))
  const { requests, blockTokens } = parseTrace(text)
  expect(blockTokens).toBe(16)
  const same = { promptTokens: 40, outputTokens: 5, blockIds: [11, 22, 33] }
  expect(requests).toEqual([
    { index: 0, arrivalMs: 0, ...same },
    { index: 1, arrivalMs: 250, ...same },
  ])
})

it('lets a turn come as long after the turn before it as it did, in whatever order they were written', () => {
  const turn = (receivedMs: number, totalMs: number, session: string): Record<string, unknown> =>
    record({
      event: { agent_context: { session_id: session } },
      request: { request_received_ms: 1_700_000_000_000 + receivedMs, total_time_ms: totalMs },
    })
  const { requests } = parseTrace(lines(turn(3000, 100, 'a'), turn(0, 900, 'a'), turn(500, 10, 'a'), turn(7, 10, 'b')))
  expect(requests.map(({ arrivalMs, follows }) => [arrivalMs, follows])).toEqual([
    [0, undefined],
    [7, undefined],
    [500, undefined], // came while the turn before it was running
    [3000, { index: 0, delayMs: 2100 }],
  ])
})

it.each([
  [
    'has the event type "request_start", which no request trace has',
    record({ event: { event_type: 'request_start' } }),
  ],
  ['lacks request', record({ event: { request: 3 } })],
  ['lacks request.replay', record({ request: { replay: null } })],
  ['lacks a usable request.request_received_ms', record({ request: { request_received_ms: 'now' } })],
  ['lacks a usable request.output_tokens', record({ request: { output_tokens: null } })],
  ['lacks a usable request.replay.trace_block_size', record({ replay: { trace_block_size: 0 } })],
  ['lacks a usable request.replay.input_length', record({ replay: { input_length: 0 } })],
  ['lacks usable request.replay.input_sequence_hashes', record({ replay: { input_sequence_hashes: ['x'] } })],
  ['has 2 hash_ids for 40 tokens', record({ replay: { input_sequence_hashes: [1, 2] } })],
  ['has blocks of 32, and another line of 16', record({ replay: { trace_block_size: 32 } })],
])('names the number of a line that %s', (complaint, bad) => {
  expect(() => parseTrace(lines(record(), bad))).toThrow(`trace line 2 ${complaint}`)
})

it('refuses a block size that is not the one in the trace', () => {
  expect(() => parseTrace(lines(record()), 512)).toThrow('--trace-block-size says 512')
  expect(parseTrace(lines(record()), 16).blockTokens).toBe(16)
})
