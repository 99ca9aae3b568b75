/**
 * Traces as JSON lines, one request each, prompts as ids of blocks of equal tokens: Mooncake's form, and what Dynamo and
 * AIPerf add to it (other names of the fields, sessions whose turns wait for each other). Dynamo's own request traces may
 * stand in their place: `request-record.ts`.
 */
import { WarmrouteError } from '../../core/protocol/index.js'
import { isCount, isIds, isPromptLength, isTime, isWhole, refuse } from './judge-line.js'
import type { Fields } from './judge-line.js'
import { readRequestRecord, requestRecord, turnsOf } from './request-record.js'

/**
 * One request of a trace: when it comes, how long it is, and which blocks of it others share.
 *
 * @example
 * import { replay, roundRobin, type TraceRequest } from 'warmroute/sim'
 *
 * const trace: TraceRequest[] = [0, 1].map((index) => ({
 *   index,
 *   arrivalMs: index * 1000,
 *   promptTokens: 1024,
 *   outputTokens: 16,
 *   blockIds: [1, 2],
 * }))
 * console.log(replay(trace, { workers: 1, policy: roundRobin(1) }).reuse > 0) // => true
 */
export interface TraceRequest {
  readonly index: number
  readonly arrivalMs: number
  readonly promptTokens: number
  readonly outputTokens: number
  /** One id per trace block of prompt (512 tokens unless told otherwise); an id means the same tokens wherever it stands. */
  readonly blockIds: readonly number[]
  /** A later turn of a session: arrives this long after the request of that index has ended, whatever `arrivalMs` says. */
  readonly follows?: { readonly index: number; readonly delayMs: number }
  /** Its answer comes in one piece: nobody but the engine knows when its first token was there. */
  readonly isWhole?: boolean
}

/** A trace as it was read. */
export interface Trace {
  readonly requests: TraceRequest[]
  /** Tokens that one id stands for, where the trace itself says so: Dynamo's request traces. */
  readonly blockTokens: number | undefined
  /** What a person should know who may have given the wrong block size. */
  readonly doubt: string | undefined
}

/**
 * Reads a whole trace. A line that cannot be read is an error with its number: skipping it would change the figures.
 *
 * @example
 * import { parseMooncake } from 'warmroute/sim'
 *
 * const [request] = parseMooncake('{"timestamp":27482,"input_length":512,"output_length":52,"hash_ids":[46]}')
 * console.log(request?.arrivalMs, request?.promptTokens) // => 27482 512
 */
export function parseMooncake(text: string): TraceRequest[] {
  return parseTrace(text).requests
}

/** `blockTokens`: what one id stands for, unless the trace says it; undefined takes the trace's own word, else 512. */
export function parseTrace(text: string, blockTokens?: number): Trace {
  const rows: Row[] = []
  let line = 0
  for (const row of text.replace(/^\uFEFF/, '').split('\n')) {
    line++
    if (row.trim() === '') continue
    const parsed = parseRow(row, line)
    if (parsed) rows.push(parsed)
  }
  const said = embeddedBlockTokens(rows, blockTokens)
  const perId = said ?? blockTokens ?? 512
  for (const { line: at, promptTokens, blockIds } of rows)
    if (blockIds && blockIds.length > 0 && blockIds.length * perId < promptTokens)
      refuse(
        at,
        `has ${blockIds.length} hash_ids for ${promptTokens} tokens, and ids of ${perId} tokens cover ${blockIds.length * perId}`,
      )
  return { requests: placeInTime(turnsOf(rows)), blockTokens: said, doubt: doubtOf(rows, perId) }
}

/** The trace as lines that `parseMooncake` reads to the same requests. */
export function formatMooncake(trace: readonly TraceRequest[]): string {
  const sessions = sessionsOf(trace)
  return trace
    .map(({ index, arrivalMs, promptTokens, outputTokens, blockIds, follows }) =>
      JSON.stringify({
        timestamp: Math.round(arrivalMs * 1000) / 1000,
        input_length: promptTokens,
        output_length: outputTokens,
        hash_ids: blockIds.length > 0 ? blockIds : undefined,
        session_id: sessions.get(index),
        delay: follows?.delayMs,
      }),
    )
    .map((row) => `${row}\n`)
    .join('')
}

/** Turns that wait for each other, under the index of the first. */
function sessionsOf(trace: readonly TraceRequest[]): Map<number, string> {
  const sessions = new Map<number, string>()
  for (const { index, follows } of trace) {
    if (!follows) continue
    const session = sessions.get(follows.index) ?? `turns-${follows.index}`
    sessions.set(follows.index, session)
    sessions.set(index, session)
  }
  return sessions
}

/** One line as it was read. */
export interface Row {
  readonly line: number
  readonly arrivalMs: number | undefined
  readonly delayMs: number | undefined
  readonly session: string | undefined
  readonly promptTokens: number
  readonly outputTokens: number
  /** Undefined: nobody else has any of this prompt. */
  readonly blockIds: readonly number[] | undefined
  /** When it ended, and the block size: in Dynamo's request traces. */
  readonly endMs?: number
  readonly blockTokens?: number
}

