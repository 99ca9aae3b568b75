import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readTrace } from './read-trace.js'
import { replay } from './replay.js'
import type { ReplayPolicy } from './replay.js'
import { roundRobin } from './round-robin.js'
import { smoothArrivals } from './smooth-arrivals.js'
import { formatMooncake, parseMooncake, parseTrace } from './trace.js'

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)
const row = (fields: Record<string, unknown>): string =>
  JSON.stringify({ timestamp: 0, input_length: 700, output_length: 3, hash_ids: [1, 2], ...fields })

describe('readTrace', () => {
  it('reads plain and gzip alike, by content and not by name', () => {
    const text = `${row({})}\n${row({ timestamp: 40 })}\n`
    expect(readTrace(gzipSync(text))).toEqual(readTrace(bytesOf(text)))
    expect(readTrace(bytesOf(text)).requests.map(({ arrivalMs }) => arrivalMs)).toEqual([0, 40])
  })

  it('refuses a trace without requests, and gzip that is cut short', () => {
    expect(() => readTrace(bytesOf('\n\n'))).toThrow('no requests')
    expect(() => readTrace(gzipSync(row({})).subarray(0, 20))).toThrow('cannot be unpacked: unexpected end of file')
  })

  it('accepts the names that Dynamo and AIPerf have for the fields', () => {
    const line =
      '{"created_time":7,"input_tokens":700,"output_tokens":3,"hash_ids":[1,2],"request_id":"a","priority":3}'
    expect(readTrace(bytesOf(line)).requests[0]).toEqual({
      index: 0,
      arrivalMs: 7,
      promptTokens: 700,
      outputTokens: 3,
      blockIds: [1, 2],
    })
  })

  it('sorts by arrival', () => {
    const text = [row({ timestamp: 50 }), row({ timestamp: 10, output_length: 4 })].join('\n')
    expect(readTrace(bytesOf(text)).requests.map(({ index, outputTokens }) => [index, outputTokens])).toEqual([
      [0, 4],
      [1, 3],
    ])
  })
})

it.each([
  ['is no JSON', '{"timestamp":'],
  ['is no JSON object', '[1]'],
  ['lacks timestamp', '{"input_length":5,"output_length":1,"hash_ids":[1]}'],
  ['lacks a usable timestamp', row({ timestamp: 'soon' })],
  ['lacks a usable timestamp', row({ timestamp: -1 })],
  ['lacks a usable timestamp', row({ timestamp: 1e300 })],
  ['has a text: a replay needs input_length', row({ input_length: undefined, text_input: 'hello' })],
  ['lacks a usable input_length', row({ input_length: 0 })],
  ['lacks a usable input_length', row({ input_length: 1.5 })],
  ['lacks a usable input_length', row({ input_length: 1e15 })],
  ['has 2 hash_ids for 1025 tokens, and ids of 512 tokens cover 1024', row({ input_length: 1025 })],
  ['lacks a usable output_length', row({ output_length: null })],
  ['lacks usable hash_ids', row({ hash_ids: [1, 'two'] })],
  ['lacks a usable delay', row({ session_id: 'a', delay: 'long' })],
  ['lacks a usable session_id', row({ session_id: {} })],
])('names the number of a line that %s', (complaint, bad) => {
  expect(() => parseMooncake(`${row({})}\n\n${bad}`)).toThrow(`trace line 3 ${complaint}`)
})

it('reads what it writes', () => {
  const anyRequest = fc.record({
    arrivalMs: fc.nat(100_000),
    promptTokens: fc.integer({ min: 1, max: 5000 }),
    outputTokens: fc.nat(2000),
    blockIds: fc.oneof(fc.constant([]), fc.array(fc.nat(), { minLength: 10, maxLength: 10 })),
    waits: fc.option(fc.record({ back: fc.integer({ min: 1, max: 3 }), delayMs: fc.nat(5000) })),
  })
  fc.assert(
    fc.property(fc.array(anyRequest, { maxLength: 20 }), (requests) => {
      const taken = new Set<number>() // a turn has one turn behind it at most
      const sorted = requests
        .sort((a, b) => a.arrivalMs - b.arrivalMs)
        .map(({ waits, ...request }, index) => {
          const before = index - (waits?.back ?? 0)
          if (!waits || before < 0 || taken.has(before)) return { index, ...request }
          taken.add(before)
          return { index, ...request, follows: { index: before, delayMs: waits.delayMs } }
        })
      expect(parseMooncake(formatMooncake(sorted))).toEqual(sorted)
    }),
  )
})

it('starts a later turn of a session when the turn before it has ended, plus its delay', () => {
  const text = [
    row({ session_id: 's', output_length: 100 }),
    row({ timestamp: undefined, session_id: 's', delay: 500 }),
    row({ timestamp: undefined, session_id: 's', delay_ms: 90_000 }),
  ].join('\n')
  const arrivals: number[] = []
  const ends: number[] = []
  const policy = roundRobin(1)
  const report = replay(parseMooncake(text), {
    workers: 1,
    policy: {
      route: (request, now) => (arrivals.push(now), policy.route(request, now)),
      finished: (_, __, now) => void ends.push(now),
    },
  })
  expect(report.completed).toBe(3)
  expect(arrivals).toEqual([0, ends[0]! + 500, ends[1]! + 90_000])
  expect(report.ttft_ms.p99).toBeLessThan(200) // counted from a turn's own arrival
})

