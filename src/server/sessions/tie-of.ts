/** Whether a request takes part in session affinity, and how: its decode half, or all of it, and its prefill half. */
import { prefillPin } from '../pairs/prefill-route.js'
import type { Prepared } from '../request/prepare.js'
import { backendOf } from '../request/route-request.js'
import type { PrefillSide } from '../pairs/prefill-side.js'
import type { SessionAffinity, SessionTie, TieRequest } from './session-affinity.js'

/** How often a session may turn out to live on a worker that cannot serve before the request goes without it. */
const looksMax = 3

/** Undefined: no affinity for this request. */
export function tieOf(prepared: Prepared, signal: () => AbortSignal): Promise<SessionTie | undefined> | undefined {
  const { affinity, fleet } = prepared.model
  const { session } = prepared.hints
  if (!affinity || !session || !takesPart(prepared)) return undefined
  const named = prepared.hints.decodeWorkerId ?? backendOf(prepared)
  const explicitTarget = named === undefined ? undefined : { workerId: named, dpRank: prepared.hints.dpRank }
  return liveTie(affinity, { ...session, explicitTarget }, (id) => fleet.get(id)?.mayServe === true, signal())
}

/** Of the prefill half, which lives by itself: the sessions of the two have different workers. */
export function prefillTieOf(
  prepared: Prepared,
  side: PrefillSide,
  signal: AbortSignal,
): Promise<SessionTie | undefined> | undefined {
  const { prefillAffinity } = prepared.model
  const { session } = prepared.hints
  if (!prefillAffinity || !session || !takesPart(prepared)) return undefined
  const explicitTarget = prefillPin({ side, prepared })
  return liveTie(prefillAffinity, { ...session, explicitTarget }, (id) => side.fleet.get(id)?.mayServe === true, signal)
}

/** A session inside a worker (`nvext.session_control`) has rules of its own, and a dry run only looks. */
function takesPart({ hints }: Prepared): boolean {
  return !hints.sessionControl && !hints.isDryRun
}

async function liveTie(
  affinity: SessionAffinity,
  { sessionId, isFinal, explicitTarget }: TieRequest,
  mayServe: (workerId: bigint) => boolean,
  signal: AbortSignal,
): Promise<SessionTie | undefined> {
  const tie = await affinity.tie({ sessionId, isFinal, explicitTarget }, signal)
  try {
    return (await stayLive(tie, mayServe)) ? tie : undefined
  } catch (error) {
    tie.end()
    throw error
  }
}

/** A binding to a worker that cannot serve is given up, and the request chooses anew. False: it goes without its session. */
export async function stayLive(tie: SessionTie, mayServe: (workerId: bigint) => boolean): Promise<boolean> {
  for (let look = 1; tie.target && !mayServe(tie.target.workerId); look++) {
    tie.lost()
    if (look === looksMax) return false
    await tie.again()
  }
  return true
}
