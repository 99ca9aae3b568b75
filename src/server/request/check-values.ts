/** Whether a request asks for what would end or hold up an engine, by fields that routing has no use for. */
import { entriesOf, unkept, WarmrouteError } from '../../core/protocol/index.js'
import type { EngineKind } from '../../engines/index.js'
import { fatalValue, textLists, unboundedField } from '../../engines/index.js'
import type { GatewayContext } from '../context.js'
import { holdsEmptyText } from '../scan-list.js'
import type { Steps } from '../steps.js'
import { unread } from './parse-body.js'
import type { Prepared } from './prepare.js'

/** Throws `WR_INVALID_BODY`. */
export function* checkValues(
  kind: EngineKind,
  prepared: Prepared,
  { allowedEngineFields }: Pick<GatewayContext, 'allowedEngineFields'>,
): Steps<void> {
  if (kind !== 'sglang') return
  const { model, body } = prepared
  const { tokenizer } = model.spec
  const fatal = fatalValue(tokenizer?.fillsEmptyTexts ? body : yield* withEmptyTexts(prepared), tokenizer)
  if (fatal) throw refused(fatal.param, fatal.reason)
  const unbounded = unboundedField(body, allowedEngineFields)
  if (unbounded !== undefined) throw refused(unbounded, 'is not passed on, unless `allowed_engine_fields` names it')
}

/** The fields of a body, where a list of texts that is too long to be read stands for an empty one that it holds. */
function* withEmptyTexts(prepared: Prepared): Steps<Prepared['body']> {
  let { body } = prepared
  for (const name of textLists) {
    const value = Object.hasOwn(body, name) ? body[name] : undefined
    if (value !== unread && !(Array.isArray(value) && value[0] === unread)) continue
    const { valueStart, valueEnd } = prepared.fields().findLast((field) => field.name === name)!
    if (yield* holdsEmptyText(prepared.bytes, valueStart, valueEnd))
      body = unkept(new Map<string, unknown>(entriesOf(body)).set(name, ['']))
  }
  return body
}

function refused(param: string, reason: string): WarmrouteError {
  return new WarmrouteError('WR_INVALID_BODY', { message: `\`${param}\` ${reason}.`, param })
}
