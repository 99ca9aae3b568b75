import fc from 'fast-check'
import { expect, it } from 'vitest'
import { FleetModel } from '../load/index.js'
import {
  defaultRouterConfig,
  defaultWorkerConfig,
  newMatchColumns,
  RankTable,
  resetMatchColumns,
  WorkerTable,
} from '../protocol/index.js'
import { newLoadColumns, newLoadDetail } from '../sequences/index.js'
import { costSettingsOf } from './cost-settings.js'
import type { SelectionRequest } from './worker-selector.js'
import { DefaultWorkerSelector } from './worker-selector.js'
import { WarmCostPolicy } from './warm-cost.js'

/** 1 ms a token and nothing else, so that terms can be read off. */
const profile = { base: 0, perToken: 1, perToken2: 0, perTokenPrefix: 0 }

interface RankState {
  readonly cached?: number
  readonly shared?: number
  readonly waitMs?: number
  readonly prefilling?: number
  readonly active?: number
  readonly context?: number
  readonly used?: number
  readonly usually?: number
  readonly usualContext?: number
  readonly taint?: string
}

function scene(
  states: readonly RankState[],
  promptTokens = 160,
  /** Stretches of the prompt: blocks up to the end of each, and running requests for each rank that has it. */
  crowds: readonly (readonly [number, number])[] = [],
  wishes: Partial<SelectionRequest> = {},
): { costs: () => number[]; pick: () => bigint; explain: (row: number) => unknown } {
  const ranks = new RankTable()
  const workers = new WorkerTable(ranks)
  for (const [id, { taint }] of states.entries()) {
    const taints = new Set(taint === undefined ? [] : [taint])
    workers.set(BigInt(id), { ...defaultWorkerConfig, totalKvBlocks: 1000, taints })
  }
  const match = newMatchColumns()
  resetMatchColumns(match, states.length)
  const load = newLoadColumns(states.length)
  load.rankCount = states.length
  load.detail = newLoadDetail(states.length)
  load.detail.crowds.count = crowds.length
  for (const [at, [end, perHolder]] of crowds.entries()) {
    load.detail.crowds.ends[at] = end
    load.detail.crowds.perHolder[at] = perHolder
  }
  for (const [rank, state] of states.entries()) {
    match.device[rank] = state.cached ?? 0
    load.isTracked[rank] = 1
    load.activeRequests[rank] = state.active ?? 0
    load.decodeBlocks[rank] = state.used ?? 10
    load.detail.prefillMs[rank] = state.waitMs ?? 0
    load.detail.prefillRequests[rank] = state.prefilling ?? 0
    load.detail.contextBlocks[rank] = state.context ?? 0
    load.detail.sharedBlocks[rank] = state.shared ?? 0
    load.detail.usualDecoding[rank] = state.usually ?? 0
    load.detail.usualContextBlocks[rank] = state.usualContext ?? 0
  }
  const request: SelectionRequest = {
    promptTokens,
    blockTokens: 16,
    label: 'decode',
    settings: costSettingsOf(defaultRouterConfig),
    load,
    cache: { match },
    trackedBlocks: Math.floor(promptTokens / 16),
    draw: 0,
    ...wishes,
  }
  const model = new FleetModel({ profile, isLearning: false })
  const selector = new DefaultWorkerSelector({ costs: new WarmCostPolicy({ workers, model }) })
  return {
    pick: () => selector.selectWorker(workers, request).worker.workerId,
    costs: () => {
      selector.select(workers, request)
      return Array.from(selector.rows.costs.subarray(0, states.length))
    },
    explain: (row) => {
      selector.select(workers, request)
      return selector.explain(row, request).milliseconds
    },
  }
}

it('costs the prefill of what is not cached', () => {
  expect(scene([{}, { cached: 4 }, { cached: 10 }]).costs()).toEqual([160, 96, 0])
})

it('takes what running requests share for cached, whichever is more', () => {
  expect(
    scene([
      { cached: 2, shared: 6 },
      { cached: 6, shared: 2 },
    ]).costs(),
  ).toEqual([64, 64])
})

it('adds the prefill that waits there, so that a warm but busy worker can lose', () => {
  const { costs, pick } = scene([{ cached: 10, waitMs: 200, prefilling: 1, active: 1 }, {}])
  expect(costs()).toEqual([200, 160])
  expect(pick()).toBe(1n)
})

it('counts the standstill of those who decode, a fifteenth of it', () => {
  expect(scene([{ active: 3 }, {}]).explain(0)).toMatchObject({ own: 160, stall: 480 })
})

it('counts how contexts slow each other', () => {
  const [cold, read] = scene([{}, { active: 2, context: 100 }]).costs()
  expect(read!).toBeGreaterThan(cold! + (2 * 160) / 15)
})

it('counts the steps of those who decode there before the first token', () => {
  const [idle, beside] = [
    scene([{ cached: 10 }]).explain(0),
    scene([{ cached: 10, active: 2, context: 1000 }]).explain(0),
  ]
  expect(idle).toMatchObject({ step: 0 })
  expect(beside).toMatchObject({ step: expect.closeTo(1.5 * (6 + (54 / 1_048_576) * 16_000), 6) })
})

