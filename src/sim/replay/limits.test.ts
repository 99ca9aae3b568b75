import { describe, expect, it } from 'vitest'
import { dynamoEngine } from '../engine/engine.js'
import { runExperiment } from './experiment.js'
import type { ExperimentOptions } from './experiment.js'
import { answerTokensOf } from './limits.js'
import { notesOf } from './markdown-table.js'
import { policyNames } from './policies.js'
import type { TraceRequest } from './trace.js'

const request = (fields: Partial<TraceRequest>): TraceRequest => ({
  index: 0,
  arrivalMs: 0,
  promptTokens: 100,
  outputTokens: 3,
  blockIds: [],
  ...fields,
})

it.each<[string, Partial<ExperimentOptions>, string, Partial<TraceRequest>?]>([
  ['workers', { workers: 1_000_000 }, '1000000 workers are too many'],
  ['routers', { routers: 100_000 }, '100000 routers are too many'],
  ['blocks', { blocks: 2 ** 40 }, 'blocks to keep: at most 67108864'],
  ['blocks that several routers know of', { blocks: 2 ** 20, routers: 40 }, 'known to 40 routers'],
  ['slowness', { slow: { share: 1, factor: 1e9 } }, 'takes 1000000000 times as long'],
  ['arrivals', { arrivalSpeedup: 1e-300 }, 'the last arrival', { arrivalMs: 1 }],
  ['delays between turns', {}, 'the last arrival', { follows: { index: 0, delayMs: 1e300 } }],
  ['smoothing', { smoothMs: 1e300 }, 'smoothing is at'],
  ['lateness of events', { eventDelayMs: 1e300 }, 'the delay of events'],
  ['transfer', { transferMsPerToken: 1e300 }, 'the transfer of the longest prompt'],
])('refuses too much of %s before anything runs', (_, options, words, fields = {}) => {
  let told = 0
  const run = (): unknown =>
    runExperiment([request(fields)], { workers: 2, policies: ['warm'], progress: () => void told++, ...options })
  expect(run).toThrow(expect.objectContaining({ details: { reason: expect.stringContaining(words) } }))
  expect(told).toBe(0)
})

it('judges every policy before the first one runs', () => {
  let told = 0
  const paired = { workers: 2, prefillWorkers: 1, policies: ['warm', 'random'], progress: () => void told++ } as const
  expect(() => runExperiment([request({})], paired)).toThrow('random does not know')
  expect(told).toBe(0)
})

describe('an answer that the engine has no room for', () => {
  const engine = { ...dynamoEngine, blocks: 16 } // 1,024 tokens

  it.each([
    ['fits', { outputTokens: 900 }, 900],
    ['is cut where the KV ends', { outputTokens: 5000 }, 925],
    ['has one token even if none was asked for', { outputTokens: 0 }, 1],
    ['has one token behind a prompt that fills all of it', { promptTokens: 1024 }, 1],
    ['does not begin behind a prompt that does not fit', { promptTokens: 1025 }, 0],
  ])('%s, by every policy and by the floor', (_, fields, tokens) => {
    const one = request(fields)
    expect(answerTokensOf(one, engine)).toBe(tokens)
    const results = runExperiment([one], { workers: 1, policies: policyNames, blocks: 16, isIdealWanted: true })
    for (const result of results) {
      expect(result.output_tokens, result.policy).toBe(tokens)
      expect(result.rejected, result.policy).toBe(tokens === 0 ? 1 : 0)
    }
    const isCut = tokens > 0 && tokens < one.outputTokens
    expect(notesOf(results).filter((note) => note.startsWith('answers that end early: 1,'))).toHaveLength(isCut ? 1 : 0)
  })
})
