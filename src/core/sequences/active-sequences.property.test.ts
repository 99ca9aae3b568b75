// Goal: no order of bookings, marks, output blocks, frees, expiries and topology changes leaves a rank with load that it
// does not carry, or makes a query see blocks that are not there.
// Method: the same steps drive the tracker and the naive model, and every reading is compared after every step. Prompts
// are short words over three letters, so that sharing, splitting and merging of runs is common.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { RankTable, toHashColumn } from '../protocol/index.js'
import { ActiveSequences } from './active-sequences.js'
import { newLoadColumns } from './load-columns.js'
import { NaiveSequences } from './naive-sequences.case.js'

const rankCount = 4
const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l']

const anyId = fc.constantFrom(...ids)
const anyRank = fc.nat({ max: rankCount - 1 })
const anyPrompt = fc.array(fc.nat({ max: 2 }), { maxLength: 9 })
// Eighths are exact in binary, so that the model's sum of doubles is exact too.
const anyFraction = fc.option(
  fc.nat({ max: 8 }).map((eighths) => eighths / 8),
  { nil: undefined },
)
const anyPrefill = fc.option(
  fc.record({
    tokens: fc.nat({ max: 100 }),
    durationMs: fc.option(fc.constantFrom(0, 1000, 7000), { nil: undefined }),
  }),
  { nil: undefined },
)
const anyStep = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('book' as const),
      id: anyId,
      rank: anyRank,
      prompt: anyPrompt,
      prefill: anyPrefill,
      lora: fc.constantFrom(undefined, 'sql', 'chat'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('mark' as const), id: anyId }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('output' as const), id: anyId, fraction: anyFraction }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('free' as const), id: anyId }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(1, 900, 31_000, 200_000) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('expire' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('track' as const), rank: anyRank }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('untrack' as const), rank: anyRank }) },
)
type Step = typeof anyStep extends fc.Arbitrary<infer T> ? T : never

/** The chain of a word: each block's hash stands for everything up to it. */
function chain(word: readonly number[]): bigint[] {
  let hash = 1n
  return word.map((letter) => (hash = hash * 4n + BigInt(letter)))
}

it.each(['anchor', 'full'] as const)(
  'carries exactly what a recount carries, after every step, with %s decay',
  (decay) => {
    fc.assert(
      fc.property(fc.array(anyStep, { maxLength: 60 }), anyPrompt, (steps, query) => {
        const run = start(decay)
        for (const step of steps) {
          apply(run, step)
          compare(run, query)
        }
        for (const id of ids) {
          run.real.free(id, run.nowMs)
          run.model.free(id, run.nowMs)
        }
        compare(run, query)
        expect([run.real.requestCount, run.real.runCount, run.real.activeLoraCounts().size]).toEqual([0, 0, 0])
      }),
      { numRuns: 400 },
    )
  },
)

// Few ids on two ranks, mostly output blocks: fractions that differ along a prompt while runs are cut and grow together.
it.each([
  { says: 'two ranks', ranks: 2 },
  { says: 'one rank', ranks: 1 },
])('keeps the weight of every block while runs are cut and merged, on $says', ({ ranks }) => {
  const few = fc.constantFrom('a', 'b', 'c', 'd')
  const rank = fc.nat({ max: ranks - 1 })
  const prompt = fc.integer({ min: 1, max: 4 }).map((length) => Array<number>(length).fill(0))
  const plain = { prefill: fc.constant(undefined), lora: fc.constant(undefined) }
  const step = fc.oneof(
    fc.record({ kind: fc.constant('book' as const), id: few, rank, prompt, ...plain }),
    fc.record({ kind: fc.constant('output' as const), id: few, fraction: anyFraction }),
    fc.record({ kind: fc.constant('free' as const), id: few }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const run = start('anchor')
      for (const it of steps) {
        apply(run, it)
        compare(run, [0, 0, 0, 0])
      }
    }),
    { numRuns: 300 },
  )
})

