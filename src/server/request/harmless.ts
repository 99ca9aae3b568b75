/**
 * Whether a request may reach an engine that ends by what it does not look at itself (docs/decisions/0259). It is looked at once: before
 * anything is sent, where such an engine serves the model; else when it goes to one that joined while the request waited.
 */
import type { EngineKind } from '../../engines/index.js'
import { idFields } from '../../engines/index.js'
import type { GatewayContext } from '../context.js'
import type { Steps } from '../steps.js'
import { takeSteps } from '../steps.js'
import { checkIds } from './check-ids.js'
import { checkValues } from './check-values.js'
import type { Prepared } from './prepare.js'

type Context = Pick<GatewayContext, 'allowedEngineFields'>

/** Throws `WR_INVALID_BODY` or `WR_INVALID_TOKEN_ID`. */
export function* checkHarmless(prepared: Prepared, context: Context): Steps<void> {
  for (const kind in idFields)
    if (prepared.model.hasEngine(kind as EngineKind)) yield* checkFor(kind as EngineKind, prepared, context)
}

/**
 * The same, of the engine that is about to get it: to be awaited before anything is sent there. Undefined for almost every request, which was
 * looked at before. `requireWanted` throws once nobody waits for the answer any more.
 */
export function lookHarmless(
  kind: EngineKind,
  prepared: Prepared,
  context: Context,
  requireWanted: () => void,
): Promise<void> | undefined {
  if (isHarmless(kind, prepared)) return undefined
  const looking = takeSteps(whileWanted(checkFor(kind, prepared, context), requireWanted))
  return looking instanceof Promise ? looking : undefined
}

/** It was looked at, or nothing in it ends this kind of engine. */
export function isHarmless(kind: EngineKind, { harmlessTo }: Prepared): boolean {
  return !Object.hasOwn(idFields, kind) || harmlessTo?.has(kind) === true
}

function* whileWanted(steps: Steps<void>, requireWanted: () => void): Steps<void> {
  while (!steps.next().done) {
    yield
    requireWanted()
  }
}

function* checkFor(kind: EngineKind, prepared: Prepared, context: Context): Steps<void> {
  if (!prepared.row.isIdle) {
    yield* checkValues(kind, prepared, context)
    yield* checkIds(kind, prepared)
  }
  ;(prepared.harmlessTo ??= new Set()).add(kind)
}
