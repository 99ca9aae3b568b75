/** A request that waits. It owns copies of its columns: those it came with are filled again for the next request. */
import type { MatchColumns } from '../protocol/index.js'
import type { Entry } from '../queue/index.js'
import type { KeptMatches } from './kept-matches.js'
import { keepMatches } from './kept-matches.js'
import type { SchedulingRequest } from './scheduling-request.js'

export interface ParkedRequest {
  readonly request: SchedulingRequest
  readonly kept: KeptMatches
  readonly parkedAtMs: number
  /** Of the worker table when it was parked: tells whether a rank's number has changed hands since. */
  readonly topologyVersion: number
  /** `refreshing`: it left the queue, and its prompt is looked up again somewhere else. */
  state: 'waiting' | 'refreshing' | 'gone'
  /** Of the profile's classes. */
  classIndex: number
  /** Its place in the queue, while it waits. */
  entry: Entry<ParkedRequest> | undefined
}

export function newParkedRequest(
  request: SchedulingRequest,
  matches: MatchColumns,
  parkedAtMs: number,
  topologyVersion: number,
): ParkedRequest {
  const words = 2 * request.blockCount
  const localHashes = request.localHashes?.slice(0, words)
  const sequenceHashes = request.sequenceHashes?.slice(0, words)
  return {
    request: { ...request, localHashes, sequenceHashes },
    kept: keepMatches(matches),
    parkedAtMs,
    topologyVersion,
    state: 'gone',
    classIndex: 0,
    entry: undefined,
  }
}
