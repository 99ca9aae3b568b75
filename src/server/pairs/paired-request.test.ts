import { expect, it } from 'vitest'
import { PairedRequest } from './paired-request.js'
import type { PairOptions } from './prefill-runner.js'

/** A request for an SGLang pair, whose halves start together; only what choosing needs. */
function newPair(): { readonly pair: PairedRequest; readonly booked: Set<string>; readonly holds: Set<number> } {
  const booked = new Set<string>()
  const holds = new Set<number>()
  let held = 0
  const hold = (): (() => void) => {
    const number = ++held
    holds.add(number)
    return () => void holds.delete(number)
  }
  const worker = { id: 7n, spec: { id: 7n, url: 'http://prefill:1', engine: 'sglang' }, config: {}, hold }
  const inner = {
    route: async ({ requestId }: { readonly requestId: string }) => {
      booked.add(requestId)
      return { workerId: 7n, dpRank: 0, cachedTokens: 0 }
    },
    free: (id: string) => void booked.delete(id),
  }
  const none = new Set()
  const fleet = { all: () => [worker], get: () => worker, unavailable: none, unfitFor: () => none }
  const route = (): object => ({ kind: 'remote', inner })
  const side = {
    route,
    fleet,
    disagg: { enforce: false },
    hasDecoder: true,
    hasAllRounder: true,
    blockSize: 16,
    guardHooks: {},
  }
  const model = { name: 'sim', spec: { blockSize: 16 }, fleet, looksAtPrompts: false }
  const prepared = { row: { path: '/v1/chat/completions' }, body: {}, bytes: Buffer.alloc(8), hints: {}, model }
  const signal = new AbortController().signal
  const options = { context: { now: () => 0, allowedEngineFields: new Set() }, side, prepared, id: 'a', signal }
  return { pair: new PairedRequest(options as unknown as PairOptions), booked, holds }
}

it('frees the prefill worker that was booked before a decode worker was not found', async () => {
  const { pair, booked, holds } = newPair()
  await pair.before()
  expect([[...booked], [...holds]]).toEqual([['a.p1'], [1]])
  await pair.before() // the session's decode worker has gone: both are chosen anew
  expect([[...booked], [...holds]]).toEqual([['a.p2'], [2]])
  pair.end()
  expect([booked.size, holds.size]).toEqual([0, 0])
})
