/** Whether a request asks for what would end one of the model's engines, by a value that such a field cannot have. */
import { WarmrouteError } from '../../core/protocol/index.js'
import { fatalValue } from '../../engines/index.js'
import type { Prepared } from './prepare.js'

/** Throws `WR_INVALID_BODY`. */
export function checkValues({ model, body }: Pick<Prepared, 'model' | 'body'>): void {
  if (!model.hasEngine('sglang')) return
  const fatal = fatalValue(body, model.spec.tokenizer?.idMax)
  if (!fatal) return
  const { param, reason } = fatal
  throw new WarmrouteError('WR_INVALID_BODY', { message: `\`${param}\` ${reason}.`, param })
}
