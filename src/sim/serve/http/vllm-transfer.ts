/** `kv_transfer_params` of vLLM: what a request asks of a pair by its connector, and what a reply says. NIXL's pull is here. */
import { numberOf, objectOf, textOf } from './body.js'
import type { EventStream } from './event-stream.js'
import type { Exchange, Json } from './exchange.js'
import { Refusal } from './exchange.js'
import { vllmError } from './vllm-errors.js'
import type { Transfer } from './transfer.js'
import { goneController, none } from './transfer.js'
import { meetOther, shareWithOthers } from './vllm-meeting.js'

export interface TransferContext {
  /** The answer's id, and what vLLM puts between it and its own. */
  readonly answer: string
  readonly suffix: string
  /** Where a failure goes when the head of a stream is out already. */
  readonly stream: { readonly events: EventStream } | undefined
}

/** Awaits the transfer of a decode request; undefined when it failed and the client has been told. */
export async function prepareTransfer(
  exchange: Exchange,
  body: Json,
  rank: number,
  prompt: readonly number[],
  context: TransferContext,
): Promise<Transfer | undefined> {
  try {
    return await transferOf(exchange, body, rank, prompt, context)
  } catch (error) {
    const events = context.stream?.events
    if (!events || !(error instanceof Refusal)) throw error
    events.data(JSON.stringify(error.body))
    events.data('[DONE]')
    events.end()
    return undefined
  }
}

async function transferOf(
  exchange: Exchange,
  body: Json,
  rank: number,
  prompt: readonly number[],
  id: TransferContext,
): Promise<Transfer> {
  const { server } = exchange
  const params = objectOf(body, 'kv_transfer_params')
  const kind = server.options.pair?.kind
  if (kind === 'shared_cache') return shareWithOthers(exchange, prompt)
  if (params && (kind === 'nixl_push' || kind === 'mooncake'))
    return meetOther(exchange, rank, prompt, params, id.answer)
  if (!params || !server.nixl) return none
  if (params['do_remote_decode'] === true) return holdForDecode(exchange, rank, id)
  if (params['do_remote_prefill'] !== true) return none
  if (!Array.isArray(params['remote_block_ids'])) {
    // The real engine core fails an assertion and takes the server with it.
    setImmediate(() => void server.crash())
    const message = 'EngineCore encountered an issue. See stack trace (above) for the root cause.'
    throw new Refusal(500, vllmError(message, 'InternalServerError', null, 500))
  }
  return readFromPrefill(exchange, rank, prompt, params)
}

function holdForDecode(exchange: Exchange, rank: number, id: TransferContext): Transfer {
  const { server } = exchange
  const nixl = server.nixl!
  return {
    spec: { keepsBlocks: true, choices: 1 },
    params(generation, [choice]) {
      const [request] = generation.requests
      if (choice?.reason === 'abort' || request === undefined) return null // nothing is held for who left
      const requestId = `${id.answer}${id.suffix}-${server.newId().slice(0, 8)}`
      const blocks = nixl.hold(requestId, server.ranks[rank]!, request)
      const hasBlocks = !server.faults.strike('transfer_missing_keys')
      return {
        do_remote_prefill: true,
        do_remote_decode: false,
        ...(hasBlocks ? { remote_block_ids: [blocks] } : {}),
        remote_engine_id: nixl.engineId,
        remote_request_id: requestId,
        remote_host: server.options.host,
        remote_port: server.faults.strike('transfer_wrong_port') ? 1 : nixl.port,
        tp_size: 1,
        dcp_size: 1,
        pp_size: 1,
        remote_num_tokens: request.promptTokens,
        remote_blocks_expiry_time: null,
        transfer_mode: 'pull',
        ...(request.generated === 1 ? { remote_prefill_cached_tokens: request.cachedTokens } : {}),
      }
    },
  }
}

async function readFromPrefill(
  exchange: Exchange,
  rank: number,
  prompt: readonly number[],
  params: Json,
): Promise<Transfer> {
  const { server } = exchange
  const nixl = server.nixl!
  const source = {
    host: textOf(params, 'remote_host') ?? '',
    port: numberOf(params, 'remote_port') ?? 0,
    engineId: textOf(params, 'remote_engine_id') ?? '',
    requestId: textOf(params, 'remote_request_id') ?? '',
  }
  const reportedCachedTokens = numberOf(params, 'remote_prefill_cached_tokens')
  if (server.ranks[rank]!.hasPrefix(prompt)) {
    nixl.forget(source)
    return { spec: { reportedCachedTokens }, params: () => null }
  }
  const gone = goneController(exchange)
  // A decode that is given up before it has read says so, and the prefill side lets go.
  const letGo = (): void => nixl.forget(source)
  gone.signal.addEventListener('abort', letGo, { once: true })
  try {
    const { isIntact } = await nixl.read(source, numberOf(params, 'remote_num_tokens') ?? prompt.length, gone.signal)
    gone.signal.removeEventListener('abort', letGo)
    return {
      spec: { externalTokens: prompt.length - 1, isExternalWrong: !isIntact, reportedCachedTokens },
      params: () => null,
    }
  } catch {
    throw new Refusal(500, vllmError('Internal server error', 'InternalServerError', null, 500))
  }
}
