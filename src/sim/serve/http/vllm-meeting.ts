/**
 * Transfers of vLLM besides NIXL's pull. Push and Mooncake: both legs are told a name and meet under it. A shared cache: no leg
 * is told anything, and the second finds what the first has stored.
 */
import { findMooncake } from '../mooncake.js'
import { SharedStore } from '../shared-store.js'
import { within } from '../sim-world.js'
import { numberOf, textOf } from './body.js'
import type { Exchange, Json } from './exchange.js'
import { Refusal } from './exchange.js'
import type { Transfer } from './transfer.js'
import { goneController, none } from './transfer.js'
import { vllmError } from './vllm-errors.js'

/** `answer` is the id of the answer: of both legs the same, where both were sent the same `X-Request-Id`. */
export async function meetOther(
  exchange: Exchange,
  rank: number,
  prompt: readonly number[],
  params: Json,
  answer: string,
): Promise<Transfer> {
  const { server } = exchange
  const isMooncake = server.options.pair!.kind === 'mooncake'
  const given = textOf(params, 'transfer_id')
  if (isMooncake && given === undefined)
    throw new Refusal(400, vllmError('transfer_id is missing', 'BadRequestError', 'kv_transfer_params', 400))
  const name = given ?? answer
  if (params['do_remote_decode'] === true) return offer(exchange, rank, name)
  if (params['do_remote_prefill'] !== true) return none
  try {
    await fetchFrom(exchange, prompt, params, name)
  } catch {
    throw new Refusal(500, vllmError('Internal server error', 'InternalServerError', null, 500))
  }
  return { spec: { externalTokens: prompt.length - 1 }, params: () => null }
}

function offer({ server }: Exchange, rank: number, name: string): Transfer {
  return {
    spec: { keepsBlocks: true, choices: 1 },
    params(generation, [choice]) {
      const [request] = generation.requests
      if (choice?.reason !== 'abort' && request !== undefined) server.meeting!.offer(name, server.ranks[rank]!, request)
      return null
    },
  }
}

async function fetchFrom(exchange: Exchange, prompt: readonly number[], params: Json, name: string): Promise<void> {
  const { server } = exchange
  const { connectMs } = server.options.pair!
  const { clock, net } = server.world
  const gone = goneController(exchange)
  const engineId = textOf(params, 'remote_engine_id') ?? ''
  const bootstrap = textOf(params, 'remote_bootstrap_addr')
  const where =
    bootstrap === undefined
      ? { host: textOf(params, 'remote_host') ?? '', port: numberOf(params, 'remote_port') ?? 0 }
      : await findMooncake(net, bootstrap, engineId, within(clock, connectMs, gone.signal))
  await server.meeting!.fetch({ ...where, engineId, name }, prompt.length, gone.signal)
}

export function shareWithOthers({ server }: Exchange, prompt: readonly number[]): Transfer {
  const { blockTokens, pair } = server.options
  const store = SharedStore.named(pair!.store)
  return {
    spec: { externalTokens: store.find(prompt, blockTokens) },
    params() {
      store.put(prompt, blockTokens)
      return null
    },
  }
}
