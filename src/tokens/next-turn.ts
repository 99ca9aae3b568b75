/** Lets everybody else have a turn of the loop: work on a long array is done in slices, with this between them. */
import { setImmediate } from 'node:timers/promises'

/** Ids that one slice takes: under a millisecond where the code is warm, about three where it is not (docs/decisions/0133). */
export const sliceIds: number = 128 << 10

export function nextTurn(): Promise<void> {
  return setImmediate()
}
