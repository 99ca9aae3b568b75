import fc from 'fast-check'
import { expect, it } from 'vitest'
import { toHashColumn } from '../protocol/index.js'
import { EventBatch, eventHeaderWords } from './event-batch.js'
import { ExpiryQueue } from './expiry-queue.js'

const ttlMs = 500
const ranks = [0, 1]

/** A hash per prefix: chains that part are different from there on, as sequence hashes are. */
const chainOf = (path: readonly number[]) =>
  path.map((_, at) => path.slice(0, at + 1).reduce((hash, word) => hash * 31n + BigInt(word) + 1n, 7n))

function namesIn(batch: EventBatch): string[] {
  const names: string[] = []
  for (let at = 0; at < batch.wordCount; ) {
    const rank = batch.words[at + 1]!
    const count = batch.words[at + 2]!
    at += eventHeaderWords
    for (let block = 0; block < count; block++, at += 2)
      names.push(`${rank}:${(BigInt(batch.words[at + 1]!) << 32n) | BigInt(batch.words[at]!)}`)
  }
  return names
}

// Goal: runs that are refreshed, cut, thinned out and taken in part end exactly when a timer per block would.
// Method: the model is a map from (rank, hash) to the instant of its end.
type Step =
  | { kind: 'start'; rank: number; path: number[]; exempt: number }
  | { kind: 'cancel'; rank: number; path: number[] }
  | { kind: 'cancelRank'; rank: number; timersMax: number }
  | { kind: 'drain'; timersMax: number }
  | { kind: 'take'; ms: number; blocksMax: number }

const anyPath = fc.array(fc.nat(1), { minLength: 1, maxLength: 9 })
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('start' as const),
      rank: fc.nat(1),
      path: anyPath,
      exempt: fc.integer({ min: -6, max: 5 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('cancel' as const), rank: fc.nat(1), path: anyPath }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('cancelRank' as const), rank: fc.nat(1), timersMax: fc.nat(6) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('drain' as const), timersMax: fc.nat(4) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('take' as const),
      ms: fc.nat(300),
      blocksMax: fc.integer({ min: 1, max: 9 }),
    }),
  },
)

it('ends every block when a timer of its own would, after every step', () => {
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 60 }), fc.boolean(), (steps, asksForBlocks) => {
      const queue = new ExpiryQueue({ ttlMs, startMs: 0, seed: 5 })
      const ends = new Map<string, number>()
      let nowMs = 0
      for (const step of steps) {
        if (step.kind === 'cancel' && !asksForBlocks) continue // until then only heads can be found
        if (step.kind === 'take') {
          nowMs += step.ms
          const batch = new EventBatch()
          const work = queue.takeEnded(nowMs, step.blocksMax, batch)
          const names = namesIn(batch)
          expect(names.length).toBeLessThanOrEqual(work)
          expect(work).toBeLessThanOrEqual(step.blocksMax)
          // Less than what was allowed: nothing that has ended is left.
          const ended = [...ends.values()].filter((end) => end <= nowMs).length
          if (work < step.blocksMax) expect(names.length).toBe(ended)
          for (const name of names) {
            expect(ends.get(name)).toBeLessThanOrEqual(nowMs)
            ends.delete(name)
          }
        } else if (step.kind === 'cancelRank') {
          queue.cancelRank(step.rank, step.timersMax)
          for (const name of ends.keys()) if (name.startsWith(`${step.rank}:`)) ends.delete(name)
        } else if (step.kind === 'drain') {
          const before = queue.deadSize
          expect(queue.drain(step.timersMax)).toBe(Math.max(0, before - step.timersMax))
        } else if (step.kind === 'cancel') {
          const hash = chainOf(step.path).at(-1)!
          const [lo, hi] = toHashColumn([hash])
          expect(queue.cancel(step.rank, lo!, hi!)).toBe(ends.delete(`${step.rank}:${hash}`))
        } else startBoth(queue, ends, step, nowMs)
        expect(queue.size).toBe(ends.size)
        for (const rank of ranks)
          expect(queue.sizeOf(rank)).toBe([...ends.keys()].filter((name) => name.startsWith(`${rank}:`)).length)
        expect(queue.nextExpiryMs === undefined).toBe(ends.size === 0)
      }
    }),
    { numRuns: 400 },
  )
})

function startBoth(
  queue: ExpiryQueue,
  ends: Map<string, number>,
  step: Step & { readonly kind: 'start' },
  nowMs: number,
): void {
  const chain = chainOf(step.path)
  const nameOf = (block: number): string => `${step.rank}:${chain[block]}`
  let prefix = 0
  while (prefix < chain.length && ends.has(nameOf(prefix))) prefix++
  expect(queue.prefixOf(step.rank, toHashColumn(chain), chain.length)).toBe(prefix)
  // Only a block without a timer is ever exempt.
  const isExempt = Uint8Array.from(chain, (_, block) => (block === step.exempt && !ends.has(nameOf(block)) ? 1 : 0))
  queue.start(step.rank, toHashColumn(chain), chain.length, nowMs, isExempt)
  const end = Math.ceil((nowMs + ttlMs) / 100) * 100
  for (let block = 0; block < chain.length; block++) if (isExempt[block] === 0) ends.set(nameOf(block), end)
}

it('hashes that are no chain break nothing: every timer ends', () => {
  const anyHashes = fc.array(
    fc.record({
      rank: fc.nat(1),
      hashes: fc.array(fc.bigInt(1n, 6n), { minLength: 1, maxLength: 8 }),
      ms: fc.nat(200),
    }),
    { maxLength: 30 },
  )
  fc.assert(
    fc.property(anyHashes, (starts) => {
      const queue = new ExpiryQueue({ ttlMs, startMs: 0, seed: 5 })
      const started = new Set<string>()
      const ended = new Set<string>()
      let nowMs = 0
      const take = (untilMs: number): void => {
        const batch = new EventBatch()
        queue.takeEnded(untilMs, 1000, batch)
        for (const name of namesIn(batch)) ended.add(name)
      }
      for (const { rank, hashes, ms } of starts) {
        nowMs += ms
        queue.start(rank, toHashColumn(hashes), hashes.length, nowMs)
        for (const hash of hashes) started.add(`${rank}:${hash}`)
        take(nowMs)
        expect(queue.size).toBe(queue.sizeOf(0) + queue.sizeOf(1))
      }
      take(nowMs + 2 * ttlMs)
      expect([queue.size, queue.nextExpiryMs]).toEqual([0, undefined])
      for (const name of ended) expect(started.has(name)).toBe(true)
    }),
  )
})

it('a chain of many turns is refreshed by as many numbers, and costs no more memory than its blocks', () => {
  const queue = new ExpiryQueue({ ttlMs, startMs: 0, seed: 5 })
  const chain = toHashColumn(chainOf(Array.from({ length: 64 }, (_, at) => at % 3)))
  for (let turn = 1; turn <= 8; turn++) queue.start(0, chain, 8 * turn, 100 * turn)
  const before = queue.bytesUsed
  for (let turn = 0; turn < 100; turn++) queue.start(0, chain, 64, 1000 + turn)
  expect([queue.size, queue.bytesUsed]).toEqual([64, before])
})
