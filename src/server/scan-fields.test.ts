import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FieldScan, scanFields, stepBytes, walkInSteps } from './scan-fields.js'

const encoder = new TextEncoder()

describe('scanning', () => {
  it.each([
    '',
    '[]',
    '1',
    '{',
    '{"a"}',
    '{"a":}',
    '{"a":1',
    '{"a":1}x',
    '{"a":1,}',
    '{a:1}',
    '{"a":"x}',
    '{"a":[1}',
    '{"a":1 "b":2}',
  ])('refuses %s', (text) => {
    expect(scanFields(encoder.encode(text))).toBeUndefined()
  })

  it('refuses a key that is not UTF-8', () => {
    expect(scanFields(new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]))).toBeUndefined()
  })

  it('finds the fields behind a byte order mark and white space', () => {
    expect(scanFields(encoder.encode('\uFEFF \n{ "a" :\t1 }\r\n'))?.map((field) => field.name)).toEqual(['a'])
  })
})

const pieces = fc.constantFrom(
  '{',
  '}',
  '[',
  ']',
  '"',
  '\\',
  ',',
  ':',
  'a',
  '1',
  ' ',
  '\\"',
  '\\\\',
  '"a":',
  'null',
  'x'.repeat(40),
)

/** What a walk has found out. */
function outcome(scan: FieldScan): unknown {
  const { fields, marks, depth, problem } = scan
  return fields ? { fields, marks, depth } : problem
}

// Goal: where a walk pauses changes nothing. Method: the same bytes in one walk and in steps that end anywhere.
it('finds the same in steps as at once, wherever they end', () => {
  const body = fc.oneof(
    fc.array(pieces, { maxLength: 40 }).map((parts) => parts.join('')),
    fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 4 })).map((it) => JSON.stringify(it)),
    fc.array(pieces, { maxLength: 30 }).map((parts) => JSON.stringify({ a: parts.join(''), b: [parts] }, undefined, 1)),
  )
  fc.assert(
    fc.property(body, fc.array(fc.integer({ min: 1, max: 20 }), { maxLength: 60 }), (text, sizes) => {
      const bytes = encoder.encode(text)
      const whole = new FieldScan(bytes)
      whole.walkTo(bytes.length)
      const paused = new FieldScan(bytes)
      let end = 0
      for (const size of sizes) paused.walkTo(Math.min(bytes.length, (end += size)))
      paused.walkTo(bytes.length)
      expect(outcome(paused)).toEqual(outcome(whole))
    }),
    { numRuns: 2000 },
  )
})

it('finds the fields that JSON.parse finds, and how deep they are', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 4 })), (object) => {
      const text = JSON.stringify(object)
      const bytes = encoder.encode(text)
      const scan = new FieldScan(bytes)
      scan.walkTo(bytes.length)
      const parsed = JSON.parse(text) as Record<string, unknown>
      const found = Object.create(null) as Record<string, unknown>
      for (const { name, valueStart, valueEnd } of scan.fields!) {
        found[name] = JSON.parse(new TextDecoder().decode(bytes.subarray(valueStart, valueEnd)))
      }
      expect({ ...found }).toEqual({ ...parsed })
      expect(scan.depth).toBe(depthOf(parsed))
    }),
  )
})

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Math.max(0, ...Object.values(value).map(depthOf))
}

const megabytes = 3 << 20
const fill = (part: string): string => part.repeat(Math.ceil(megabytes / part.length))

// What holds the loop is what one step looks at; a search for a quote is the only thing that may go further.
it.each([
  ['token ids', `{"prompt":[${fill('151643,')}1]}`],
  ['escaped quotes', `{"prompt":"${fill('\\"')}"}`],
  ['a run of backslashes', `{"prompt":"${fill('\\\\')}"}`],
  ['nested lists', `{"a":[${fill('[[],[]],')}1]}`],
  ['messages', `{"messages":[${fill('{"role":"user","content":"x"},')}1]}`],
  ['white space', `{${fill(' ')}}`],
  ['one long word', `{"a":${fill('1')}}`],
])('looks at %s in steps of bounded length', (_says, text) => {
  const scan = new FieldScan(encoder.encode(text))
  let steps = 1
  let marks = 0
  let longest = 0
  for (const _ of walkInSteps(scan)) {
    longest = Math.max(longest, scan.marks - marks)
    marks = scan.marks
    steps++
  }
  expect(scan.fields).toHaveLength(text.startsWith('{ ') ? 0 : 1)
  expect(steps).toBe(Math.ceil(text.length / stepBytes))
  expect(longest).toBeLessThanOrEqual(stepBytes)
})

it.each([
  ['more fields than any request has', `{${fill('"a":1,')}"b":1}`, 'the body has more than 256 fields'],
  ['an endless name', `{"${fill('a')}":1}`, "a field's name has more than 4096 bytes"],
])('ends at %s', (_says, text, problem) => {
  const scan = new FieldScan(encoder.encode(text))
  scan.walkTo(scan.body.length)
  expect(scan.fields).toBeUndefined()
  expect(scan.problem).toBe(problem)
})
