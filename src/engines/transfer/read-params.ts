/**
 * The transfer parameters of a prefill's answer, judged before they go anywhere: a decode server that is sent
 * `do_remote_prefill` without block ids ends its engine process (vLLM 0.32.0).
 */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { JsonRecord } from '../json.js'
import { asRecord } from '../json.js'

const textMax = 1024
const paramsCharsMax = 4 * 1024 * 1024

/**
 * `text` is the member `kv_transfer_params` as the prefill wrote it, and comes back as it is; undefined when the prefill
 * holds nothing, so that the decode worker computes the prompt itself. Where the prefill names a host that means only
 * itself, `peerHost` stands in. Throws `WR_ENGINE_PROTOCOL`.
 */
export function readTransferParams(text: string | undefined, peerHost: string): string | undefined {
  if (text === undefined || text === 'null') return undefined
  if (text.length > paramsCharsMax) throw refused('kv_transfer_params is too large')
  const params = parsed(text)
  judge(params)
  if (!isOwnName(params['remote_host'] as string) || isOwnName(peerHost)) return text
  return JSON.stringify({ ...params, remote_host: peerHost })
}

function parsed(text: string): JsonRecord {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw refused('kv_transfer_params is not JSON', cause)
  }
  const record = asRecord(value)
  if (!record) throw refused('kv_transfer_params is no object')
  return record
}

function judge(params: JsonRecord): void {
  if (params['do_remote_prefill'] !== true) throw refused('do_remote_prefill is not true')
  if (params['do_remote_decode'] !== false) throw refused('do_remote_decode is not false')
  if (!isBlockIds(params['remote_block_ids'])) throw refused('remote_block_ids is no list of block ids')
  for (const name of ['remote_engine_id', 'remote_host']) if (!isText(params[name])) throw refused(`${name} is no text`)
  if (!isInteger(params['remote_port'], 1, 65_535)) throw refused('remote_port is no port')
  const { remote_request_id: requestId, transfer_mode: mode } = params
  if (requestId !== undefined && !isText(requestId)) throw refused('remote_request_id is no text')
  for (const name of ['tp_size', 'pp_size', 'dcp_size', 'remote_num_tokens'])
    if (params[name] !== undefined && !isInteger(params[name], 1)) throw refused(`${name} is no count`)
  if (mode !== undefined && mode !== 'pull') throw refused('transfer_mode is not pull')
}

/** A flat list up to vLLM 0.17, a list per cache group since; a group may hold nothing, all of them may not. */
function isBlockIds(value: unknown): boolean {
  if (!Array.isArray(value) || value.length === 0) return false
  const lists: readonly unknown[] = Array.isArray(value[0]) ? value : [value]
  let count = 0
  for (const list of lists) {
    if (!Array.isArray(list)) return false
    for (const id of list as unknown[]) if (!isInteger(id, 0)) return false
    count += list.length
  }
  return count > 0
}

function isOwnName(host: string): boolean {
  return host === 'localhost' || host === '0.0.0.0' || host === '::' || host === '::1' || host.startsWith('127.')
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== '' && value.length <= textMax
}

function isInteger(value: unknown, min: number, max: number = Number.MAX_SAFE_INTEGER): boolean {
  return Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max
}

function refused(why: string, cause?: unknown): WarmrouteError {
  const reason = `the answer of the prefill worker cannot be passed on: ${why}`
  return new WarmrouteError('WR_ENGINE_PROTOCOL', { reason }, cause === undefined ? undefined : { cause })
}
