/** Whether a request asks for what would end or hold up an engine, by fields that routing has no use for. */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { EngineKind } from '../../engines/index.js'
import { fatalValue, unboundedField } from '../../engines/index.js'
import type { GatewayContext } from '../context.js'
import type { Prepared } from './prepare.js'

/** Throws `WR_INVALID_BODY`. */
export function checkValues(
  kind: EngineKind,
  { model, body }: Pick<Prepared, 'model' | 'body'>,
  { allowedEngineFields }: Pick<GatewayContext, 'allowedEngineFields'>,
): void {
  if (kind !== 'sglang') return
  const fatal = fatalValue(body, model.spec.tokenizer)
  if (fatal) throw refused(fatal.param, fatal.reason)
  const unbounded = unboundedField(body, allowedEngineFields)
  if (unbounded !== undefined) throw refused(unbounded, 'is not passed on, unless `allowed_engine_fields` names it')
}

function refused(param: string, reason: string): WarmrouteError {
  return new WarmrouteError('WR_INVALID_BODY', { message: `\`${param}\` ${reason}.`, param })
}
