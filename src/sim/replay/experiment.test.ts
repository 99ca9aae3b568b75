import { describe, expect, it } from 'vitest'
import { timingProfiles } from '../engine/timing.js'
import { readTrace } from './dynamo-cells.case.js'
import { runExperiment } from './experiment.js'
import type { ExperimentOptions, PolicyResult } from './experiment.js'
import { markdownTable } from './markdown-table.js'
import { policyNames } from './policies.js'

const trace = readTrace().slice(0, 250)
const run = (options: Partial<ExperimentOptions>): PolicyResult[] =>
  runExperiment(trace, { workers: 2, policies: ['round-robin'], ...options })
const only = (options: Partial<ExperimentOptions>): PolicyResult => run(options)[0]!

describe('every policy', () => {
  const results = run({ policies: policyNames, isIdealWanted: true })

  it('serves the whole trace, the same for the same seed', () => {
    expect(results.map(({ policy }) => policy)).toEqual([...policyNames, 'ideal'])
    for (const result of results) {
      expect(result, result.policy).toMatchObject({ requests: 250, completed: 250, rejected: 0 })
      expect(result.prefill_tokens + result.cached_tokens).toBe(result.prompt_tokens)
      expect(result.workers.reduce((sum, { requests }) => sum + requests, 0)).toBe(250)
      expect(result.imbalance.prefill_tokens).toBeGreaterThanOrEqual(1)
      expect(result.ttft_quantiles_ms[50]).toBe(result.ttft_ms.p50)
      expect(result.timeline.reduce((sum, { requests }) => sum + requests, 0)).toBe(250)
      for (const of of [result.timeline, result.workers])
        expect(of.reduce((sum, it) => sum + it.prefill_tokens, 0)).toBe(result.prefill_tokens)
    }
    expect(JSON.stringify(run({ policies: policyNames, isIdealWanted: true }))).toBe(JSON.stringify(results))
  })

  it('stays above the floor', () => {
    const ideal = results.at(-1)!
    expect(ideal.reuse).toBe(ideal.reuse_achievable)
    for (const result of results) {
      expect(result.ttft_ms.mean, result.policy).toBeGreaterThanOrEqual(ideal.ttft_ms.mean)
      expect(result.reuse, result.policy).toBeLessThanOrEqual(ideal.reuse)
      expect(result.e2e_ms.mean, result.policy).toBeGreaterThanOrEqual(ideal.e2e_ms.mean)
    }
  })

  it('is a row of the table', () => {
    const lines = markdownTable(results).split('\n')
    expect(lines).toHaveLength(2 + results.length)
    for (const line of lines) expect(line.split('|')).toHaveLength(lines[0]!.split('|').length)
  })
})

it.each(['warm', 'dynamo'] as const)(
  'answers in one piece cost %s little: it does not wait for what it cannot see',
  (name) => {
    const busy = { policies: [name], workers: 8, arrivalSpeedup: 4 }
    const streams = only(busy)
    for (const wholeShare of [0.5, 1]) {
      const whole = only({ ...busy, wholeShare })
      expect(whole.completed).toBe(250)
      expect(whole.ttft_ms.mean).toBeLessThan(1.1 * streams.ttft_ms.mean)
      expect(whole.e2e_ms.mean).toBeLessThan(1.05 * streams.e2e_ms.mean)
    }
  },
)

it('draws differently for another seed', () => {
  expect(only({ policies: ['random'], seed: 2 }).ttft_ms.mean).not.toBe(only({ policies: ['random'] }).ttft_ms.mean)
})

it('sends equal beginnings to one worker by prefix hash, whatever its load', () => {
  const same = trace
    .slice(0, 40)
    .map((request) => ({ ...request, promptTokens: 2048, blockIds: [1, 2, 3, request.index] }))
  const hashed = runExperiment(same, { workers: 4, policies: ['prefix-hash'] })[0]!
  expect(hashed.workers.filter(({ requests }) => requests > 0)).toHaveLength(1)
})

it('spreads requests by how many run, not by turn, when least loaded', () => {
  const long = trace.slice(0, 40).map((request, index) => ({
    ...request,
    arrivalMs: index * 200,
    promptTokens: 1000,
    outputTokens: index === 0 ? 2000 : 2,
  }))
  const counts = runExperiment(long, { workers: 2, policies: ['least-loaded'] })[0]!.workers.map((it) => it.requests)
  expect(Math.min(...counts)).toBe(1) // the long one keeps its worker to itself
})

