/**
 * Traces as JSON lines, one request each, prompts as ids of blocks of equal tokens: Mooncake's form, and what Dynamo and
 * AIPerf add to it (other names of the fields, sessions whose turns wait for each other).
 */
import { WarmrouteError } from '../../core/protocol/index.js'

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
  /** A later turn of a session: arrives this long after the request of that index has ended, and not before `arrivalMs`. */
  readonly follows?: { readonly index: number; readonly delayMs: number }
}

/**
 * Reads a whole trace. A line that cannot be read is an error with its number: skipping it would change the figures.
 *
 * @example
 * import { parseMooncake } from 'warmroute/sim'
 *
 * const [request] = parseMooncake('{"timestamp":27482,"input_length":6955,"output_length":52,"hash_ids":[46,47]}')
 * console.log(request?.arrivalMs, request?.promptTokens) // => 27482 6955
 */
export function parseMooncake(text: string): TraceRequest[] {
  const rows: Row[] = []
  let line = 0
  for (const row of text.split('\n')) {
    line++
    if (row.trim() !== '') rows.push(parseRow(row, line))
  }
  return placeInTime(rows)
}

/** The trace as lines that `parseMooncake` reads. */
export function formatMooncake(trace: readonly TraceRequest[]): string {
  return trace
    .map(({ arrivalMs, promptTokens, outputTokens, blockIds }) =>
      JSON.stringify({
        timestamp: Math.round(arrivalMs * 1000) / 1000,
        input_length: promptTokens,
        output_length: outputTokens,
        hash_ids: blockIds,
      }),
    )
    .map((row) => `${row}\n`)
    .join('')
}

interface Row {
  readonly line: number
  readonly arrivalMs: number | undefined
  readonly delayMs: number | undefined
  readonly session: string | undefined
  readonly promptTokens: number
  readonly outputTokens: number
  readonly blockIds: readonly number[]
}

function parseRow(text: string, line: number): Row {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (cause) {
    refuse(line, 'is no JSON', cause)
  }
  if (typeof json !== 'object' || json === null || Array.isArray(json)) refuse(line, 'is no JSON object')
  const fields = json as Readonly<Record<string, unknown>>
  const arrivalMs = fields['timestamp'] ?? fields['created_time'] ?? undefined
  const promptTokens = fields['input_length'] ?? fields['input_tokens']
  const outputTokens = fields['output_length'] ?? fields['output_tokens']
  const blockIds = fields['hash_ids']
  const delayMs = fields['delay'] ?? fields['delay_ms'] ?? undefined
  const session = fields['session_id'] ?? undefined
  if (arrivalMs === undefined && session === undefined) refuse(line, 'lacks timestamp')
  if (arrivalMs !== undefined && !isCount(arrivalMs)) refuse(line, 'lacks a usable timestamp')
  if (delayMs !== undefined && !isCount(delayMs)) refuse(line, 'lacks a usable delay')
  if (!isWhole(promptTokens) || promptTokens === 0) refuse(line, 'lacks a usable input_length')
  if (!isWhole(outputTokens)) refuse(line, 'lacks a usable output_length')
  if (!Array.isArray(blockIds) || !blockIds.every(isCount)) refuse(line, 'lacks usable hash_ids')
  if (session !== undefined && typeof session !== 'string' && typeof session !== 'number')
    refuse(line, 'lacks a usable session_id')
  return {
    line,
    arrivalMs,
    delayMs,
    session: session === undefined ? undefined : String(session),
    promptTokens,
    outputTokens,
    blockIds: blockIds as number[],
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
  if (firstMs >= timeOfDayMs) for (const it of timed) it.arrivalMs -= firstMs
  timed.sort((a, b) => a.arrivalMs - b.arrivalMs || a.row.line - b.row.line)
  const lastOf = new Map<string, number>()
  return timed.map(({ row, arrivalMs }, index) => {
    const { promptTokens, outputTokens, blockIds, session } = row
    const before = session === undefined ? undefined : lastOf.get(session)
    if (session !== undefined) lastOf.set(session, index)
    const request = { index, arrivalMs, promptTokens, outputTokens, blockIds }
    return before === undefined ? request : { ...request, follows: { index: before, delayMs: row.delayMs ?? 0 } }
  })
}

/** Above this a timestamp cannot be meant as a time since the beginning: it would be 30 years. */
const timeOfDayMs = 1e12

function refuse(line: number, reason: string, cause?: unknown): never {
  throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `trace line ${line} ${reason}`, line }, { cause })
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}

function isWhole(value: unknown): value is number {
  return isCount(value) && Number.isInteger(value)
}
