import assert from 'node:assert/strict'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { hashCount, toHashColumn } from '../protocol/index.js'
import type { HashColumn } from '../protocol/index.js'
import { HashArena } from './hash-arena.js'

// Goal: no order of additions, cuts, joins and ends changes a hash of a run, and memory follows what lives.
// Method: the same steps drive the arena and a map of plain lists. Pages are tiny, so that they fill, empty and are moved
// out of all the time; runs are up to half a page, and longer than a page after joins.
const pageHashes = 16
const runNumbers = 100

const anyRun = fc.nat({ max: runNumbers - 1 })
const anyCount = fc.oneof(
  { weight: 8, arbitrary: fc.integer({ min: 1, max: 6 }) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 3 * pageHashes }) },
)
const anyStep = fc.oneof(
  { weight: 24, arbitrary: fc.record({ kind: fc.constant('add' as const), run: anyRun, count: anyCount }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('cut' as const), run: anyRun, upper: anyRun, at: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('join' as const), upper: anyRun, run: anyRun }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('rejoin' as const), at: fc.nat() }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('release' as const), run: anyRun }) },
  // Three runs of four end, so that most pages keep little.
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('thin' as const), kept: fc.nat({ max: 3 }) }) },
)
type Step = typeof anyStep extends fc.Arbitrary<infer T> ? T : never

interface Seen {
  moved: number
  joinedInPlace: number
  joinedByCopy: number
  ownPages: number
  numbersUsedAgain: number
  shrunk: number
}

class Life {
  readonly arena = new HashArena(pageHashes)
  readonly model = new Map<number, HashColumn>()
  readonly #seen: Seen
  readonly #cuts: [upper: number, run: number][] = []
  #nextWord = 1
  #highestPage = -1
  #hasDropped = false

  constructor(seen: Seen) {
    this.#seen = seen
    for (let run = 0; run < runNumbers; run++) this.#add(run, 1 + (run % 5))
  }

  apply(step: Step): void {
    const before = new Map([...this.model.keys()].map((run) => [run, this.arena.pageOf(run)]))
    const capacity = this.arena.capacity
    const touched = this.#change(step)
    for (const [run, page] of before)
      if (this.model.has(run) && !touched.includes(run) && this.arena.pageOf(run) !== page) this.#seen.moved++
    if (this.arena.capacity < capacity) {
      this.#seen.shrunk++
      this.#hasDropped = true
    }
  }

  /** The runs whose place the step itself decides. */
  #change(step: Step): number[] {
    const { arena, model } = this
    if (step.kind === 'add' && !model.has(step.run)) {
      this.#add(step.run, step.count)
      return [step.run]
    }
    if (step.kind === 'cut' && model.has(step.run) && !model.has(step.upper)) {
      const hashes = model.get(step.run)!
      const count = 1 + (step.at % hashCount(hashes))
      if (count === hashCount(hashes)) return []
      arena.cut(step.run, step.upper, count)
      model.set(step.upper, hashes.slice(0, 2 * count))
      model.set(step.run, hashes.slice(2 * count))
      this.#cuts.push([step.upper, step.run])
      return [step.run, step.upper]
    }
    if (step.kind === 'join') return this.#join(step.upper, step.run)
    if (step.kind === 'rejoin' && this.#cuts.length > 0) {
      const [[upper, run]] = this.#cuts.splice(step.at % this.#cuts.length, 1) as [[number, number]]
      return this.#join(upper, run)
    }
    if (step.kind === 'release') this.#release(step.run)
    if (step.kind === 'thin') for (let run = 0; run < runNumbers; run++) if (run % 4 !== step.kept) this.#release(run)
    return []
  }

  #add(run: number, count: number): void {
    const hashes = Uint32Array.from({ length: 2 * count }, () => this.#nextWord++)
    // Something stands before and behind it in the column, and is not to be taken.
    this.arena.add(run, Uint32Array.from([7, 7, 7, 7, ...hashes, 7, 7]), 2, count)
    this.model.set(run, hashes)
    const page = this.arena.pageOf(run)
    if (this.#hasDropped && page <= this.#highestPage) this.#seen.numbersUsedAgain++
    this.#highestPage = Math.max(this.#highestPage, page)
    if (4 * count > pageHashes) this.#seen.ownPages++
  }

  #join(upper: number, run: number): number[] {
    const { arena, model } = this
    if (upper === run || !model.has(upper) || !model.has(run)) return []
    const page = arena.pageOf(run)
    arena.join(upper, run)
    model.set(run, Uint32Array.from([...model.get(upper)!, ...model.get(run)!]))
    model.delete(upper)
    if (arena.pageOf(run) === page) this.#seen.joinedInPlace++
    else this.#seen.joinedByCopy++
    return [upper, run]
  }

  #release(run: number): void {
    if (this.model.delete(run)) this.arena.release(run)
  }

  compare(): void {
    const { arena, model } = this
    let live = 0
    for (let run = 0; run < runNumbers; run++) {
      const hashes = model.get(run) ?? new Uint32Array(0)
      const count = hashCount(hashes)
      live += count
      assert.equal(arena.length[run] ?? 0, count)
      if (count === 0) continue
      assert.equal(arena.matched(run, hashes, 0, count), count)
      assert.equal(arena.lowWord(run, count - 1), hashes.at(-2))
      assert.equal(arena.highWord(run, count - 1), hashes.at(-1))
    }
    assert.ok(arena.capacity >= live)
    assert.ok(arena.capacity <= 2 * live + 4 * pageHashes, `${arena.capacity} for ${live}`)
  }
}

