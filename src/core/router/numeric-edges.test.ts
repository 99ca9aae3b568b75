// Goal: no number in any field leaves a trace that is no number. Method: every numeric field of every input gets each bad value;
// whatever becomes of it, it is a typed refusal or a decision, the next request is placed, and everything returns to zero.
import { expect, it } from 'vitest'
import { KvIndex, TsIndex } from '../index/index.js'
import type { RouterConfigInput } from '../protocol/index.js'
import { toHashColumn, WarmrouteError } from '../protocol/index.js'
import type { Ask } from './fleet.case.js'
import { Fleet } from './fleet.case.js'
import type { Moment } from './moment.js'

const values = [Number.NaN, Infinity, -Infinity, -1, -0, 0.5, 1.5, 2 ** 53, 1e308]

type Field = readonly [name: string, use: (fleet: Fleet, value: number) => unknown]

const asking = (name: string, askOf: (value: number) => Ask): Field => [
  name,
  (fleet, value) => fleet.ask('bad', askOf(value)),
]

const booking = { requestId: 'bad', promptTokens: 64, blockCount: 0, isQueryOnly: false }
const here = { workerId: 0n, dpRank: 0 }
const at = (fleet: Fleet, moment: Partial<Moment>): Moment => ({ ...fleet.moment, ...moment })
const hashes = toHashColumn([1n, 2n])

const fields: readonly Field[] = [
  asking('promptTokens', (promptTokens) => ({ promptTokens, blocks: [] })),
  asking('blockCount', (blockCount) => ({ blockCount })),
  asking('priorityJump', (priorityJump) => ({ priorityJump })),
  asking('strictPriority', (strictPriority) => ({ strictPriority })),
  asking('expectedOutputTokens', (expectedOutputTokens) => ({ expectedOutputTokens })),
  asking('pin', (dpRank) => ({ pin: { workerId: 0n, dpRank } })),
  asking('preferredTaints', (x) => ({ constraints: { preferredTaints: { x } } })),
  asking('overlapScoreCredit', (overlapScoreCredit) => ({ override: { overlapScoreCredit } })),
  asking('prefillLoadScale', (prefillLoadScale) => ({ override: { prefillLoadScale } })),
  asking('routerTemperature', (routerTemperature) => ({ override: { routerTemperature } })),
  asking('sharedCacheMultiplier', (sharedCacheMultiplier) => ({ override: { sharedCacheMultiplier } })),
  ['now of a decision', (fleet, nowMs) => fleet.core.decide(booking, at(fleet, { nowMs }))],
  ['draw', (fleet, value) => fleet.core.decide(booking, at(fleet, { draw: () => value }))],
  ['cachedTokens', (fleet, value) => fleet.core.book(booking, here, value, fleet.moment)],
  ['dpRank of a booking', (fleet, dpRank) => fleet.core.book(booking, { workerId: 0n, dpRank }, 0, fleet.moment)],
  ['now of a booking', (fleet, nowMs) => fleet.core.book(booking, here, 0, at(fleet, { nowMs }))],
  ['now of a mark', (fleet, nowMs) => fleet.core.markPrefillCompleted('runs', at(fleet, { nowMs }))],
  ['now of an output', (fleet, nowMs) => fleet.core.addOutputBlock('runs', at(fleet, { nowMs }))],
  ['fraction', (fleet, value) => fleet.core.addOutputBlock('runs', fleet.moment, value)],
  ['now of a free', (fleet, nowMs) => fleet.core.free('runs', at(fleet, { nowMs }))],
  ['dpRank of a free', (fleet, dpRank) => fleet.core.freeIfOn('runs', { workerId: 0n, dpRank }, fleet.moment)],
  ['now of a recheck', (fleet, nowMs) => fleet.core.recheck(at(fleet, { nowMs }))],
  ['now of an expiry', (fleet, nowMs) => fleet.core.expire(at(fleet, { nowMs }))],
  ['rank', (fleet, rank) => fleet.core.setWithheld(rank, true)],
  ['blockCount of a decision', (fleet, n) => fleet.core.recordDecision(here, hashes, hashes, n, fleet.moment)],
  [
    'now of a decision kept',
    (fleet, nowMs) => fleet.core.recordDecision(here, hashes, hashes, 2, at(fleet, { nowMs })),
  ],
  ...(['dataParallelStartRank', 'dataParallelSize', 'maxNumBatchedTokens', 'totalKvBlocks'] as const).map(
    (name): Field => [
      name,
      (fleet, value) => {
        const config = { dataParallelStartRank: 0, dataParallelSize: 1, maxNumBatchedTokens: 100, [name]: value }
        fleet.core.setWorker(9n, config, fleet.moment)
      },
    ],
  ),
  ...(['tokens', 'durationMs', 'expectedOutputTokens', 'dpRank'] as const).map(
    (name): Field => [
      `${name} of a peer`,
      (fleet, value) => {
        const { dpRank = 0, expectedOutputTokens, ...hint } = { tokens: 5, [name]: value } as Record<string, number>
        const prefillLoadHint = { tokens: hint['tokens']!, durationMs: hint['durationMs'] }
        const data = { kind: 'add_request', trackPrefillTokens: true, expectedOutputTokens, prefillLoadHint } as const
        fleet.core.applyReplica(
          [{ requestId: 'bad', worker: { workerId: 0n, dpRank }, routerId: 9n, data }],
          fleet.moment,
        )
      },
    ],
  ),
]

