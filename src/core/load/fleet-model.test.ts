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
    model.outputBlock(id, 64, 0, now)
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
  for (let i = 0; i < 3000; i++) {
    model.booked(String(i), 0, 0n, 100, 0, 0)
    for (let block = 0; block < 9; block++) model.outputBlock(String(i), 64, 0, 0)
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

/** Requests that write 20 blocks of 64 tokens each, one step a token, with prompts of others in between where told. */
function answer(model: FleetModel, requests: number, stepMs: (contextTokens: number) => number, pauseMs = 0): void {
  let now = 0
  for (let i = 0; i < requests; i++) {
    const id = String(i)
    const contextTokens = (i * 7919) % 100_000
    model.booked(id, 0, 0n, 100, 0, now)
    now += 20
    model.firstToken(id, now)
    for (let block = 0; block < 20; block++) {
      if (pauseMs > 0) {
        model.booked(`${id}-${block}`, 0, 0n, 1000, 0, now)
        now += pauseMs
        model.firstToken(`${id}-${block}`, now)
        model.ended(`${id}-${block}`, now)
      }
      now += 64 * stepMs(contextTokens)
      model.outputBlock(id, 64, contextTokens, now)
    }
    model.ended(id, now)
  }
}

const line = (contextTokens: number): number => 8 + 2e-4 * contextTokens

it.each([
  ['answers', 0],
  ['answers that stand still for the prompts of others', 200],
])('learns how fast answers are written from %s', (_, pauseMs) => {
  const model = new FleetModel()
  answer(model, 100, line, pauseMs)
  expect(model.decode.base).toBeCloseTo(8, 0)
  expect(model.decode.slope / 2e-4).toBeCloseTo(1, 1)
})

it('believes half of what it learned of contexts', () => {
  const model = new FleetModel()
  const guess = model.contextTokenStepMs
  answer(model, 100, (contextTokens) => 8 + 4 * guess * contextTokens)
  expect(model.contextTokenStepMs / guess).toBeCloseTo(2, 1)
})

it('weighs a first token by how much longer requests stay, within bounds', () => {
  const weightAfter = (firstTokenMs: number, residenceMs: number): number => {
    const model = new FleetModel()
    for (let i = 0; i < 4000; i++) {
      model.booked(String(i), 0, 0n, 100, 0, 0)
      model.firstToken(String(i), firstTokenMs)
      model.ended(String(i), residenceMs)
    }
    return model.firstTokenWeight
  }
  expect(new FleetModel().firstTokenWeight).toBeCloseTo(15)
  expect(weightAfter(50, 2500)).toBeCloseTo(40)
  expect(weightAfter(1000, 1000)).toBe(15) // answers that come in one piece
  expect(weightAfter(1, 60_000)).toBe(120)
})

it('learns nothing of prefills from answers that come whole, whenever their prompts are taken for computed', () => {
  const model = new FleetModel()
  const before = model.coefficients
  for (let i = 0; i < 100; i++) {
    model.booked(String(i), 0, 0n, 100, 0, i * 5000, true)
    if (i % 2 === 0) model.firstToken(String(i), i * 5000 + 12)
    model.ended(String(i), i * 5000 + 4000)
    if (i % 2 !== 0) model.firstToken(String(i), i * 5000 + 4000)
  }
  expect([model.observations, model.coefficients]).toEqual([0, before])
  expect(model.firstTokenWeight).toBe(15) // their first tokens are their ends
  expect(model.residenceMs).toBeGreaterThan(3900)
  expect(model.prefillShare(0)).toBeLessThan(0.6) // half of them were busy all the time, the others hardly
})

it('knows how much of its time a rank spends on prompts, also of requests that are lost', () => {
  const model = new FleetModel()
  model.booked('a', 1, 1n, 1000, 0, 0)
  model.booked('b', 1, 1n, 1000, 0, 0)
  model.firstToken('a', 10_000)
  model.forget('b')
  model.booked('c', 0, 0n, 1000, 0, 10_000)
  expect(model.prefillShare(1)).toBeGreaterThan(0)
  model.removeRanks(new Set([1]))
  expect([model.prefillShare(1), model.prefillShare(7)]).toEqual([0, 0])
})

it('a request that is booked again is counted once', () => {
  const model = new FleetModel()
  for (let i = 0; i < 3; i++) model.booked('a', 0, 0n, 1000, 0, 0)
  model.firstToken('a', 10)
  model.ended('a', 10)
  const share = model.prefillShare(0)
  model.booked('later', 1, 1n, 1000, 0, 100_000)
  expect(model.prefillShare(0)).toBeLessThan(share)
})
