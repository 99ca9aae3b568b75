/** What `nvext` adds to an answer when the client asked for it: who served, how long it took (spec/serving.md 1.10). */
import type { ServerResponse } from 'node:http'
import type { RouteAnswer } from '../../routing/index.js'
import type { BodyEdit } from '../relay/answer-relay.js'
import type { EventEdit } from '../relay/event-editor.js'
import { UsageRemoval, withMember } from '../relay/event-editor.js'
import type { Steps } from '../steps.js'
import { takeSteps } from '../steps.js'
import type { Prepared } from './prepare.js'
import type { PromptTokens } from './prompt.js'

export interface AnswerEdits {
  readonly editEvent?: EventEdit
  readonly bodyEdit?: (status: number) => BodyEdit | undefined
}

export interface EditTerms {
  readonly prepared: Prepared
  readonly prompt: PromptTokens | undefined
  readonly answer: RouteAnswer
  /** We asked for usage, the client did not; never where `extra_fields` are wanted. */
  readonly removesUsage: boolean
  readonly sinceStartMs: () => number
  /** Who computed the prompt, where somebody else did. */
  readonly prefill: RouteAnswer | undefined
}

/** Nothing for almost every request: only a sampled usage, or fields that were asked for, change an answer. */
export function editsOf(terms: EditTerms): AnswerEdits {
  const { prepared, answer, removesUsage, sinceStartMs, prefill } = terms
  const { extraFields } = prepared.hints
  const hasWorker = extraFields.has('worker_id')
  const hasTiming = extraFields.has('timing')
  const isOurs = prepared.row.endpoint === 'chat_completions' || prepared.row.endpoint === 'completions'
  if (!isOurs || (!hasWorker && !hasTiming)) return removesUsage ? { editEvent: new UsageRemoval() } : {}
  const askedMs = sinceStartMs()
  let firstMs: number | undefined
  const member = (isFinal: boolean): string | undefined => {
    const parts: string[] = []
    if (hasWorker) parts.push(`"worker_id":${workerIdJson(prefill ?? answer, answer)}`)
    if (hasTiming && isFinal) parts.push(`"timing":${timingJson(terms, askedMs, firstMs)}`)
    return parts.length === 0 ? undefined : `"nvext":{${parts.join(',')}}`
  }
  return {
    editEvent: {
      edit(event) {
        if (event[0] !== 0x64 || event.includes('data: [DONE]')) return event
        firstMs ??= sinceStartMs()
        const added = member(/"finish_reason": ?"/.test(event.toString('latin1')))
        return added === undefined ? event : withMember(event, added)
      },
    },
    bodyEdit: (status) => (status === 200 ? (body) => withLastMember(body, member(true)) : undefined),
  }
}

function withLastMember(body: Buffer, member: string | undefined): Buffer {
  const brace = body.lastIndexOf('}')
  if (member === undefined || brace < 0) return body
  return Buffer.concat([body.subarray(0, brace), Buffer.from(`,${member}`), body.subarray(brace)])
}

export interface DryRun extends Pick<EditTerms, 'prepared' | 'prompt' | 'answer' | 'prefill'> {
  readonly requestId: string
  /** Beside the request's name. */
  readonly headers: readonly (readonly [name: string, value: string])[]
}

/** A dry run: the choice and the tokens, and nothing else happened. */
export async function answerDryRun(response: ServerResponse, dryRun: DryRun): Promise<number> {
  const { prepared, prompt, answer, requestId, headers, prefill } = dryRun
  const isChat = prepared.row.endpoint !== 'completions'
  const object = isChat ? (prepared.isStream ? 'chat.completion.chunk' : 'chat.completion') : 'text_completion'
  const id = `${isChat ? 'chatcmpl' : 'cmpl'}-${requestId}`
  const head = JSON.stringify({
    id,
    object,
    created: Math.floor(Date.now() / 1000),
    model: prepared.model.name,
    choices: [],
  })
  const tokenIds = prompt?.isExact ? await takeSteps(spelled(prompt.tokens)) : ''
  const nvext = `"nvext":{"worker_id":${workerIdJson(prefill ?? answer, answer)},"token_ids":[${tokenIds}]}`
  const body = `${head.slice(0, -1)},${nvext}}`
  const type = prepared.isStream ? 'text/event-stream; charset=utf-8' : 'application/json'
  response.writeHead(200, { 'content-type': type, 'x-request-id': requestId, ...Object.fromEntries(headers) })
  response.end(prepared.isStream ? `data: ${body}\n\ndata: [DONE]\n\n` : body)
  return 200
}

/** Ids that are printed in one step. */
const spelledIdsMax = 32 << 10

function* spelled(ids: Uint32Array): Steps<string> {
  let text = ids.subarray(0, spelledIdsMax).join(',')
  for (let at = spelledIdsMax; at < ids.length; at += spelledIdsMax) {
    yield
    text += `,${ids.subarray(at, at + spelledIdsMax).join(',')}`
  }
  return text
}

/** Twice the same where one worker did both halves. Written by hand: ids have 64 bits. */
function workerIdJson(prefill: RouteAnswer, decode: RouteAnswer): string {
  const first = `"prefill_worker_id":${prefill.workerId},"prefill_dp_rank":${prefill.dpRank}`
  return `{${first},"decode_worker_id":${decode.workerId},"decode_dp_rank":${decode.dpRank}}`
}

/** A prefill elsewhere has times of its own, of which only its wait is known here. */
function timingJson(
  { prepared: { model, isStream }, prompt, answer, prefill, sinceStartMs }: EditTerms,
  askedMs: number,
  firstMs: number | undefined,
): string {
  const totalMs = sinceStartMs()
  const ttftMs = isStream ? (firstMs ?? totalMs) : undefined // of a whole answer nobody knows
  const blocks = model.looksAtPrompts ? Math.ceil((prompt?.tokens.length ?? 0) / model.spec.blockSize) : 0
  const hitBlocks = (prefill ?? answer).effectiveOverlapBlocks
  return JSON.stringify({
    request_received_ms: Math.round(Date.now() - totalMs),
    prefill_wait_time_ms: prefill ? prefill.waitedMs : askedMs,
    ...(prefill || ttftMs === undefined ? {} : { prefill_time_ms: ttftMs - askedMs }),
    ttft_ms: ttftMs,
    total_time_ms: totalMs,
    ...(blocks > 0 ? { kv_hit_rate: Math.min(1, hitBlocks / blocks) } : {}),
  })
}