it('finds every run again while hundreds of unrelated prompts come and go', () => {
  // Enough runs for long probe sequences in the table, so that closing a gap wrongly would lose one.
  fc.assert(
    fc.property(fc.array(fc.nat({ max: 255 }), { minLength: 600, maxLength: 900 }), (draws) => {
      const ranks = new RankTable()
      const rank = ranks.intern(1n, 0)
      const real = new ActiveSequences({ ranks })
      const held = new Set<number>()
      for (const draw of draws) {
        if (held.delete(draw)) real.free(`${draw}`, 0)
        else {
          held.add(draw)
          real.book(
            { requestId: `${draw}`, rank, sequenceHashes: toHashColumn([BigInt(draw), BigInt(draw + 1000)]) },
            0,
          )
        }
        expect(real.activeBlocks(rank)).toBe(2 * held.size)
      }
      const loads = newLoadColumns()
      for (let draw = 0; draw < 256; draw++) {
        real.fillLoads(loads, 0, toHashColumn([BigInt(draw), BigInt(draw + 1000)]))
        expect(loads.decodeBlocks[rank]).toBe(2 * held.size + (held.has(draw) ? 0 : 2))
      }
    }),
    { numRuns: 10 },
  )
})

it('answers many queries as the model does while many prompts share long prefixes', () => {
  // Fewer letters, longer words: deep trees with many cuts, where both ways of raising depths are taken.
  const word = fc.array(
    fc.nat({ max: 9 }).map((it) => (it === 9 ? 1 : 0)),
    { minLength: 1, maxLength: 40 },
  )
  fc.assert(
    fc.property(
      fc.array(fc.tuple(word, fc.nat({ max: 19 })), { maxLength: 60 }),
      fc.array(word),
      (prompts, queries) => {
        const ranks = new RankTable()
        for (let rank = 0; rank < 20; rank++) ranks.intern(BigInt(rank), 0)
        const real = new ActiveSequences({ ranks })
        const model = new NaiveSequences()
        for (const [index, [prompt, rank]] of prompts.entries()) {
          real.book({ requestId: `${index}`, rank, sequenceHashes: toHashColumn(chain(prompt)) }, 0)
          model.book(`${index}`, rank, chain(prompt).map(String), 0)
        }
        const loads = newLoadColumns()
        for (const query of [...queries, ...prompts.map(([prompt]) => prompt)]) {
          const hashes = chain(query)
          real.fillLoads(loads, 0, toHashColumn(hashes))
          for (const rank of model.ranks.keys())
            expect(loads.decodeBlocks[rank]).toBe(
              model.activeBlocks(rank) + hashes.length - model.depth(rank, hashes.map(String)),
            )
        }
      },
    ),
    { numRuns: 60 },
  )
})

it('has an order-free sum of fractions: freeing everything in any order leaves exactly nothing', () => {
  const life = fc.record({ prompt: anyPrompt, fraction: fc.double({ min: 0, max: 1, noNaN: true }) })
  fc.assert(
    fc.property(fc.array(life, { maxLength: 12 }), fc.infiniteStream(fc.nat()), (lives, draws) => {
      const ranks = new RankTable()
      const rank = ranks.intern(1n, 0)
      const real = new ActiveSequences({ ranks })
      for (const [index, { prompt, fraction }] of lives.entries()) {
        real.book({ requestId: ids[index]!, rank, sequenceHashes: toHashColumn(chain(prompt)) }, 0)
        real.addOutputBlock(ids[index]!, 0, fraction)
      }
      const left = lives.map((_, index) => ids[index]!)
      while (left.length > 0) {
        const [id] = left.splice(draws.next().value! % left.length, 1)
        real.free(id!, 0)
        expect(real.activeBlocks(rank)).toBeGreaterThanOrEqual(0)
      }
      expect(real.activeBlocks(rank)).toBe(0)
      real.book({ requestId: 'z', rank, sequenceHashes: toHashColumn([1n]) }, 0)
      expect(real.activeBlocks(rank)).toBe(1)
    }),
  )
})

