/** The policy to beat: one worker after the other. */
import type { ReplayPolicy } from './replay.js'

/**
 * One after the other, whatever they hold: what a router is compared with.
 *
 * @example
 * import { parseMooncake, replay, roundRobin } from 'warmroute/sim'
 *
 * const trace = parseMooncake('{"timestamp":0,"input_length":1024,"output_length":8,"hash_ids":[1,2]}')
 * console.log(replay(trace, { workers: 2, policy: roundRobin(2) }).reuse) // => 0
 */
export function roundRobin(workers: number): ReplayPolicy {
  let next = 0
  return { route: () => next++ % workers }
}