it('prices no prefill where the prompt was computed elsewhere, and still the decoding', () => {
  const elsewhere = scene(
    [
      { active: 1, context: 100 },
      { active: 3, context: 300 },
      { cached: 10, active: 3, context: 300 },
    ],
    160,
    [[8, 6]],
    {
      isPrefilledElsewhere: true,
    },
  )
  expect(elsewhere.explain(0)).toMatchObject({ own: 0, copy: 0, stall: 0 })
  expect(elsewhere.pick()).toBe(0n)
  const [, cold, cached] = elsewhere.costs()
  expect(cold).toBe(cached)
})

it('goes where it is wished to, where nothing is waited for', () => {
  const wishes = { isPrefilledElsewhere: true, constraints: { preferredTaints: { near: 1 } } }
  expect(scene([{}, {}, { taint: 'near' }], 160, [], wishes).pick()).toBe(2n)
  expect(scene([{}, { waitMs: 40 }, { waitMs: 500, taint: 'near' }], 160, [], wishes).pick()).toBe(0n) // but not at any price
})

it('nobody decodes on a rank that only prefills', () => {
  const prefill = scene([{ active: 3, context: 300 }, {}], 160, [], { label: 'prefill' })
  expect(prefill.costs()).toEqual([160, 160])
  expect(prefill.explain(0)).toMatchObject({ own: 160, step: 0, stall: 0, decode: 0 })
})

it('avoids a pool that is nearly full', () => {
  expect(scene([{ used: 800 }]).explain(0)).toMatchObject({ full: 0 })
  expect(scene([{ used: 1000 }]).explain(0)).toMatchObject({ full: 200 * 5 })
})

it('takes part of the price off a second copy of a prefix that requests crowd around', () => {
  const states = [{ cached: 8 }, {}, { cached: 2 }]
  expect(scene(states, 160, [[8, 1]]).costs()).toEqual([32, 160, 128]) // one request each: nobody crowds
  expect(scene(states, 160, [[8, 1.5]]).costs()).toEqual([32, 160, 128]) // three for two holders: no crowd yet
  // Four blocks have six requests at their holder, four more have three: worth 3/4 and 1/2 of 64 ms each.
  const crowded = scene(states, 160, [
    [4, 6],
    [8, 3],
  ])
  expect(crowded.costs()).toEqual([32, 160 - 48 - 32, 128 - 24 - 32])
  expect(crowded.explain(1)).toMatchObject({ own: 160, copy: 80 })
})

it('gives nothing for blocks that nobody holds, however crowded they will be', () => {
  expect(scene([{ cached: 2 }, {}], 160, [[10, 7.5]]).costs()).toEqual([128, 160 - 32 * 0.8])
})

it('counts what a rank usually carries where a crowded prefix is not everywhere, and nowhere else', () => {
  const busy = { cached: 4, usually: 3, usualContext: 200 }
  const idle = { cached: 4 }
  const spreading = scene([busy, idle, {}], 160, [[4, 6]])
  expect(spreading.explain(0)).toMatchObject({ own: 96, stall: 96 * 3 })
  expect(spreading.explain(1)).toMatchObject({ own: 96, stall: 0, decode: 0 })
  expect(spreading.costs()[0]).toBeGreaterThan(spreading.costs()[1]! + (96 * 3) / 15)
  for (const calm of [scene([busy, idle], 160, [[4, 6]]), scene([busy, idle, {}], 160, [[4, 1]])])
    expect(calm.costs().slice(0, 2)).toEqual([96, 96])
})

// Goal: the loop over columns is the sum of the terms that a receipt shows, whatever the state of a rank.
it('prices rows as their terms add up', () => {
  const state = fc.record({
    cached: fc.nat(12),
    shared: fc.nat(12),
    waitMs: fc.nat(500),
    prefilling: fc.nat(4),
    active: fc.nat(8),
    context: fc.nat(900),
    used: fc.nat(1200),
    usually: fc.nat(5),
    usualContext: fc.nat(900),
  })
  const crowd = fc.constantFrom(
    [],
    [[3, 4]],
    [
      [2, 5],
      [6, 2],
    ],
    [[4, 1]],
  ) as fc.Arbitrary<[number, number][]>
  fc.assert(
    fc.property(
      fc.array(state, { minLength: 1, maxLength: 6 }),
      fc.integer({ min: 1, max: 200 }),
      crowd,
      fc.record({ label: fc.constantFrom('prefill' as const, 'decode' as const), isPrefilledElsewhere: fc.boolean() }),
      (states, prompt, crowds, wishes) => {
        const { costs, explain } = scene(states, prompt, crowds, wishes)
        for (const [row, cost] of costs().entries()) {
          const { own, copy, wait, step, stall, decode, full } = explain(row) as Record<string, number>
          expect(cost).toBeCloseTo(wait! + step! + own! - copy! + (stall! + decode!) / 15 + full!, 6)
        }
      },
    ),
  )
})