it('applies settings to routers and sweeps them, and leaves the others alone', () => {
  const results = run({
    policies: ['dynamo', 'round-robin'],
    settings: ['router_temperature=0.5'],
    sweep: { key: 'prefill_load_scale', values: [1, 10] },
  })
  expect(results.map(({ policy, settings }) => [policy, settings])).toEqual([
    ['dynamo', { router_temperature: '0.5', prefill_load_scale: '1' }],
    ['dynamo', { router_temperature: '0.5', prefill_load_scale: '10' }],
    ['round-robin', {}],
  ])
  expect(results[0]!.ttft_ms.mean).not.toBe(results[1]!.ttft_ms.mean)
})

it('judges settings before the first run', () => {
  let told = 0
  const bad = { policies: ['round-robin', 'dynamo'], settings: ['nonsense=1'], progress: () => void told++ } as const
  expect(() => run(bad)).toThrow('nonsense')
  expect(told).toBe(0)
})

it('makes each change of the fleet felt', () => {
  const plain = only({})
  expect(only({ slow: { share: 0.5, factor: 2 } }).ttft_ms.mean).toBeGreaterThan(plain.ttft_ms.mean)
  expect(only({ arrivalSpeedup: 2 }).duration_ms).toBeLessThan(plain.duration_ms)
  expect(only({ smoothMs: 3000 }).ttft_ms.mean).toBeLessThan(plain.ttft_ms.mean)
  expect(only({ blocks: 4096 }).reuse).toBeLessThan(plain.reuse)
  expect(only({ profile: timingProfiles['h200-llama8b']! }).ttft_ms.mean).toBeGreaterThan(plain.ttft_ms.mean)
})

it('knows less with late events and with routers that do not talk', () => {
  const dynamo = (options: Partial<ExperimentOptions>): PolicyResult =>
    only({ policies: ['dynamo'], workers: 4, ...options })
  const one = dynamo({})
  expect(dynamo({ eventDelayMs: 20_000 }).reuse).toBeLessThan(one.reuse)
  expect(dynamo({ routers: 4 }).ttft_ms.mean).toBeGreaterThan(one.ttft_ms.mean)
})

it('splits a fleet into workers that prefill and workers that decode', () => {
  const paired = { workers: 4, prefillWorkers: 2, policies: ['warm', 'dynamo', 'round-robin'] } as const
  const results = runExperiment(trace.slice(0, 100), paired)
  for (const { completed, remote_prefills: remote, workers } of results) {
    expect([completed, remote]).toEqual([100, 100])
    expect(workers.map(({ output_tokens: tokens }) => tokens > 0)).toEqual([false, false, true, true])
  }
  expect(new Set(results.map(({ ttft_ms: it }) => it.mean)).size).toBe(3)
})

it.each([
  ['nobody who decodes', { workers: 2, prefillWorkers: 2 }, 'nobody is left to decode'],
  ['a policy that knows no pairs', { workers: 2, prefillWorkers: 1, policies: ['random'] }, 'random does not know'],
  ['several routers', { workers: 2, prefillWorkers: 1, routers: 2 }, 'not simulated'],
] as const)('refuses a fleet of pairs with %s', (_, options, words) => {
  expect(() => runExperiment(trace.slice(0, 2), { policies: ['warm'], ...options })).toThrow(words)
})

it('says where requests waited: in the router, in an engine, per worker and over time', () => {
  const [early, late] = runExperiment(trace, { workers: 2, policies: ['dynamo', 'warm'], arrivalSpeedup: 3 })
  expect(early!.held_ms.mean).toBe(0) // parks nothing: all of its queue stands in front of the engines
  expect(early!.queued_ms.mean).toBeGreaterThan(50)
  expect(late!.held_ms.mean).toBeGreaterThan(0)
  expect(late!.queued_ms.mean).toBeGreaterThan(late!.held_ms.mean)
  for (const { workers, timeline, queued_ms: queued, requests } of [early!, late!]) {
    const ofWorkers = workers.reduce((sum, it) => sum + it.requests * it.queued_ms_mean, 0) / requests
    expect(ofWorkers).toBeCloseTo(queued.mean, 6)
    const overTime = timeline.reduce((sum, it) => sum + it.requests * it.queued_ms_mean, 0) / requests
    expect(overTime).toBeCloseTo(queued.mean, 6)
    for (const { imbalance } of timeline) expect(imbalance).toBeGreaterThanOrEqual(1)
  }
})
