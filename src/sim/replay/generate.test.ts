import { expect, it } from 'vitest'
import { runExperiment } from './experiment.js'
import { generateTrace, traceShapes } from './generate.js'
import { formatMooncake, parseMooncake } from './trace.js'

it.each(traceShapes)('generates %s: as many as asked for, by seed alone, and readable as a trace', (shape) => {
  const trace = generateTrace(shape, { requests: 400, seed: 3 })
  expect(trace).toEqual(generateTrace(shape, { requests: 400, seed: 3 }))
  expect(trace).not.toEqual(generateTrace(shape, { requests: 400, seed: 4 }))
  expect(trace).toHaveLength(400)
  for (const [index, request] of trace.entries()) {
    expect(request.index).toBe(index)
    expect(request.blockIds).toHaveLength(Math.ceil(request.promptTokens / 512))
    expect(request.outputTokens).toBeGreaterThan(0)
    if (index > 0) expect(request.arrivalMs).toBeGreaterThanOrEqual(trace[index - 1]!.arrivalMs)
  }
  const rate = (1000 * trace.length) / trace.at(-1)!.arrivalMs
  expect(rate).toBeGreaterThan(1.5)
  expect(rate).toBeLessThan(10)
  const read = parseMooncake(formatMooncake(trace))
  expect(read.map(({ blockIds }) => blockIds)).toEqual(trace.map(({ blockIds }) => blockIds))
})

/** What share of a shape an unlimited cache would find, and that a router that knows caches finds more than turns do. */
it.each([
  ['chat', 0.5, 0.9],
  ['agents', 0.8, 0.99],
  ['rag', 0.15, 0.8],
  ['tenants', 0.5, 0.95],
  ['fanout', 0.75, 0.98],
] as const)('%s shares as much as it should, and warm finds it', (shape, low, high) => {
  const trace = generateTrace(shape, { requests: 300, seed: 1 })
  const [warm, turns, ideal] = runExperiment(trace, {
    workers: 4,
    policies: ['warm', 'round-robin'],
    isIdealWanted: true,
  })
  expect(ideal!.reuse).toBeGreaterThan(low)
  expect(ideal!.reuse).toBeLessThan(high)
  expect(warm!.reuse).toBeGreaterThan(turns!.reuse)
})
