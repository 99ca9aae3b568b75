/**
 * Whether a request may reach an engine that ends by what it does not look at itself (docs/decisions/0259). It is looked at once: before
 * anything is sent, where such an engine serves the model; else when it goes to one that joined while the request waited.
 */
import type { EngineKind } from '../../engines/index.js'
import { idFields } from '../../engines/index.js'
import type { GatewayContext } from '../context.js'
import type { Steps } from '../steps.js'
import { checkIds } from './check-ids.js'
import { checkValues } from './check-values.js'
import type { Prepared } from './prepare.js'

type Context = Pick<GatewayContext, 'allowedEngineFields'>

/** Throws `WR_INVALID_BODY` or `WR_INVALID_TOKEN_ID`. */
export function* checkHarmless(prepared: Prepared, context: Context): Steps<void> {
  for (const kind in idFields)
    if (prepared.model.hasEngine(kind as EngineKind)) yield* checkFor(kind as EngineKind, prepared, context)
}

/** The same, of the engine that is about to get it. In one go: it is sent in this turn of the loop, and seldom was not looked at before. */
export function requireHarmless(kind: EngineKind, prepared: Prepared, context: Context): void {
  if (!Object.hasOwn(idFields, kind) || prepared.harmlessTo?.has(kind)) return
  const steps = checkFor(kind, prepared, context)
  while (!steps.next().done);
}

function* checkFor(kind: EngineKind, prepared: Prepared, context: Context): Steps<void> {
  if (!prepared.row.isIdle) {
    yield* checkValues(kind, prepared, context)
    yield* checkIds(kind, prepared)
  }
  ;(prepared.harmlessTo ??= new Set()).add(kind)
}