interface Run {
  real: ActiveSequences
  model: NaiveSequences
  nowMs: number
}

function start(decay: 'anchor' | 'full'): Run {
  const ranks = new RankTable()
  for (let rank = 0; rank < rankCount; rank++) ranks.intern(BigInt(rank), 0)
  return {
    real: new ActiveSequences({ ranks, rules: { prefillDecay: decay } }),
    model: new NaiveSequences(decay),
    nowMs: 0,
  }
}

function apply(run: Run, step: Step): void {
  const { real, model } = run
  if (step.kind === 'wait') run.nowMs += step.ms
  else if (step.kind === 'expire') {
    real.expire(run.nowMs)
    model.expire(run.nowMs)
  } else if (step.kind === 'track') {
    real.track(step.rank, run.nowMs)
    model.track(step.rank, run.nowMs)
  } else if (step.kind === 'untrack') {
    real.untrack(step.rank, run.nowMs)
    model.untrack(step.rank)
  } else if (step.kind === 'book') applyBooking(run, step)
  else if (step.kind === 'free') {
    expect(real.free(step.id, run.nowMs)).toBe(model.has(step.id))
    model.free(step.id, run.nowMs)
  } else if (!model.has(step.id)) {
    const call = step.kind === 'mark' ? real.markPrefillCompleted.bind(real) : real.addOutputBlock.bind(real)
    expect(() => call(step.id, run.nowMs)).toThrow(expect.objectContaining({ code: 'WR_REQUEST_NOT_FOUND' }))
  } else if (step.kind === 'mark') {
    real.markPrefillCompleted(step.id, run.nowMs)
    model.mark(step.id, run.nowMs)
  } else {
    real.addOutputBlock(step.id, run.nowMs, step.fraction)
    model.output(step.id, step.fraction)
  }
}

function applyBooking(run: Run, step: Step & { kind: 'book' }): void {
  const hashes = chain(step.prompt)
  const book = () =>
    run.real.book(
      {
        requestId: step.id,
        rank: step.rank,
        sequenceHashes: toHashColumn(hashes),
        prefillLoadHint: step.prefill,
        loraName: step.lora,
      },
      run.nowMs,
    )
  if (run.model.has(step.id)) {
    run.model.track(step.rank, run.nowMs)
    expect(book).toThrow(expect.objectContaining({ code: 'WR_DUPLICATE_REQUEST' }))
  } else {
    book()
    run.model.book(step.id, step.rank, hashes.map(String), run.nowMs, step.prefill, step.lora)
  }
}

function compare({ real, model, nowMs }: Run, query: readonly number[]): void {
  const hashes = chain(query)
  const loads = newLoadColumns()
  real.fillLoads(loads, nowMs, toHashColumn(hashes))
  expect(real.trackedRanks()).toEqual([...model.ranks.keys()].sort((a, b) => a - b))
  expect(real.activeLoraCounts()).toEqual(model.loraCounts())
  for (let rank = 0; rank < rankCount; rank++) {
    const blocks = model.activeBlocks(rank)
    expect([real.activeBlocks(rank), real.activeTokens(rank, nowMs), real.activeRequests(rank)]).toEqual([
      blocks,
      model.activeTokens(rank, nowMs),
      model.activeRequests(rank),
    ])
    const expected = model.ranks.has(rank) ? blocks + hashes.length - model.depth(rank, hashes.map(String)) : 0
    expect(loads.decodeBlocks[rank]).toBe(expected)
    expect(loads.prefillTokens[rank]).toBe(model.activeTokens(rank, nowMs))
    expect(loads.isTracked[rank]).toBe(model.ranks.has(rank) ? 1 : 0)
  }
}