/** Undefined: an event that is no request. */
function parseRow(text: string, line: number): Row | undefined {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (cause) {
    refuse(line, 'is no JSON', cause)
  }
  if (typeof json !== 'object' || json === null || Array.isArray(json)) refuse(line, 'is no JSON object')
  const fields = json as Fields
  const record = requestRecord(fields)
  if (record) return readRequestRecord(record, line)
  const arrivalMs = fields['timestamp'] ?? fields['created_time'] ?? undefined
  const promptTokens = fields['input_length'] ?? fields['input_tokens']
  const outputTokens = fields['output_length'] ?? fields['output_tokens']
  const blockIds = fields['hash_ids'] ?? undefined
  const delayMs = fields['delay'] ?? fields['delay_ms'] ?? undefined
  const session = fields['session_id'] ?? undefined
  if (arrivalMs === undefined && session === undefined) refuse(line, 'lacks timestamp')
  if (arrivalMs !== undefined && !isTime(arrivalMs)) refuse(line, 'lacks a usable timestamp')
  if (delayMs !== undefined && !isCount(delayMs)) refuse(line, 'lacks a usable delay')
  if (promptTokens === undefined && ('text_input' in fields || 'messages' in fields))
    refuse(line, 'has a text: a replay needs input_length in tokens, and hash_ids for what it shares')
  if (!isPromptLength(promptTokens)) refuse(line, 'lacks a usable input_length')
  if (!isWhole(outputTokens)) refuse(line, 'lacks a usable output_length')
  if (blockIds !== undefined && !isIds(blockIds)) refuse(line, 'lacks usable hash_ids')
  if (session !== undefined && typeof session !== 'string' && typeof session !== 'number')
    refuse(line, 'lacks a usable session_id')
  return {
    line,
    arrivalMs,
    delayMs,
    session: session === undefined ? undefined : String(session),
    promptTokens,
    outputTokens,
    blockIds,
  }
}

/** Requests in the order of their arrival; a turn without a time of its own stands where its session began. */
function placeInTime(rows: readonly Row[]): TraceRequest[] {
  const sessionMs = new Map<string, number>()
  const timed = rows.map((row) => {
    const { session } = row
    const startMs = row.arrivalMs ?? (session === undefined ? undefined : (sessionMs.get(session) ?? 0))
    if (session !== undefined) sessionMs.set(session, Math.max(startMs!, sessionMs.get(session) ?? 0))
    return { row, arrivalMs: startMs! }
  })
  // A log has the time of day; what counts is the time since its first request.
  const firstMs = timed.reduce((least, { arrivalMs }) => Math.min(least, arrivalMs), Number.POSITIVE_INFINITY)
  if (firstMs >= agesMs) for (const it of timed) it.arrivalMs -= firstMs
  timed.sort((a, b) => a.arrivalMs - b.arrivalMs || a.row.line - b.row.line)
  const lastOf = new Map<string, { readonly index: number; readonly arrivalMs: number }>()
  return timed.map(({ row, arrivalMs }, index) => {
    const { promptTokens, outputTokens, session } = row
    const before = session === undefined ? undefined : lastOf.get(session)
    if (session !== undefined) lastOf.set(session, { index, arrivalMs })
    const request = { index, arrivalMs, promptTokens, outputTokens, blockIds: row.blockIds ?? [] }
    if (!before) return request
    // As Dynamo's replay has it: without a delay of its own, a turn waits for as long as the rows are apart.
    return { ...request, follows: { index: before.index, delayMs: row.delayMs ?? arrivalMs - before.arrivalMs } }
  })
}

/** A day and more before the first request: that time does not belong to the trace, whatever it counts from. */
const agesMs = 1e8

/** More ids than the prompts have blocks: most likely an id stands for fewer tokens than was said. */
function doubtOf(rows: readonly Row[], blockTokens: number): string | undefined {
  const odd = rows.filter(
    ({ blockIds, promptTokens }) => (blockIds?.length ?? 0) > Math.ceil(promptTokens / blockTokens),
  )
  const [first] = odd
  if (!first) return unitDoubtOf(rows)
  const { line, blockIds, promptTokens } = first
  return `${odd.length} of ${rows.length} lines have more hash_ids than blocks of ${blockTokens} tokens, the first on line ${line}: ${blockIds!.length} for ${promptTokens} tokens. The ids beyond are not used; is --trace-block-size right?`
}

/** Times of day in milliseconds lie around 1.7e12. */
function unitDoubtOf(rows: readonly Row[]): string | undefined {
  const at = rows.find(({ arrivalMs }) => arrivalMs !== undefined)?.arrivalMs ?? 0
  const unit = at >= 1e9 && at < 1e11 ? 'seconds' : at >= 1e14 ? 'microseconds' : undefined
  return unit && `timestamps such as ${at} look like ${unit} since 1970, and are read as milliseconds.`
}

function embeddedBlockTokens(rows: readonly Row[], asked: number | undefined): number | undefined {
  const said = rows.find(({ blockTokens }) => blockTokens !== undefined)?.blockTokens
  if (said === undefined) return undefined
  for (const { line, blockTokens } of rows)
    if (blockTokens !== said)
      refuse(line, `has blocks of ${blockTokens ?? 'no said size'}, and another line of ${said}`)
  if (asked !== undefined && asked !== said)
    throw new WarmrouteError('WR_INVALID_ARGUMENT', {
      reason: `the trace says that its ids stand for ${said} tokens, and --trace-block-size says ${asked}`,
    })
  return said
}
