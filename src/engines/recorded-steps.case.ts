/**
 * The recordings as judges: every frame goes through decoder, machine, normaliser and a plain index, and before each
 * recorded request the cached tokens are predicted by the engine's own rule. What the engine then reported stands beside.
 */
import type { RecordedExchange, RecordedFrame, RecordedLine } from '../../test/recordings.js'
import { eventRecordings, fromHex, readRecording } from '../../test/recordings.js'
import { BlockHashes, createBlockHasher, createHashScheme } from '../core/hashing/index.js'
import type { HashColumn } from '../core/protocol/index.js'
import type { EventSink, Feed } from '../events/index.js'
import { DecodedBatch, Intake } from '../events/index.js'
import { predictCachedTokens } from './cached-tokens.js'
import { KvEventDecoder } from './wire/kv-event-decoder.js'

export interface RecordedRow {
  readonly recording: string
  readonly step: string
  readonly rank: string
  readonly promptTokens: number
  readonly predicted: number
  readonly reported: number
  readonly rule: string
}

/** An index that answers depths; the test hands in a naive one or the real one. */
export interface DepthIndex extends EventSink {
  depth(rank: number, local: HashColumn): number
}

const blockSize = 32
const hasher = createBlockHasher()

/** Processes that were replaced while the recorder ran; live sockets would have told. */
const restarts: Readonly<Record<string, readonly { readonly before: string; readonly ports: readonly number[] }[]>> = {
  'vllm/pd-nixl': [
    { before: '08-D-without-params', ports: [5611] },
    { before: '17a-in-time', ports: [5601, 5611] },
  ],
}

const portOfSide: Readonly<Record<string, number>> = { P: 5601, D: 5611 }

export function replayRecordings(newIndex: () => DepthIndex): RecordedRow[] {
  return eventRecordings.flatMap((name) => replayOne(name, newIndex()))
}

function replayOne(recording: string, index: DepthIndex): RecordedRow[] {
  const lines = readRecording(recording as (typeof eventRecordings)[number])
  const frames = lines.filter((line): line is RecordedFrame => line.kind === 'zmq')
  const ports = [...new Set(frames.map((frame) => frame.port))].sort((a, b) => a - b)
  const intake = new Intake({
    decoder: new KvEventDecoder(),
    sink: index,
    hasher,
    blockSize,
    seed: 1,
    requestReplay: () => undefined,
  })
  const feeds = new Map(
    ports.map((port, rank) => {
      const dpRank = recording === 'vllm/dp2' ? rank : 0
      return [port, intake.addFeed({ rank, dpRank, hasReplay: false, usableBlocks: 300 })] as const
    }),
  )
  let now = 0
  for (const feed of feeds.values()) feed.machine.connected(now)
  const rows: RecordedRow[] = []
  const due = [...(restarts[recording] ?? [])]
  for (const step of stepsOf(lines)) {
    now += 20_000
    if (due[0]?.before === step.name) for (const port of due.shift()!.ports) reconnect(feeds.get(port)!, now)
    const before = step.exchanges.map((exchange) => predict(recording, step, exchange, feeds, index))
    for (const frame of step.frames) {
      const sequence = Number(BigInt(`0x${frame.frames[1]}`))
      feeds.get(frame.port)!.machine.frame(sequence, fromHex(frame.frames[2]), now)
    }
    intake.flush()
    for (const exchange of step.exchanges) if (isReset(exchange)) for (const feed of feeds.values()) feed.cacheReset()
    rows.push(...judge(recording, step, before, (exchange) => predict(recording, step, exchange, feeds, index)))
  }
  return rows
}

interface Step {
  readonly name: string
  readonly frames: RecordedFrame[]
  readonly exchanges: RecordedExchange[]
}

