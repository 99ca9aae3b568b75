/** Undoes the rounding of a trace's times. */
import { drawsOf } from './draws.js'
import type { TraceRequest } from './trace.js'

/**
 * Spreads arrivals evenly over the `smoothMs` after their time. Mooncake's times are multiples of 3 s, so about ten requests
 * arrive at one instant; much of the queueing that a replay sees there is made by that rounding. Later turns of a session
 * keep their place behind the turn before them.
 */
export function smoothArrivals(trace: readonly TraceRequest[], smoothMs: number, seed: number): TraceRequest[] {
  const draw = drawsOf(seed + 104729)
  const moved = trace.map((request) => ({ ...request, arrivalMs: request.arrivalMs + draw() * smoothMs }))
  for (const request of moved)
    if (request.follows) request.arrivalMs = Math.max(request.arrivalMs, moved[request.follows.index]!.arrivalMs)
  const order = [...moved].sort((a, b) => a.arrivalMs - b.arrivalMs || a.index - b.index)
  const place = new Int32Array(moved.length)
  for (const [index, request] of order.entries()) place[request.index] = index
  return order.map((request, index) => {
    const { follows } = request
    return follows
      ? { ...request, index, follows: { ...follows, index: place[follows.index]! } }
      : { ...request, index }
  })
}
