// Goal: what a parsed body is spelled as is what JSON.stringify would have made of it in one go, however it is cut.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isLongBody, spellInSlices, weightLeft } from './long-body.js'
import { parsePythonJson } from './template/python-json.js'
import { Float } from './template/values.js'
import { turnsDuring } from './turns.case.js'

const spelled = async (body: object, chunk?: number): Promise<string> =>
  Buffer.from(await spellInSlices(body, chunk === undefined ? {} : { chunk })).toString('utf8')

/** Texts of whole characters, their halves, and what JSON escapes. */
const anyText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc
    .array(fc.constantFrom('a', '"', '\\', '\n', '\u0000', '\ud83d', '\ude00', '\u2028', 'é', '好', '\ud83d\ude00'), {
      maxLength: 40,
    })
    .map((it) => it.join('')),
)

const { body: anyBody } = fc.letrec<{ body: unknown; value: unknown; object: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 6, depthSize: 'small' },
    anyText,
    fc.double(),
    fc.integer(),
    fc.constantFrom(null, true, false, undefined, Number.NaN, -0, 1e21, {}, []),
    fc.array(tie('value'), { maxLength: 5 }),
    tie('object'),
  ),
  object: fc.oneof(
    fc.dictionary(anyText, tie('value'), { maxKeys: 5, noNullPrototype: false }),
    fc.dictionary(fc.constantFrom('1', '0', 'b', '__proto__', 'toJSON'), tie('value'), { maxKeys: 5 }),
  ),
  body: fc.oneof(tie('object'), fc.array(tie('value'), { maxLength: 5 })),
}))

describe('a body that is spelled in slices', () => {
  it('has the bytes that JSON.stringify makes, wherever it is cut', async () => {
    await fc.assert(
      fc.asyncProperty(anyBody, fc.integer({ min: 2, max: 50 }), async (body, chunk) => {
        expect(await spelled(body as object, chunk)).toBe(JSON.stringify(body))
      }),
      { numRuns: 2000 },
    )
  })

  it.each([
    { says: 'the end of a slice', chunk: 2, text: 'a\ud83d\ude00b' },
    { says: 'every place', chunk: 3, text: '\ud83d\ude00'.repeat(9) },
    { says: 'beside a lone half', chunk: 2, text: '\ud83d\ud83d\ude00\ud83d' },
  ])('keeps the two halves of a character together at $says', async ({ chunk, text }) => {
    expect(await spelled({ text, [text]: 1 }, chunk)).toBe(JSON.stringify({ text, [text]: 1 }))
  })

  it('asks a value what it is, as JSON does', async () => {
    const body = { at: new Date(0), deep: [{ toJSON: (key: string) => `at ${key}` }] }
    expect(await spelled(body)).toBe(JSON.stringify(body))
  })

  it('takes numbers and texts out of their boxes, as JSON does', async () => {
    const body = { a: [Object('x"'), Object(1.5), Object(false)], b: { toJSON: (): object => Object('y') as object } }
    expect(await spelled(body)).toBe(JSON.stringify(body))
  })

  it('refuses bytes: they have a key for each, and no engine reads them', async () => {
    for (const bytes of [new Uint32Array(1 << 20), Buffer.alloc(1 << 20)]) {
      expect(isLongBody({ prompt: bytes })).toBe(true)
      await expect(spellInSlices({ prompt: bytes })).rejects.toMatchObject({ reason: 'malformed' })
    }
  })

  it('refuses ints that Python would not read', async () => {
    for (const int of [10n ** 4300n, -(10n ** 4300n)])
      await expect(spellInSlices({ int })).rejects.toMatchObject({ reason: 'too-long' })
    expect(await spelled({ int: 10n ** 4300n - 1n })).toBe(`{"int":${'9'.repeat(4300)}}`)
  })

  it('refuses a text that is too long before it reads any of it', async () => {
    const long = 'ab'.repeat(20 << 20)
    for (const body of [{ long }, { [long]: 1 }]) {
      const spelling = spellInSlices(body)
      await expect(spelling).rejects.toMatchObject({ details: { length: long.length } })
    }
  })

  it('spells what templates have and JSON has not as Python reads it', async () => {
    const order = new Map<string, unknown>([
      ['2', 10n ** 30n],
      ['1', new Float(1)],
    ])
    const text = await spelled({ order })
    expect(text).toBe(`{"order":{"2":${'1'.padEnd(31, '0')},"1":1.0}}`)
    expect(parsePythonJson(text)).toEqual({ order })
  })

  it('ends with an error for what is nested without end, or has no end', async () => {
    const ring: unknown[] = []
    ring.push(ring)
    await expect(spellInSlices(ring)).rejects.toThrow(RangeError)
    const wide: unknown[] = []
    wide.push('x'.repeat(1 << 20), wide)
    await expect(spellInSlices(wide)).rejects.toMatchObject({ code: 'WR_TOKENS_TEXT_TOO_LONG' })
  })

  it('is deep up to a bound, and long up to another', async () => {
    const nested = (depth: number): unknown[] => {
      let list: unknown[] = []
      for (let at = 1; at < depth; at++) list = [list]
      return list
    }
    expect(await spelled(nested(10_000))).toBe('['.repeat(10_000) + ']'.repeat(10_000))
    await expect(spelled(nested(10_001))).rejects.toThrow(RangeError)
    const long = 'x'.repeat((16 << 20) - 4)
    expect(await spellInSlices([long])).toHaveLength(16 << 20)
    await expect(spellInSlices([`${long}x`])).rejects.toMatchObject({ code: 'WR_TOKENS_TEXT_TOO_LONG' })
  })

  it('has all of its characters, however many bytes they take', async () => {
    const body = { a: '好'.repeat(400_000), b: Array.from({ length: 50_000 }, () => 'é好') }
    expect(await spelled(body)).toBe(JSON.stringify(body))
  })

  it('lets others have their turn before, while and after it is spelled', async () => {
    let isRead = false
    const watched = {
      get a() {
        return (isRead = true)
      },
    }
    const spelling = spelled(watched)
    expect(isRead).toBe(false)
    expect(await spelling).toBe('{"a":true}')
    // Values that are left out: of them no text grows by which anybody would look at the clock.
    const left = Object.fromEntries(Array.from({ length: 2000 }, (_, at) => [`key ${at}`, undefined]))
    const looked = await turnsDuring(() => spelled(Array.from({ length: 300 }, () => left)))
    expect(looked.turns).toBeGreaterThan(12) // about six without
    const joined = await turnsDuring(() => spellInSlices(['x'.repeat(15 << 20)]))
    expect(joined.turns).toBeGreaterThanOrEqual(60) // two for each block of 512 KB
  })

  it('ends when nobody wants it any more', async () => {
    const stop = new AbortController()
    const spelling = spellInSlices(
      Array.from({ length: 1 << 20 }, () => ({ a: 'b' })),
      { signal: stop.signal },
    )
    stop.abort(new Error('gone'))
    await expect(spelling).rejects.toThrow('gone')
  })
})

