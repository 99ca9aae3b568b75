/** Whether a request takes part in session affinity, and how. */
import type { Prepared } from '../request/prepare.js'
import { backendOf } from '../request/route-request.js'
import type { SessionTie } from './session-affinity.js'

/** How often a session may turn out to live on a worker that cannot serve before the request goes without it. */
const looksMax = 3

/**
 * Undefined: no affinity for this request. A session inside a worker (`nvext.session_control`) has rules of its own, and a
 * dry run only looks. A binding to a worker that cannot serve is given up, and the request chooses anew.
 */
export async function tieOf(prepared: Prepared, signal: AbortSignal): Promise<SessionTie | undefined> {
  const { model, hints } = prepared
  const { affinity, fleet } = model
  const { session, sessionControl, isDryRun, dpRank } = hints
  if (!affinity || !session || sessionControl || isDryRun) return undefined
  const named = hints.decodeWorkerId ?? backendOf(prepared)
  const explicitTarget = named === undefined ? undefined : { workerId: named, dpRank }
  const tie = await affinity.tie({ sessionId: session.sessionId, isFinal: session.isFinal, explicitTarget }, signal)
  try {
    for (let look = 1; tie.target && !fleet.get(tie.target.workerId)?.mayServe; look++) {
      tie.lost()
      if (look === looksMax) return undefined
      await tie.again()
    }
    return tie
  } catch (error) {
    tie.end()
    throw error
  }
}
