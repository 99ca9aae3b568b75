/** Traces in Mooncake's form: one JSON line per request, prompts as ids of 512-token blocks. */
import { WarmrouteError } from '../../core/protocol/index.js'

export interface TraceRequest {
  readonly index: number
  readonly arrivalMs: number
  readonly promptTokens: number
  readonly outputTokens: number
  /** One id per `traceBlockTokens` of prompt; an id means the same tokens wherever it stands. */
  readonly blockIds: readonly number[]
}

/** Reads a whole trace. A line that cannot be read is an error with its number: skipping it would change the figures. */
export function parseMooncake(text: string): TraceRequest[] {
  const requests: TraceRequest[] = []
  let line = 0
  for (const row of text.split('\n')) {
    line++
    if (row.trim() === '') continue
    requests.push(parseRow(row, line, requests.length))
  }
  return requests
}

function parseRow(row: string, line: number, index: number): TraceRequest {
  let json: Record<string, unknown>
  try {
    json = JSON.parse(row) as Record<string, unknown>
  } catch (cause) {
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `trace line ${line} is no JSON`, line }, { cause })
  }
  const arrivalMs = json['timestamp'] ?? json['created_time']
  const promptTokens = json['input_length'] ?? json['input_tokens']
  const outputTokens = json['output_length'] ?? json['output_tokens']
  const blockIds = json['hash_ids']
  if (
    !isCount(arrivalMs) ||
    !isCount(promptTokens) ||
    promptTokens === 0 ||
    !isCount(outputTokens) ||
    !Array.isArray(blockIds) ||
    !blockIds.every(isCount)
  )
    throw new WarmrouteError('WR_INVALID_ARGUMENT', {
      reason: `trace line ${line} lacks timestamp, input_length, output_length or hash_ids`,
      line,
    })
  return { index, arrivalMs, promptTokens, outputTokens, blockIds }
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}