/** Lines of one step stand together; the two legs of a disaggregated request share a step but run one after the other. */
function stepsOf(lines: readonly RecordedLine[]): Step[] {
  const steps: Step[] = []
  for (const line of lines) {
    if (line.kind === 'note') continue
    const side = line.kind === 'zmq' ? sideOfPort(line.port) : (line.side ?? '')
    const last = steps.at(-1)
    const lastSide = last && (last.exchanges[0]?.side ?? sideOfPort(last.frames[0]?.port))
    let step = last?.name === line.step && (lastSide ?? '') === side ? last : undefined
    if (!step) steps.push((step = { name: line.step, frames: [], exchanges: [] }))
    if (line.kind === 'zmq') step.frames.push(line)
    else step.exchanges.push(line)
  }
  return steps
}

function sideOfPort(port: number | undefined): string {
  return port === 5601 ? 'P' : port === 5611 ? 'D' : ''
}

function reconnect(feed: Feed, now: number): void {
  feed.machine.disconnected(now)
  feed.machine.connected(now + 10_000)
}

interface Prediction {
  readonly exchange: RecordedExchange
  readonly rank: string
  readonly promptTokens: number
  readonly predicted: number
  readonly reported: number
  readonly rule: string
}

function predict(
  recording: string,
  step: Step,
  exchange: RecordedExchange,
  feeds: ReadonlyMap<number, Feed>,
  index: DepthIndex,
): Prediction | undefined {
  const reply = replyOf(exchange)
  if (exchange.status !== 200 || reply.cached === undefined) return undefined
  const body = (exchange.request.body ?? {}) as Record<string, unknown>
  const port = portOf(exchange, step, feeds)
  if (port === undefined) return undefined
  const feed = feeds.get(port)!
  const tokens = tokensOf(body, reply) ?? tokensOfStore(step, port)
  const rank = feeds.size > 1 ? (exchange.side ?? `rank ${feed.dpRank}`) : ''
  const common = { exchange, rank, reported: reply.cached, promptTokens: reply.promptTokens }
  const transfer = body['kv_transfer_params'] as Record<string, unknown> | undefined
  if (transfer?.['do_remote_prefill'] === true) {
    const ofPrefill = transfer['remote_prefill_cached_tokens']
    return { ...common, predicted: Number(ofPrefill ?? 0), rule: "remote prefill: D reports P's count" }
  }
  if (body['prompt_logprobs'] !== undefined) return { ...common, predicted: 0, rule: 'prompt_logprobs: no cache read' }
  if (body['extra_key'] !== undefined) return { ...common, predicted: 0, rule: 'extra_key: not on the wire, no credit' }
  if (tokens === undefined) {
    return reply.promptTokens < blockSize
      ? { ...common, predicted: 0, rule: 'shorter than a block' }
      : { ...common, predicted: 0, rule: 'tokens unknown and nothing stored' }
  }
  const scheme = createHashScheme({ blockSize, cacheNamespace: body['cache_salt'] as string | undefined })
  const hashes = new BlockHashes()
  hasher.hash(Uint32Array.from(tokens), scheme, hashes)
  const depth = feed.machine.state === 'live' ? index.depth(feed.rank, hashes.localColumn()) : 0
  const engine = recording.startsWith('sglang') ? 'sglang' : 'vllm'
  const predicted = predictCachedTokens({ engine, promptTokens: reply.promptTokens, matchedBlocks: depth, blockSize })
  return { ...common, predicted, rule: 'formula' }
}

/** Requests of one step run together: the first to be scheduled meets the cache as it was, the others what it stored. */
function judge(
  recording: string,
  step: Step,
  before: readonly (Prediction | undefined)[],
  predictNow: (exchange: RecordedExchange) => Prediction | undefined,
): RecordedRow[] {
  return before.flatMap((prediction) => {
    if (!prediction) return []
    const { exchange, ...rest } = prediction
    const row = { recording, step: step.name, ...rest }
    const copies = (exchange.request.body as { n?: number } | null)?.n ?? 1
    if (row.predicted === row.reported || (step.exchanges.length === 1 && copies === 1)) return [row]
    const together = predictNow(exchange)!
    const rule = copies > 1 ? 'formula, n > 1: the last choice runs behind the first' : behindEqual
    return [{ ...row, predicted: together.predicted, rule }]
  })
}

