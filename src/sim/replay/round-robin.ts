/** The policy to beat: one worker after the other. */
import type { ReplayPolicy } from './replay.js'

export function roundRobin(workers: number): ReplayPolicy {
  let next = 0
  return { route: () => next++ % workers }
}
