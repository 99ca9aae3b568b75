// Goal: no order of requests, aborts, marks, frees, time and worker changes leaves a promise open, a request parked or a
// booking that nobody can end.
// Method: random steps on a living router; then everything is ended, and everything must be zero.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { CompatMode } from '../core/protocol/index.js'
import { openScene, plainWorker, tokensFrom } from './router.case.js'

type Step =
  | { readonly kind: 'ask'; readonly length: number; readonly pin: number; readonly recordsDecision: boolean }
  | { readonly kind: 'abort' | 'mark' | 'free'; readonly nth: number } // may name a request that is gone, or still waits
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'worker'; readonly id: number; readonly joins: boolean }
  | { readonly kind: 'turn' } // lets promises settle, so that aborts come before and after callers are told

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('ask' as const),
      length: fc.integer({ min: 1, max: 40 }),
      pin: fc.integer({ min: -4, max: 2 }),
      recordsDecision: fc.boolean(),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constantFrom('abort' as const, 'mark' as const, 'free' as const),
      nth: fc.nat(30),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.nat(70_000) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('worker' as const), id: fc.nat(2), joins: fc.boolean() }) },
  { weight: 2, arbitrary: fc.constant({ kind: 'turn' as const }) },
)

async function settleAll(): Promise<void> {
  for (let turn = 0; turn < 8; turn++) await Promise.resolve()
}

it('every promise settles, and nothing stays booked or parked', async () => {
  const compat = fc.constantFrom<CompatMode>('default', 'dynamo-1.2')
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), compat, fc.boolean(), async (steps, mode, useKvEvents) => {
      const { router, clock, workers } = await openScene({ routerQueueThreshold: 0, compat: mode, useKvEvents })
      const requests: { readonly id: string; readonly abort: AbortController; state: 'open' | 'placed' | 'ended' }[] =
        []
      for (const it of steps) {
        if (it.kind === 'ask') {
          const request = {
            id: `r${requests.length}`,
            abort: new AbortController(),
            state: 'open' as 'open' | 'placed' | 'ended',
          }
          requests.push(request)
          const pinnedWorker = it.pin < 0 ? undefined : { workerId: BigInt(it.pin), dpRank: 0 }
          const tokens = tokensFrom(it.length % 3, it.length)
          const { recordsDecision } = it
          router
            .findBestMatchDetails({
              contextId: request.id,
              tokens,
              updateStates: true,
              pinnedWorker,
              recordsDecision,
              signal: request.abort.signal,
            })
            .then(
              () => (request.state = 'placed'),
              () => (request.state = 'ended'),
            )
        } else if (it.kind === 'wait') clock.advance(it.ms)
        else if (it.kind === 'turn') await settleAll()
        else if (it.kind === 'worker') {
          if (it.joins) workers.set(BigInt(it.id), plainWorker)
          else workers.remove(BigInt(it.id))
        } else {
          const request = requests[it.nth]
          if (!request) continue
          if (it.kind === 'abort') request.abort.abort()
          else if (it.kind === 'free') router.free(request.id)
          else
            try {
              router.markPrefillCompleted(request.id)
            } catch (error) {
              expect(error).toMatchObject({ code: 'WR_REQUEST_NOT_FOUND' })
            }
        }
      }
      workers.set(0n, plainWorker)
      workers.set(1n, plainWorker)
      workers.set(2n, plainWorker)
      for (let round = 0; round <= requests.length; round++) {
        await settleAll()
        for (const { id, state } of requests) if (state === 'placed') router.free(id)
      }
      expect(requests.filter(({ state }) => state === 'open')).toEqual([])
      expect([router.pendingCount, router.pendingIslTokens, router.activeRequestCount]).toEqual([0, 0, 0])
      for (const load of router.activeLoads())
        expect(load).toMatchObject({ activeDecodeBlocks: 0, activePrefillTokens: 0 })
      await router.close()
    }),
    { numRuns: 80 },
  )
})
