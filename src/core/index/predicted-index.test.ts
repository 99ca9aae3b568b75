import fc from 'fast-check'
import { expect, it } from 'vitest'
import { toHashColumn } from '../protocol/index.js'
import { ApplyReport } from './apply-report.js'
import { EventBatch } from './event-batch.js'
import { NaiveIndex } from './naive-index.case.js'
import { PredictedIndex } from './predicted-index.js'
import type { PrefixIndex } from './prefix-index.js'
import { WasmIndex } from './wasm-index.js'

const sequenceOf = (local: readonly bigint[]) =>
  local.map((_, index) => local.slice(0, index + 1).reduce((a, b) => a * 31n + b, 7n))

interface Options {
  readonly blocksMax?: number
  readonly startMs?: number
  readonly stepBlocks?: number | undefined
  readonly index?: PrefixIndex
}

function predictions(ttlMs: number, options: Options = {}) {
  const index = options.index ?? new NaiveIndex()
  const startMs = options.startMs ?? 0
  const { blocksMax = 1000, stepBlocks } = options
  const predicted = new PredictedIndex(index, { ttlMs, startMs, seed: 3, blocksMax, stepBlocks })
  const real = (fill: (batch: EventBatch) => void) => {
    const batch = new EventBatch()
    fill(batch)
    predicted.confirm(batch)
    index.apply(batch, new ApplyReport())
  }
  return {
    index,
    predicted,
    record: (rank: number, local: bigint[], nowMs: number) =>
      predicted.record(rank, toHashColumn(local), toHashColumn(sequenceOf(local)), nowMs),
    real,
    find: (local: bigint[]) => {
      const depths = new Uint32Array(3)
      index.find(toHashColumn(local), local.length, depths)
      return [...depths]
    },
  }
}

it('a routing decision creates a match', () => {
  const it = predictions(1000)
  expect(it.record(1, [1n, 2n, 3n], 0)).toBe('ok')
  expect(it.find([1n, 2n, 3n])).toEqual([0, 3, 0])
})

it('a decision is stored under its precomputed sequence hashes', () => {
  const it = predictions(1000)
  it.record(1, [1n, 2n], 0)
  for (const hash of sequenceOf([1n, 2n])) expect(it.index.holds(1, toHashColumn([hash]))).toBe(true)
})

it('refuses a decision whose hashes do not pair up, and stores nothing', () => {
  const it = predictions(1000)
  expect(() => it.predicted.record(0, toHashColumn([1n, 2n]), toHashColumn([1n]), 0)).toThrow(
    /one sequence hash per local/,
  )
  expect([it.predicted.predictedBlocks, it.index.stats().heldBlocks]).toEqual([0, 0])
})

it('a decision that the index refuses stores nothing and starts no timer', () => {
  const index = WasmIndex.create({ seedLo: 1, seedHi: 2, maxBytes: 3 << 20 })!
  const predicted = new PredictedIndex(index, { ttlMs: 1000, startMs: 0, seed: 3, blocksMax: 1e6 })
  const record = (rank: number, first: number) => {
    const local = toHashColumn(Array.from({ length: 500 }, (_, at) => BigInt(first + at)))
    return predicted.record(rank, local, local, 0)
  }
  let first = 1
  while (record(0, first) === 'ok') first += 500
  // Memory ran out inside a decision: what had got in is taken back.
  const before = [predicted.predictedBlocks, index.stats().heldBlocks, index.blocksOf(1)]
  expect(before[0]).toBe(before[1])
  expect(record(1, 9_000_000)).toBe('capacity_exhausted')
  expect([predicted.predictedBlocks, index.stats().heldBlocks, index.blocksOf(1)]).toEqual(before)
  expect(predicted.expire(1000)).toBe(before[0]) // what was recorded, and nothing of what was refused
  expect([predicted.predictedBlocks, predicted.nextExpiryMs, index.stats().heldBlocks]).toEqual([0, undefined, 0])
})

