/**
 * Fields with which a client could steer an engine instead of asking it something. They are taken out unless allowed by
 * configuration: `kv_transfer_params` alone can end a vLLM engine (spec/engines.md, appendix C). Headers need no list, as
 * only known ones are passed on.
 */

import { entriesOf } from '../../core/protocol/index.js'
import type { FieldSpan } from '../scan-fields.js'
import { scanFields } from '../scan-fields.js'
import type { BodyEdit } from '../splice-body.js'
import { spliceBody } from '../splice-body.js'

type Fields = Readonly<Record<string, unknown>>

/** Names that `allowed_engine_fields` may contain. */
export const engineControlFields = [
  'bootstrap_host',
  'bootstrap_pair_key',
  'bootstrap_port',
  'bootstrap_room',
  'data_parallel_rank',
  'decode_tp_size',
  'disagg_prefill_dp_rank',
  'disaggregated_params',
  'ec_transfer_params',
  'encoder_urls',
  'http_worker_ipc',
  'kv_hints',
  'kv_transfer_params',
  'need_wait_for_mm_inputs',
  'num_items_assigned',
  'priority',
  'request_id',
  'rid',
  'routed_dp_rank',
  'session_params',
  'vllm_xargs',
] as const

/** The names to take out of this body; `nvext` is addressed to us and always goes. */
export function fieldsToRemove(
  body: Readonly<Record<string, unknown>>,
  /** What this engine in particular must not be sent. */
  strip: readonly string[],
  allowed: ReadonlySet<string>,
): Set<string> | undefined {
  let found: Set<string> | undefined
  for (const name of strip) if (Object.hasOwn(body, name) && !allowed.has(name)) (found ??= new Set()).add(name)
  for (const name of engineControlFields) {
    if (!Object.hasOwn(body, name) || allowed.has(name)) continue
    // Extra sampling arguments are harmless, except for the one through which transfer parameters can be smuggled in.
    if (name === 'vllm_xargs' && !mentionsTransfer(body[name])) continue
    ;(found ??= new Set()).add(name)
  }
  if (Object.hasOwn(body, 'nvext')) (found ??= new Set()).add('nvext')
  return found
}

function mentionsTransfer(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  for (const [name] of entriesOf(value as Fields))
    if (name.includes('transfer_params') || name.startsWith('bootstrap')) return true
  return false
}

const reportMode = 'kv_cache_report_mode'

/**
 * `vllm_xargs` without the wish that vLLM announce blocks which it holds already. Nothing tells such an event from that of
 * a second copy, but no removal follows it: the block would be credited for ever. A client gains nothing by it. Undefined:
 * there is no such wish. The other arguments stay as the client wrote them.
 */
export function xargsWithoutReport(
  body: Readonly<Record<string, unknown>>,
  bytes: Uint8Array,
  fields: () => readonly FieldSpan[],
): string | undefined {
  const args = body['vllm_xargs']
  if (typeof args !== 'object' || args === null || !Object.hasOwn(args, reportMode)) return undefined
  return editedField('vllm_xargs', bytes, fields(), { remove: new Set([reportMode]) }) ?? '{}'
}

/** A field that is an object, as the client wrote it but for the edit; undefined where it is none. */
export function editedField(
  name: string,
  bytes: Uint8Array,
  fields: readonly FieldSpan[],
  edit: BodyEdit,
): string | undefined {
  const span = fields.findLast((field) => field.name === name)
  const own = span && bytes.subarray(span.valueStart, span.valueEnd)
  const inner = own && scanFields(own)
  return inner && Buffer.concat(spliceBody(own, inner, edit)).toString('utf8')
}
