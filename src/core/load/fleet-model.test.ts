import { expect, it } from 'vitest'
import { FleetModel } from './fleet-model.js'
import { evaluate } from './prefill-estimate.js'

const truth = { base: 12, perToken: 0.03, perToken2: 2e-7, perTokenPrefix: 1e-6 }

/** A fleet of four workers that serve one prompt after the other, `slow` ones at half speed. */
function watch(model: FleetModel, requests: number, slow: ReadonlySet<number> = new Set()): void {
  let now = 0
  for (let i = 0; i < requests; i++) {
    const worker = i % 4
    const newTokens = 100 + ((i * 7919) % 7000)
    const prefix = (i * 104_729) % 20_000
    const id = String(i)
    model.booked(id, worker, BigInt(worker), newTokens, prefix, now)
    now += evaluate(truth, newTokens, prefix, model.chunkTokens) * (slow.has(worker) ? 2 : 1)
    model.firstToken(id, now)
    model.outputBlock(id)
    now += 100
    model.ended(id, now)
  }
}

it('starts from a guess and learns what prefills take', () => {
  const model = new FleetModel()
  const before = model.prefillMs(0n, 4000, 8000)
  watch(model, 600)
  const wanted = evaluate(truth, 4000, 8000)
  expect(Math.abs(before / wanted - 1)).toBeGreaterThan(0.2)
  expect(Math.abs(model.prefillMs(0n, 4000, 8000) / wanted - 1)).toBeLessThan(0.1)
  expect(model.errorRatio).toBeLessThan(0.1)
})

it('as an estimator it says nothing until it saw enough, unless it was given a profile', () => {
  const model = new FleetModel()
  watch(model, 12) // the last pass of each worker is still open
  expect(model.observations).toBe(8)
  expect(model.predictMs(0n, 4000, 0)).toBe(model.prefillMs(0n, 4000, 0))
  expect(new FleetModel().predictMs(0n, 4000, 0)).toBeUndefined()
  expect(new FleetModel({ profile: truth }).predictMs(0n, 1000, 0)).toBeCloseTo(evaluate(truth, 1000, 0), 9)
})

it('knows a prompt of several passes to cost the sum of them', () => {
  const model = new FleetModel({ profile: truth, isLearning: false, chunkTokens: 1000 })
  const twoPasses = evaluate(truth, 1000, 0) + evaluate(truth, 500, 1000)
  expect(model.prefillMs(0n, 1500, 0)).toBeCloseTo(twoPasses, 9)
})

it('finds the slow worker', () => {
  const model = new FleetModel()
  watch(model, 1200, new Set([3]))
  expect(model.speedOf(3n)).toBeGreaterThan(1.5)
  expect(model.speedOf(0n)).toBe(1)
  model.removeWorker(3n)
  expect(model.speedOf(3n)).toBe(1)
})

it('learns from prompts of one pass together', () => {
  const apart = new FleetModel({ profile: truth })
  for (let i = 0; i < 200; i++) {
    const now = i * 1000
    for (const part of ['a', 'b']) apart.booked(`${i}${part}`, 0, 0n, 1000, 0, now)
    const both = evaluate(truth, 2000, 0)
    for (const part of ['a', 'b']) apart.firstToken(`${i}${part}`, now + both)
  }
  expect(Math.abs(apart.prefillMs(0n, 2000, 0) / evaluate(truth, 2000, 0) - 1)).toBeLessThan(0.1)
})

it('keeps what it was given when it is not to learn', () => {
  const model = new FleetModel({ profile: { ...truth, base: 500 }, isLearning: false })
  watch(model, 100, new Set([1]))
  expect([model.coefficients.base, model.speedOf(1n), model.observations]).toEqual([500, 1, 0])
})

it('remembers how long requests stay and how much they write, and forgets those that ended', () => {
  const model = new FleetModel()
  for (let i = 0; i < 500; i++) {
    model.booked(String(i), 0, 0n, 100, 0, 0)
    for (let block = 0; block < 9; block++) model.outputBlock(String(i))
    model.ended(String(i), 1000)
    model.ended(String(i), 9999)
  }
  expect(model.residenceMs).toBeCloseTo(1000, -1)
  expect(model.outputBlocks).toBeCloseTo(9, 1)
})

it('learns once from a prefill that is marked again later', () => {
  const [once, twice] = [new FleetModel(), new FleetModel()]
  for (const model of [once, twice])
    for (let i = 0; i < 200; i++) {
      const now = i * 10_000
      model.booked(String(i), 0, 0n, 1000, 0, now)
      model.firstToken(String(i), now + 50)
      if (model === twice) model.firstToken(String(i), now + 2000)
      model.ended(String(i), now + 3000)
    }
  expect(twice.observations).toBe(once.observations)
  expect(twice.prefillMs(0n, 1000, 0)).toBe(once.prefillMs(0n, 1000, 0))
})

it('a number that is given to another worker takes no pass of the old one along', () => {
  const model = new FleetModel()
  model.booked('a', 0, 1n, 1000, 0, 0)
  model.firstToken('a', 50)
  model.removeRanks(new Set([0]))
  model.booked('b', 0, 2n, 1000, 0, 50)
  model.firstToken('b', 50.2)
  expect([model.observations, model.runningCount]).toEqual([0, 1])
})