it('a prediction that is asked for again and again has one timer: no earlier end acts, and no memory is kept for it', () => {
  const it = predictions(1000)
  it.record(0, [1n, 2n], 0)
  let bytes = 0
  for (let nowMs = 0; nowMs <= 900_000; nowMs += 90) {
    expect(it.predicted.expire(nowMs)).toBe(0) // ends that were moved come and go
    it.record(0, [1n, 2n], nowMs)
    if (nowMs === 9_000) bytes = it.predicted.timerBytesUsed
  }
  expect([it.predicted.predictedBlocks, it.find([1n, 2n])]).toEqual([2, [2, 0, 0]])
  expect(it.predicted.timerBytesUsed).toBeLessThanOrEqual(bytes)
  expect([it.predicted.expire(900_999), it.predicted.expire(901_000)]).toEqual([0, 2])
  expect(it.predicted.nextExpiryMs).toBeUndefined()
})

it('a prediction is gone after its time to live, rounded up to a bucket', () => {
  const it = predictions(1000, { startMs: 5000 })
  it.record(0, [1n, 2n], 5250)
  expect(it.predicted.nextExpiryMs).toBe(6300)
  expect(it.predicted.expire(6299)).toBe(0)
  expect(it.find([1n, 2n])).toEqual([2, 0, 0])
  expect(it.predicted.expire(6300)).toBe(2)
  expect(it.find([1n, 2n])).toEqual([0, 0, 0])
})

it.each([
  { says: 'at a bucket’s edge nothing is added', ttlMs: 1000, nowMs: 200, endMs: 1200 },
  { says: 'just behind it a whole bucket is', ttlMs: 1000, nowMs: 201, endMs: 1300 },
  { says: 'a time to live of less than a bucket', ttlMs: 1, nowMs: 0, endMs: 100 },
  { says: 'noise of binary fractions does not cost a bucket', ttlMs: 0.07 * 1000, nowMs: 30, endMs: 100 },
])('bucket rounding: $says', ({ ttlMs, nowMs, endMs }) => {
  const it = predictions(ttlMs)
  it.record(0, [1n], nowMs)
  expect(it.predicted.nextExpiryMs).toBe(endMs)
})

it('asking again in the same bucket changes nothing', () => {
  const it = predictions(1000)
  it.record(0, [1n], 10)
  it.record(1, [1n], 20)
  it.record(0, [1n], 90)
  expect([it.predicted.predictedBlocks, it.predicted.nextExpiryMs]).toEqual([2, 1100])
})

it('asking again later moves the end to a later bucket', () => {
  const it = predictions(1000)
  it.record(0, [1n, 2n], 0)
  it.record(0, [1n], 500)
  expect(it.predicted.expire(1000)).toBe(1)
  expect(it.find([1n, 2n])).toEqual([1, 0, 0])
  expect(it.predicted.expire(1500)).toBe(1)
  expect(it.find([1n])).toEqual([0, 0, 0])
})

it('a time to live of 0 ends at the instant of the decision', () => {
  const it = predictions(0)
  it.record(0, [1n, 2n], 50)
  expect(it.find([1n, 2n])).toEqual([0, 0, 0])
  expect([it.predicted.predictedBlocks, it.predicted.expiredBlocks, it.index.stats().heldBlocks]).toEqual([0, 2, 0])
})

it('predictions of several ranks end each in their own time', () => {
  const it = predictions(1000)
  for (const rank of [0, 1, 2]) it.record(rank, [1n, 2n], 100 * rank)
  it.predicted.expire(1000)
  expect(it.find([1n, 2n])).toEqual([0, 2, 2])
  it.predicted.expire(1100)
  expect(it.find([1n, 2n])).toEqual([0, 0, 2])
  it.predicted.expire(1200)
  expect(it.predicted.predictedBlocks).toBe(0)
})