it('lets a turn wait as long as its row is behind the row before, where it has no delay of its own', () => {
  const turns = [0, 10_000, 12_000].map((timestamp) => row({ timestamp, session_id: 's' }))
  const last = row({ timestamp: 20_000, session_id: 's', delay: 700 })
  expect(parseMooncake([...turns, last].join('\n')).map(({ follows }) => follows?.delayMs)).toEqual([
    undefined,
    10_000,
    2000,
    700,
  ])
})

it('gives the turns of a session the times that Dynamo 1.6.1 gave them', () => {
  const line = (tokens: number, output: number, ids: readonly number[], rest: object): string =>
    JSON.stringify({ input_length: tokens, output_length: output, hash_ids: ids, session_id: 's', ...rest })
  const text = [
    line(1000, 100, [1, 2], { timestamp: 0 }),
    line(1500, 50, [1, 2, 3], { timestamp: 10_000 }),
    line(1500, 50, [1, 2, 3], { delay: 500 }),
    line(1500, 50, [1, 2, 3], { timestamp: 20_000, delay: 700 }),
  ].join('\n')
  const times: number[][] = [[], [], [], []]
  const policy: ReplayPolicy = {
    route: ({ index }, now) => (times[index]!.push(now), 0),
    firstToken: ({ index }, _, now) => void times[index]!.push(now),
    finished: ({ index }, _, now) => void times[index]!.push(now),
  }
  replay(parseMooncake(text), { workers: 1, policy })
  const theirs = [
    [0, 32.105859, 605.717553],
    [10_605.717553, 10_630.540794, 10_915.647058],
    [11_415.647058, 11_432.573944, 11_717.680208],
    [12_417.680208, 12_434.607094, 12_719.713358],
  ]
  // They round every pass to a millionth of a second.
  for (const [turn, row] of theirs.entries())
    for (const [at, ms] of row.entries()) expect(Math.abs(times[turn]![at]! - ms), `turn ${turn}`).toBeLessThan(0.05)
})

it('takes a prompt without ids for one that nobody else has', () => {
  const lone = row({ input_length: 5000, hash_ids: undefined })
  const text = [lone, row({ timestamp: 9000 }), row({ timestamp: 18_000 }), lone].join('\n')
  const { reuse } = replay(parseMooncake(text), { workers: 1, policy: roundRobin(1) })
  expect(reuse).toBeCloseTo(640 / 11_400, 5) // the second of the two with ids, but for its last token's block
})

it('reads what editors of other systems leave: byte order marks, carriage returns, empty lines', () => {
  const text = `${row({})}\n${row({ timestamp: 5 })}\n`
  expect(parseMooncake(`\uFEFF${text.replaceAll('\n', '\r\n')}\r\n  \r\n`)).toEqual(parseMooncake(text))
})

it('doubts a block size that leaves ids over', () => {
  const fine = row({ input_length: 700, hash_ids: Array.from({ length: 44 }, (_, id) => id) })
  expect(parseTrace(`${row({})}\n${fine}`).doubt).toContain('1 of 2 lines have more hash_ids than blocks of 512')
  expect(parseTrace(`${row({})}\n${fine}`).doubt).toContain('line 2: 44 for 700 tokens')
  expect(parseTrace(fine, 16).doubt).toBeUndefined()
})

it('smooths arrivals inside the given time, by seed, and keeps turns behind each other', () => {
  const trace = parseMooncake(
    Array.from({ length: 60 }, (_, index) =>
      row({ timestamp: 3000 * Math.floor(index / 10), output_length: index, session_id: `s${index % 7}` }),
    ).join('\n'),
  )
  const smooth = smoothArrivals(trace, 3000, 1)
  expect(smooth).toEqual(smoothArrivals(trace, 3000, 1))
  expect(smooth).not.toEqual(smoothArrivals(trace, 3000, 2))
  expect(smooth.map(({ index }) => index)).toEqual(smooth.map((_, index) => index))
  for (const [index, request] of smooth.entries()) {
    if (index > 0) expect(request.arrivalMs).toBeGreaterThanOrEqual(smooth[index - 1]!.arrivalMs)
    const before = trace[request.outputTokens]!
    expect(request.arrivalMs).toBeGreaterThanOrEqual(before.arrivalMs)
    if (!before.follows) expect(request.arrivalMs).toBeLessThan(before.arrivalMs + 3000)
    if (request.follows) {
      expect(request.follows.index).toBeLessThan(index)
      expect(smooth[request.follows.index]!.outputTokens % 7).toBe(request.outputTokens % 7)
    }
  }
})