describe('a body is long', () => {
  const many = (count: number, item: unknown): unknown[] => Array.from({ length: count }, () => item)
  it.each([
    { says: 'one text', body: { prompt: 'x'.repeat(600_000) }, isLong: true },
    { says: 'a name', body: { ['x'.repeat(600_000)]: 1 }, isLong: true },
    { says: 'many messages', body: { messages: many(20_000, { role: 'user', content: '' }) }, isLong: true },
    { says: 'many empty lists', body: { messages: many(20_000, []) }, isLong: true },
    { says: 'many ids', body: { prompt: many(200_000, 1) }, isLong: true },
    { says: 'many keys', body: Object.fromEntries(many(40_000, 0).map((_, at) => [`key ${at}`, 1])), isLong: true },
    { says: 'a map', body: { a: new Map(many(40_000, 0).map((_, at) => [`key ${at}`, 1])) }, isLong: true },
    { says: 'depth', body: JSON.parse(`${'['.repeat(50_000)}${']'.repeat(50_000)}`) as object, isLong: true },
    { says: 'a prompt of 220 KB', body: { prompt: 'x'.repeat(220_000) }, isLong: false },
    { says: '60,000 ids', body: { prompt: many(60_000, 1) }, isLong: false },
    { says: '1,000 messages', body: { messages: many(1000, { role: 'user', content: 'a' }) }, isLong: false },
  ])('by $says: $isLong', ({ body, isLong }) => {
    expect(isLongBody(body)).toBe(isLong)
  })

  it('by one unit or byte more than its bound', () => {
    const units = (512 << 10) - 64 - 6 - 16 - 16 // an object, the name of a field, its text
    const texts = [units, units + 1].map((length) => isLongBody({ prompt: 'x'.repeat(length) }))
    const bytes = [512 << 10, (512 << 10) + 1].map((length) => isLongBody({}, new Uint8Array(length)))
    expect([texts, bytes]).toEqual([[false, true], [false, true]]) // biome-ignore format: short
  })

  it('by its bytes alone, where it has any', () => {
    expect(isLongBody({ prompt: 'x'.repeat(300_000) }, new Uint8Array(300_010))).toBe(false)
    expect(isLongBody({}, new Uint8Array(600_000))).toBe(true)
  })
})

describe('what a body weighs', () => {
  const heavy = 'x'.repeat(2000)
  const never = (): never => {
    throw new Error('it was settled before')
  }
  const list = Object.defineProperty([heavy, 1], 1, { get: never })
  class Pairs extends Map<string, string> {
    override *[Symbol.iterator](): MapIterator<[string, string]> {
      yield ['a', heavy]
      never()
    }
  }

  it.each([
    ['an object', Object.defineProperty({ a: heavy }, 'b', { enumerable: true, get: never })],
    ['a list', list],
    ['a mapping', new Pairs()],
    ['a list inside of another', [list, Object.defineProperty([1], 0, { get: never })]],
  ])('is looked at until it is too much, and no further: %s', (_says, value) => {
    expect(weightLeft(value, 1000)).toBeLessThan(0)
  })

  it('is for bytes as many as they are, and nobody asks for their keys', () => {
    expect(weightLeft(new Uint8Array(1000), 2000)).toBe(2000 - 1000 - 64)
  })
})