it('a clock that jumps back ends nothing early and keeps the order', () => {
  const it = predictions(1000)
  it.record(0, [1n], 5000)
  it.record(1, [1n], 100) // counts as 5000
  expect(it.predicted.expire(5999)).toBe(0)
  expect(it.predicted.expire(6000)).toBe(2)
})

it('clearing a rank drops its timers and keeps those of others', () => {
  const it = predictions(1000)
  it.record(0, [1n, 2n], 0)
  it.record(1, [1n, 2n], 0)
  expect(it.predicted.clearRank(0)).toBe(2)
  expect(it.predicted.predictedBlocks).toBe(2)
  expect(it.find([1n, 2n])).toEqual([0, 2, 0])
  it.real((batch) => batch.stored(0, undefined, toHashColumn(sequenceOf([1n])), toHashColumn([1n])))
  it.predicted.expire(5000)
  expect(it.find([1n, 2n])).toEqual([1, 0, 0]) // no timer of its earlier life is left to take it
})

it('a decision does not make a reported block mortal', () => {
  const it = predictions(1000)
  it.real((batch) => batch.stored(0, undefined, toHashColumn(sequenceOf([1n])), toHashColumn([1n])))
  it.record(0, [1n, 2n], 0)
  it.predicted.expire(1e9)
  expect(it.find([1n, 2n])).toEqual([1, 0, 0])
})

it('blocks that an engine reported never expire, even if they were predicted before', () => {
  const it = predictions(1000)
  const names = toHashColumn(sequenceOf([1n, 2n]))
  it.record(0, [1n, 2n], 0)
  it.real((batch) => batch.stored(0, undefined, names, toHashColumn([1n, 2n])))
  it.real((batch) => batch.stored(1, undefined, toHashColumn([900n]), toHashColumn([1n])))
  it.predicted.expire(1e9)
  expect(it.find([1n, 2n])).toEqual([2, 1, 0])
})

it('at its cap the oldest prediction goes first, and is counted', () => {
  const it = predictions(1000, { blocksMax: 3 })
  it.record(0, [1n, 2n], 0)
  it.record(1, [1n, 2n], 200)
  expect([it.predicted.predictedBlocks, it.predicted.evictedBlocks]).toEqual([3, 1])
  expect(it.find([1n, 2n])).toEqual([0, 2, 0])
  it.record(2, [1n, 2n, 3n, 4n, 5n], 300)
  expect([it.predicted.predictedBlocks, it.index.stats().heldBlocks]).toEqual([3, 3])
})

it('many predictions that end together go in steps, and a decision takes one of them', () => {
  const it = predictions(1000, { stepBlocks: 10 })
  for (let chain = 1n; chain <= 5n; chain++)
    it.record(
      0,
      Array.from({ length: 8 }, (_, at) => 100n * chain + BigInt(at)),
      0,
    )
  expect(it.predicted.expire(1000, 10)).toBe(10)
  it.record(1, [1n], 1000) // a step before it is stored, and one after
  expect([it.predicted.predictedBlocks, it.predicted.nextExpiryMs]).toEqual([11, 1000])
  expect([it.predicted.expire(1000, 20), it.predicted.nextExpiryMs]).toEqual([10, 2000])
})

