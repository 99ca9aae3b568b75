import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { createTimer, dynamo12Profile, dynamoProfile, h200Profile } from './timing.js'
import type { TimingProfile } from './timing.js'
import { parseStepTable } from './timing-table.js'

const still = { speedup: 1, decodeSpeedup: 1 }

function passMs(
  profile: TimingProfile,
  prefills: [number, number][],
  contexts: number[],
  speed = still,
  heldBlocks = 8,
): number {
  const timer = createTimer(profile, 16384 * 64, speed)
  for (const [fresh, prefix] of prefills) timer.prefill(fresh, prefix, true)
  for (const context of contexts) timer.decode(context)
  return timer.take(heldBlocks / 16384)
}

// One-request replays of Dynamo itself: 512 tokens took 24.386 ms in 1.6.1 and 30.152 ms, with a decode step, in 1.2.1.
it('gives the first token of 512 when Dynamo 1.6.1 and 1.2.1 gave it', () => {
  expect(passMs(dynamoProfile, [[512, 0]], [])).toBeCloseTo(24.386, 3)
  expect(passMs(dynamo12Profile, [[512, 0]], [])).toBeCloseTo(30.152, 3)
})

it('charges decoding by the share of memory that decodes, never below the floor', () => {
  expect(passMs(dynamoProfile, [], [16384 * 32])).toBeCloseTo(5.74 + 54.01 / 2 - 25.74 / 4, 9)
  expect(passMs(dynamoProfile, [], [16384 * 640])).toBeCloseTo(5.74 + 54.01 - 25.74, 9)
})

// The least TTFT of a recorded replay: 35 new tokens after 16 cached blocks took 17.033 ms in 1.6.1 and 22.829 in 1.2.1.
it('charges decoding by the blocks that are held as of 1.2.1, whoever holds them', () => {
  expect(passMs(dynamoProfile, [[35, 1024]], [])).toBeCloseTo(17.033356, 6)
  expect(passMs(dynamo12Profile, [[35, 1024]], [], still, 17)).toBeCloseTo(22.829369, 5)
})

it('divides prefill by the speed-up and decode by both', () => {
  const whole = passMs(dynamoProfile, [[512, 0]], []) + passMs(dynamoProfile, [], [512])
  expect(passMs(dynamoProfile, [[512, 0]], [512])).toBeCloseTo(whole, 9)
  const fast = passMs(dynamoProfile, [], [512], { speedup: 2, decodeSpeedup: 4 })
  expect(fast).toBeCloseTo(passMs(dynamoProfile, [], [512]) / 8, 9)
  expect(() => createTimer(dynamoProfile, 1, { speedup: 0, decodeSpeedup: 1 })).toThrow('above 0')
})

it('pays one launch for a pass that prefills and decodes, in a profile of terms', () => {
  const both = passMs(h200Profile, [[1024, 0]], [512])
  const alone = passMs(h200Profile, [[1024, 0]], []) + passMs(h200Profile, [], [512])
  expect(both).toBeCloseTo(alone - 5.81, 9)
})

const points = readFileSync('test/fixtures/gpu/h200-llama8b-steps.jsonl', 'utf8')

it('answers measured points exactly and lies between them elsewhere', () => {
  const table = { kind: 'table', name: 'h200', ...parseStepTable(points) } as const
  expect(table.prefill.length).toBeGreaterThan(40)
  for (const { newTokens, prefixTokens, ms } of table.prefill)
    expect(passMs(table, [[newTokens, prefixTokens]], [])).toBeCloseTo(ms, 9)
  for (const { batch, context, ms } of table.decode)
    expect(
      passMs(
        table,
        [],
        Array.from({ length: batch }, () => context),
      ),
    ).toBeCloseTo(ms, 9)
  expect(passMs(table, [[768, 0]], [])).toBeCloseTo((15.41 + 28.715) / 2, 9)
})

it('keeps the fit near the measured prefills it was made from', () => {
  for (const { newTokens, prefixTokens, ms } of parseStepTable(points).prefill) {
    if (newTokens < 1024 || newTokens > 8192) continue
    const fitted = passMs(h200Profile, [[newTokens, prefixTokens]], [])
    expect(Math.abs(fitted / ms - 1), `${newTokens} after ${prefixTokens}`).toBeLessThan(0.15)
  }
})

it.each([
  [
    'a missing value',
    '{"kind":"prefill","new":1,"ms":2}',
    'line 1 of the step times, a prefill, lacks a usable prefix',
  ],
  ['a pass before it begins', '{"kind":"device"}\n{"kind":"decode","batch":1,"context":9,"ms":-1}', 'line 2'],
  ['a pass that takes no time', '{"kind":"prefill","new":1,"prefix":0,"ms":0}', 'lacks a usable ms'],
  ['a batch of nobody', '{"kind":"decode","batch":0,"context":9,"ms":1}', 'lacks a usable batch'],
])('refuses points with %s, by their line', (_, text, words) => {
  expect(() => parseStepTable(text)).toThrow(words)
})

it('refuses points that make no table, by the name of their file', () => {
  const table = (lines: string[]): TimingProfile => ({
    kind: 'table',
    name: 'mine',
    ...parseStepTable(lines.join('\n')),
  })
  const decode = points.split('\n').filter((line) => line.includes('decode'))
  const single = '{"kind":"prefill","new":16,"prefix":0,"ms":3}'
  expect(() => passMs(table([single, ...decode]), [[1, 0]], [])).toThrow('mine: prefill points by new and prefix need')
  const hole = ['{"kind":"prefill","new":32,"prefix":64,"ms":3}', single, ...decode]
  expect(() => passMs(table(hole), [[1, 0]], [])).toThrow('have a hole at 16 and 64')
})