const behindEqual = 'formula, behind an equal prompt of the same moment'

function isReset(exchange: RecordedExchange): boolean {
  return exchange.status === 200 && exchange.request.path.startsWith('/reset_prefix_cache')
}

function portOf(exchange: RecordedExchange, step: Step, feeds: ReadonlyMap<number, Feed>): number | undefined {
  if (exchange.side) return portOfSide[exchange.side]
  const ports = [...feeds.keys()]
  if (ports.length === 1) return ports[0]
  const headers = Object.entries(exchange.request.headers ?? {})
  const pinned = headers.find(([name]) => name.toLowerCase() === 'x-data-parallel-rank')?.[1]
  // Unpinned, and on /v1/responses where the pin is ignored, the rank is seen from where the blocks appeared.
  if (pinned !== undefined && !exchange.request.path.startsWith('/v1/responses')) return ports[Number(pinned)]
  return step.frames[0]?.port
}

interface Reply {
  readonly promptTokens: number
  readonly cached: number | undefined
  readonly ids: readonly number[] | undefined
}

function replyOf(exchange: RecordedExchange): Reply {
  const objects = jsonObjects(exchange.response_text ?? '')
  const usage = objects.map((object) => object['usage'] ?? object['meta_info']).findLast((it) => it) as
    | Record<string, unknown>
    | undefined
  const details = (usage?.['prompt_tokens_details'] ?? usage?.['input_tokens_details']) as
    | Record<string, unknown>
    | undefined
  const choices = objects.flatMap((object) => (object['choices'] as Record<string, unknown>[] | undefined) ?? [])
  const ids = [...objects, ...choices].map((it) => it['prompt_token_ids']).find((it) => Array.isArray(it))
  const cached = details ? (details['cached_tokens'] ?? 0) : usage?.['cached_tokens']
  return {
    promptTokens: Number(usage?.['prompt_tokens'] ?? usage?.['input_tokens'] ?? 0),
    cached: cached === undefined ? undefined : Number(cached),
    ids: ids as readonly number[] | undefined,
  }
}

function jsonObjects(text: string): Record<string, unknown>[] {
  const parts = text.startsWith('data: ') ? text.split('\n').map((line) => line.replace(/^data: /, '')) : [text]
  return parts.flatMap((part) => {
    try {
      const value: unknown = JSON.parse(part)
      return value !== null && typeof value === 'object' && !Array.isArray(value)
        ? [value as Record<string, unknown>]
        : []
    } catch {
      return [] // not every reply is JSON, and a stream ends with [DONE]
    }
  })
}

function tokensOf(body: Record<string, unknown>, reply: Reply): readonly number[] | undefined {
  const candidates = [body['prompt'], body['input_ids'], body['token_ids'], reply.ids]
  return candidates.find((it): it is number[] => Array.isArray(it) && it.length > 0 && typeof it[0] === 'number')
}

/** Where nobody echoes the ids, the prompt's own first store shows them: the strongest evidence there is. */
function tokensOfStore(step: Step, port: number): number[] | undefined {
  const frame = step.frames.find((it) => it.port === port)
  if (!frame) return undefined
  return storedTokens(fromHex(frame.frames[2]))
}

function storedTokens(payload: Uint8Array): number[] | undefined {
  const batch = decodeOnce(payload)
  return batch.tokenCount[0]
    ? [...batch.tokens.subarray(batch.tokenStart[0], batch.tokenStart[0]! + batch.tokenCount[0])]
    : undefined
}

function decodeOnce(payload: Uint8Array): DecodedBatch {
  const batch = new DecodedBatch()
  new KvEventDecoder().decode(payload, batch)
  return batch
}
