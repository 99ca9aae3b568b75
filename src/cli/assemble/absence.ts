/** Why a worker that is known takes no requests, in words that follow its name. Pure. */
import type { WorkerKeeper } from './worker-keeper.js'

/** `refusal`: why it was not taken in when it answered. `isEarly`: it answers, and waits for somebody who decodes. */
export function absenceOf(
  { trouble }: Pick<WorkerKeeper, 'trouble'>,
  refusal: string | undefined,
  isEarly: boolean,
): string {
  if (trouble !== undefined) return `does not answer yet: ${trouble}`
  if (refusal !== undefined) return `is refused: ${refusal}`
  return isEarly ? 'only prefills, and nobody decodes its model yet' : 'does not answer yet'
}