function newFleet(config: RouterConfigInput): Fleet {
  const index: NonNullable<ConstructorParameters<typeof Fleet>[0]>['index'] = (ranks) =>
    new KvIndex({
      ranks,
      device: new TsIndex({ seedLo: 1, seedHi: 2 }),
      approximateTtlMs: 1000,
      startMs: 0,
      seed: 1,
    })
  const fleet = new Fleet({ workers: 2, config, index, estimatePrefill: (tokens) => tokens })
  fleet.nowMs = 10
  fleet.ask('runs', { pin: here })
  return fleet
}

it.each([
  { says: 'blocks', config: { routerQueueThreshold: 0 } },
  { says: 'milliseconds', config: { policy: 'warm' } },
  { says: 'held', config: { policy: 'warm', routerLateBinding: true } },
] as const)('no bad number leaves a trace: $says', ({ config }) => {
  for (const [name, use] of fields)
    for (const value of values) {
      const fleet = newFleet(config)
      const note = `${name} ${Object.is(value, -0) ? '-0' : value}`
      try {
        use(fleet, value)
      } catch (error) {
        expect(error, note).toBeInstanceOf(WarmrouteError)
      }
      fleet.nowMs = 20
      const next = fleet.ask('next')
      expect(next.kind === 'refused' ? next.error.message : '', note).toBe('')
      settle(fleet, note)
    }
})

/** Ends everything, and expects finite figures on the way and none at the end. */
function settle(fleet: Fleet, note: string): void {
  const { sequences, ranks } = fleet.core
  const figures = ranks.live().flatMap((rank) => [sequences.activeBlocks(rank), sequences.activeTokens(rank, 20)])
  expect(
    figures.every((it) => Number.isFinite(it) && it >= 0),
    note,
  ).toBe(true)
  for (let turn = 0; turn < 5; turn++) {
    fleet.nowMs += 1000
    for (const id of ['runs', 'bad', 'next']) {
      const parked = fleet.core.parkedOf(id)
      if (parked && turn === 4) fleet.core.cancel(parked)
      else fleet.core.free(id, fleet.moment)
    }
    fleet.recheck()
  }
  expect([sequences.requestCount, fleet.core.pendingCount, fleet.core.pendingIslTokens], note).toEqual([0, 0, 0])
  for (const rank of ranks.live())
    expect([sequences.activeBlocks(rank), sequences.activeTokens(rank, fleet.nowMs)], note).toEqual([0, 0])
}
