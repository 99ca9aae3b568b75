/**
 * Dynamo's request traces (`DYN_REQUEST_TRACE=1`): one `request_end` event per request, with the chain hashes of its prompt.
 * Events of other kinds say nothing of the load. With sessions (`agent_context`), a turn comes as long after the end of the
 * turn before it as it did when it was recorded.
 */
import { isCount, isIds, isPromptLength, isTime, isWhole, refuse } from './judge-line.js'
import type { Fields } from './judge-line.js'
import type { Row } from './trace.js'

const schema = 'dynamo.request.trace.v1'

/** The record in a line, alone or inside of an envelope; undefined where the line is something else. */
export function requestRecord(fields: Fields): Fields | undefined {
  const inner = fields['event']
  const record = isFields(inner) ? inner : fields
  return record['schema'] === schema ? record : undefined
}

/** Undefined: an event that is no request. */
export function readRequestRecord(record: Fields, line: number): Row | undefined {
  const kind = record['event_type']
  if (kind !== 'request_end') {
    if (typeof kind === 'string' && /^(request_payload|tool_)/.test(kind)) return undefined
    refuse(line, `has the event type ${JSON.stringify(kind)}, which no request trace has`)
  }
  const { request, agent_context: context } = record as { request?: unknown; agent_context?: unknown }
  if (!isFields(request)) refuse(line, 'lacks request')
  const { replay } = request
  if (!isFields(replay)) refuse(line, 'lacks request.replay')
  const arrivalMs = request['request_received_ms']
  const outputTokens = request['output_tokens']
  const { trace_block_size: blockTokens, input_length: promptTokens, input_sequence_hashes: blockIds } = replay
  if (!isTime(arrivalMs)) refuse(line, 'lacks a usable request.request_received_ms')
  if (!isWhole(outputTokens)) refuse(line, 'lacks a usable request.output_tokens')
  if (!isWhole(blockTokens) || blockTokens === 0) refuse(line, 'lacks a usable request.replay.trace_block_size')
  if (!isPromptLength(promptTokens)) refuse(line, 'lacks a usable request.replay.input_length')
  if (!isIds(blockIds)) refuse(line, 'lacks usable request.replay.input_sequence_hashes')
  const session = isFields(context) ? context['session_id'] : undefined
  if (session !== undefined && typeof session !== 'string') refuse(line, 'lacks a usable agent_context.session_id')
  const totalMs = request['total_time_ms']
  const endMs = isCount(totalMs) ? arrivalMs + totalMs : record['event_time_unix_ms']
  return {
    line,
    arrivalMs,
    delayMs: undefined,
    session,
    promptTokens,
    outputTokens,
    blockIds,
    endMs: isCount(endMs) ? endMs : arrivalMs,
    blockTokens,
  }
}

/**
 * Recorded turns as turns that wait for each other: records are written when requests end, so they are put in the order in
 * which they came. A request that came while the turn before it was running waits for nobody.
 */
export function turnsOf(rows: readonly Row[]): readonly Row[] {
  if (!rows.some(({ endMs, session }) => endMs !== undefined && session !== undefined)) return rows
  const lastEndMs = new Map<string, number>()
  return [...rows]
    .sort((a, b) => a.arrivalMs! - b.arrivalMs! || a.line - b.line)
    .map((row) => {
      const { session, arrivalMs, endMs } = row
      if (session === undefined) return row
      const before = lastEndMs.get(session)
      if (before !== undefined && before > arrivalMs!) return { ...row, session: undefined }
      lastEndMs.set(session, endMs!)
      return before === undefined ? row : { ...row, delayMs: arrivalMs! - before }
    })
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
