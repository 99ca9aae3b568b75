/**
 * Goal: no order of bookings, marks, output blocks, frees, expiries and topology changes leaves a rank with load that it
 * does not carry, or makes a query see blocks that are not there.
 * Method: the same steps drive the tracker and the naive model, and every reading is compared after every step. Prompts
 * are short words over three letters, so that sharing, splitting and merging of runs is common.
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
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
export function chain(word: readonly number[]): bigint[] {
  let hash = 1n
  return word.map((letter) => (hash = hash * 4n + BigInt(letter)))
}

/** Parameters of fast-check: how many runs, which seed. */
export type Runs = fc.Parameters<unknown>

export function checkTrackerAgainstModel(decay: 'anchor' | 'full', runs: Runs): void {
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
      assert.deepEqual([run.real.requestCount, run.real.runCount, run.real.activeLoraCounts().size], [0, 0, 0])
    }),
    runs as fc.Parameters<[Step[], number[]]>,
  )
}

/** Few ids, mostly output blocks: fractions that differ along a prompt while runs are cut and grow together. */
export function checkWeights(rankLimit: number, runs: Runs): void {
  const few = fc.constantFrom('a', 'b', 'c', 'd')
  const rank = fc.nat({ max: rankLimit - 1 })
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
    runs as fc.Parameters<[Step[]]>,
  )
}

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
    assert.equal(real.free(step.id, run.nowMs), model.has(step.id))
    model.free(step.id, run.nowMs)
  } else if (!model.has(step.id)) {
    const call = step.kind === 'mark' ? real.markPrefillCompleted.bind(real) : real.addOutputBlock.bind(real)
    assert.throws(() => call(step.id, run.nowMs), { code: 'WR_REQUEST_NOT_FOUND' })
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
    assert.throws(book, { code: 'WR_DUPLICATE_REQUEST' })
  } else {
    book()
    run.model.book(step.id, step.rank, hashes.map(String), run.nowMs, step.prefill, step.lora)
  }
}

function compare({ real, model, nowMs }: Run, query: readonly number[]): void {
  const hashes = chain(query)
  const loads = newLoadColumns()
  real.fillLoads(loads, nowMs, toHashColumn(hashes))
  assert.deepEqual(
    real.trackedRanks(),
    [...model.ranks.keys()].sort((a, b) => a - b),
  )
  assert.deepEqual(real.activeLoraCounts(), model.loraCounts())
  for (let rank = 0; rank < rankCount; rank++) {
    const blocks = model.activeBlocks(rank)
    assert.deepEqual(
      [real.activeBlocks(rank), real.activeTokens(rank, nowMs), real.activeRequests(rank)],
      [blocks, model.activeTokens(rank, nowMs), model.activeRequests(rank)],
    )
    const expected = model.ranks.has(rank) ? blocks + hashes.length - model.depth(rank, hashes.map(String)) : 0
    assert.equal(loads.decodeBlocks[rank], expected)
    assert.equal(loads.prefillTokens[rank], model.activeTokens(rank, nowMs))
    assert.equal(loads.isTracked[rank], model.ranks.has(rank) ? 1 : 0)
  }
}
