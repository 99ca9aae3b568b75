import fc from 'fast-check'
import { expect, it } from 'vitest'
import { longBytes } from '../scan-fields.js'
import type { JsonVerdict } from './check-json.js'
import { checkJson, stepMarks } from './check-json.js'

function verdictOf(text: string, depthMax = 128): JsonVerdict {
  const steps = checkJson(Buffer.from(text), depthMax)
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
  }
}

function parses(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

// biome-ignore format: a list of pieces
const pieces = fc.constantFrom('{', '}', '[', ']', '"', ',', ':', '"a"', '"a":', '1', '-', '0', '01', '.5', '1.5', 'e+1', 'E', 'true', 'nul', 'null', ' ', '\n', '\\', '\\n', '\\x', '\\u00e', '\\u00e9', '\\u00G9', 'é', '😀', '[]', '{}', '1,', '"\\""')

// Goal: our grammar is that of `JSON.parse`, for what almost is JSON.
it('takes what JSON.parse takes, and nothing else', () => {
  const value = fc.jsonValue({ maxDepth: 4 }).map((it) => JSON.stringify(it))
  const edited = fc.tuple(value, fc.nat(), fc.nat(3), pieces).map(([text, at, cut, piece]) => {
    const place = at % (text.length + 1)
    return text.slice(0, place) + piece + text.slice(place + cut)
  })
  const spelled = fc.array(pieces, { maxLength: 12 }).map((parts) => parts.join(''))
  fc.assert(
    fc.property(fc.oneof(value, edited, spelled), (text) => {
      const isMendable = verdictOf(text) === 'control characters'
      fc.pre(!isMendable)
      expect(verdictOf(text) === 'json').toBe(parses(text))
    }),
    { numRuns: 5000 },
  )
})

it.each([
  ['{"a":"\n"}', 'control characters'],
  ['{"a\t":1}', 'control characters'],
  ['{"a":\u0001 1}', 'not json'],
  ['{"a":"\\\n"}', 'not json'],
  ['\uFEFF{"a":1}', 'json'],
  ['[[1]]', 'json'],
  ['[[[1]]]', 'not json'], // deeper than two
  [`[1${'0'.repeat(5000)}]`, 'json'],
  [`[0.${'0'.repeat(30_000)}]`, 'json'],
  [`[1${'0'.repeat(33_000)}]`, 'not json'],
])('%j: %s', (text, verdict) => {
  expect(verdictOf(text, 2)).toBe(verdict)
})

it.each([
  ['in a text', (fill: string) => `{"a":"${fill}"}`, 'é'],
  ['in escapes', (fill: string) => `["${fill}"]`, '\\u00e9'],
  ['between values', (fill: string) => `[${fill}1]`, '1,'],
  ['in white space', (fill: string) => `{"a":${fill}1}`, ' '],
])('is the same where a step ends %s', (_, wrap, part) => {
  for (let shift = 0; shift < 3; shift++) {
    const text = wrap(part.repeat(Math.ceil(longBytes / part.length) + shift))
    expect(verdictOf(' '.repeat(shift) + text)).toBe('json')
    expect(verdictOf(text.slice(0, -1))).toBe('not json')
  }
})

it.each([
  ['numbers', '1,', '1'],
  ['words', 'true,', '1'],
  ['empty objects', '{},', '{}'],
])('%s are checked some at a time, however short they are', (_, part, last) => {
  const steps = checkJson(Buffer.from(`[${part.repeat(4 * stepMarks)}${last}]`), 2)
  let stepCount = 1
  while (!steps.next().done) stepCount++
  expect(stepCount).toBeGreaterThan(8)
})