it('a rank with many timers is cleared at once for whoever asks, and in steps otherwise', () => {
  const index = WasmIndex.create({ seedLo: 1, seedHi: 2, clearBlocksMax: 3 })!
  const it = predictions(1000, { stepBlocks: 3, index, blocksMax: 20 })
  const chain = Array.from({ length: 12 }, (_, at) => BigInt(at + 1))
  it.record(0, chain, 0)
  it.record(1, chain.slice(0, 4), 0)
  expect(it.predicted.clearRank(0)).toBe(12)
  expect(it.find(chain)).toEqual([0, 4, 0])
  expect([it.predicted.predictedBlocks, index.stats().heldBlocks]).toEqual([4, 4])
  it.record(0, chain.slice(0, 2), 50) // it comes back, and has what it is given now
  expect(it.find(chain)).toEqual([2, 4, 0])
  // The timers that are nobody's are the first to go where there are too many.
  it.record(2, chain.slice(0, 9), 60)
  expect([it.predicted.predictedBlocks, it.predicted.evictedBlocks]).toEqual([15, 0])
  while (it.predicted.drain(5) > 0) expect(it.find(chain)).toEqual([2, 4, 9])
  expect(index.stats()).toMatchObject({ heldBlocks: 15, distinctBlocks: 9 })
})

// Goal: no order of decisions, refreshes, clears, engine events and clock steps keeps a block past its end or loses one early.
// Method: the model is a map from (rank, prefix) to the instant of its end, looked through on every question.
type Step =
  | { kind: 'record'; rank: number; local: number[] }
  | { kind: 'wait'; ms: number }
  | { kind: 'clear'; rank: number }
  | { kind: 'report'; rank: number; local: number[] }

const anyLocal = fc.array(fc.nat(2), { minLength: 1, maxLength: 4 })
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('record' as const), rank: fc.nat(2), local: anyLocal }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.nat(400) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('clear' as const), rank: fc.nat(2) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('report' as const), rank: fc.nat(2), local: anyLocal }) },
)

it('holds exactly the predictions whose end has not come, after every step', () => {
  const inSteps = WasmIndex.create({ seedLo: 1, seedHi: 2, clearBlocksMax: 2 })!
  fc.assert(
    fc.property(
      fc.array(anyStep, { maxLength: 50 }),
      fc.integer({ min: 1, max: 700 }),
      anyLocal,
      fc.constantFrom(undefined, 1, 3),
      (steps, ttlMs, query, stepBlocks) => {
        for (const rank of [0, 1, 2]) inSteps.clearRank(rank)
        const it = predictions(ttlMs, { stepBlocks, index: stepBlocks ? inSteps : new NaiveIndex() })
        const ends = new Map<string, number>() // "rank:prefix" to the end of its time
        let nowMs = 0
        for (const step of steps) {
          if (step.kind === 'wait') nowMs += step.ms
          else if (step.kind === 'clear') {
            it.predicted.clearRank(step.rank)
            for (const key of ends.keys()) if (key.startsWith(`${step.rank}:`)) ends.delete(key)
          } else {
            const local = step.local.map((word) => BigInt(word) + 1n)
            if (step.kind === 'record') it.record(step.rank, local, nowMs)
            else
              it.real((batch) =>
                batch.stored(step.rank, undefined, toHashColumn(sequenceOf(local)), toHashColumn(local)),
              )
            const end = step.kind === 'record' ? Math.ceil((nowMs + ttlMs) / 100) * 100 : Number.POSITIVE_INFINITY
            for (let depth = 1; depth <= local.length; depth++) {
              const key = `${step.rank}:${local.slice(0, depth).join()}`
              ends.set(key, Math.max(end, ends.get(key) ?? 0)) // reported once, a block stays
            }
          }
          while ((it.predicted.nextExpiryMs ?? Number.POSITIVE_INFINITY) <= nowMs)
            it.predicted.expire(nowMs, stepBlocks)
          it.predicted.drain(1)
          for (const [key, end] of ends) if (end <= nowMs) ends.delete(key)
          const prompt = query.map((word) => BigInt(word) + 1n)
          const expected = [0, 1, 2].map((rank) => {
            let depth = 0
            while (depth < prompt.length && ends.has(`${rank}:${prompt.slice(0, depth + 1).join()}`)) depth++
            return depth
          })
          expect(it.find(prompt)).toEqual(expected)
          expect(it.index.stats().heldBlocks).toBe(ends.size)
        }
      },
    ),
    { numRuns: 300 },
  )
})