it('holds the hashes that plain lists hold, in at most about twice their room', () => {
  const seen: Seen = { moved: 0, joinedInPlace: 0, joinedByCopy: 0, ownPages: 0, numbersUsedAgain: 0, shrunk: 0 }
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 200, size: 'max' }), (steps) => {
      const life = new Life(seen)
      for (const step of steps) {
        life.apply(step)
        life.compare()
      }
    }),
    { numRuns: 100 },
  )
  for (const [what, times] of Object.entries(seen)) expect(times, what).toBeGreaterThan(10)
})

it('says where a run and a column part', () => {
  const arena = new HashArena(pageHashes)
  arena.add(0, toHashColumn([1n, 2n, 3n]), 0, 3)
  arena.add(1, toHashColumn([1n, 2n, 1n << 32n]), 0, 3)
  const query = toHashColumn([9n, 1n, 2n, 1n << 33n, 3n])
  expect(arena.matched(0, query, 1, 5)).toBe(2)
  expect(arena.matched(1, query, 1, 5)).toBe(2) // the low words are the same
  expect(arena.matched(0, query, 1, 2)).toBe(1)
  expect(arena.matched(0, query, 0, 5)).toBe(0)
})

it('cuts and joins a run where it lies', () => {
  const arena = new HashArena(pageHashes)
  const hashes = Array.from({ length: 100 }, (_, index) => BigInt(index))
  arena.add(0, toHashColumn(hashes), 0, 100)
  const { capacity } = arena
  arena.cut(0, 1, 60)
  arena.cut(0, 2, 30)
  expect([...arena.length.subarray(0, 3)]).toEqual([10, 60, 30])
  arena.join(1, 2)
  arena.join(2, 0)
  expect(arena.capacity).toBe(capacity)
  expect(arena.matched(0, toHashColumn(hashes), 0, 100)).toBe(100)
})

it('writes nothing over two runs that were alone in the open page when they were joined', () => {
  const arena = new HashArena(pageHashes)
  arena.add(0, toHashColumn([1n]), 0, 1)
  arena.add(1, toHashColumn([2n]), 0, 1)
  arena.join(1, 0)
  for (let run = 2; run < 6; run++) arena.add(run, toHashColumn([9n, 9n]), 0, 2)
  expect(arena.matched(0, toHashColumn([2n, 1n]), 0, 2)).toBe(2)
})

it('gives its pages back, a few at a time, when everything ends', () => {
  const arena = new HashArena(pageHashes)
  const runs = 1000
  for (let run = 0; run < runs; run++) arena.add(run, toHashColumn([1n, 2n, 3n, 4n, 5n, 6n, 7n]), 0, 7)
  const most = arena.capacity
  expect(most).toBeLessThan(1.25 * 7 * runs)
  // Every fourth stays until the others are gone, so that no page is empty of itself.
  for (let run = 0; run < runs; run++)
    if (run % 4 > 0) {
      const before = arena.capacity
      arena.release(run)
      expect(before - arena.capacity).toBeLessThanOrEqual(2 * pageHashes)
    }
  expect(arena.capacity).toBeLessThanOrEqual((2 * 7 * runs) / 4 + 4 * pageHashes)
  for (let run = 0; run < runs; run += 4) arena.release(run)
  expect(arena.capacity).toBeLessThanOrEqual(3 * pageHashes)
})
