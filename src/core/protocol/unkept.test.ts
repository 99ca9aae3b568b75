import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { parseLosslessJson, parseUnkeptJson } from './lossless-json.js'
import { entriesOf, fieldsBehind, filtered, merged, objectOf, unkept } from './unkept.js'

it('is read as the object would be', () => {
  const object = unkept(new Map<string, unknown>([['stream', true], ['__proto__', 1], ['constructor', undefined]])) // biome-ignore format: short
  expect(object['stream']).toBe(true)
  expect(object['__proto__']).toBe(1)
  expect(object['toString']).toBeUndefined()
  expect('stream' in object).toBe(true)
  expect('toString' in object).toBe(false)
  expect(Symbol('a') in unkept(new Map([['Symbol(a)', 1]]))).toBe(false)
  expect(Object.hasOwn(object, 'constructor')).toBe(true)
  expect(Object.hasOwn(object, 'hasOwnProperty')).toBe(false)
  const { stream, ...rest } = object
  expect([stream, Object.keys(rest)]).toEqual([true, ['__proto__', 'constructor']])
  expect(JSON.stringify(object)).toBe('{"stream":true,"__proto__":1}')
  expect(Object.getPrototypeOf(object)).toBeNull()
})

it('cannot be changed', () => {
  const fields = new Map([['a', 1]])
  const object = unkept(fields) as Record<string, number>
  expect(() => (object['a'] = 2)).toThrow(TypeError)
  expect(() => delete object['a']).toThrow(TypeError)
  expect(() => Object.defineProperty(object, 'b', { value: 1 })).toThrow(TypeError)
  expect([...fields]).toEqual([['a', 1]])
})

it('nothing that is done to one reaches another', () => {
  const [one, other] = [unkept(new Map([['a', 1]])), unkept(new Map([['b', 2]]))]
  expect(() => Object.freeze(one)).toThrow(TypeError)
  expect(() => Object.setPrototypeOf(one, { c: 3 }) as unknown).toThrow(TypeError)
  expect([Object.keys(other), Object.getPrototypeOf(other), Object.isExtensible(other)]).toEqual([['b'], null, true])
})

it('says its names, as a usual object does', () => {
  const entries = [['b', 1], ['a', 2], ['7', 3]] as const // biome-ignore format: short
  expect([...entriesOf(unkept(new Map(entries)))]).toEqual(entries) // in the order in which they came
  expect([...entriesOf({ b: 1, a: 2 })]).toEqual([['b', 1], ['a', 2]]) // biome-ignore format: short
})

it('is merged with others as usual objects are', () => {
  const [base, more] = [
    { a: 1, b: 2 },
    { c: 3, a: 4 },
  ]
  const asMap = (object: object): Readonly<Record<string, number>> => unkept(new Map(Object.entries(object)))
  expect(fieldsBehind(merged(base, more))).toBeUndefined()
  for (const all of [merged(base, more), merged(asMap(base), more), merged(base, asMap(more))])
    expect([...entriesOf(all)]).toEqual([['a', 4], ['b', 2], ['c', 3]]) // biome-ignore format: short
  expect(fieldsBehind(merged(base, asMap(more)))).toBeInstanceOf(Map)
  for (const object of [base, asMap(base)])
    expect([...entriesOf(filtered(object, (name, value) => name !== 'a' && value === 2))]).toEqual([['b', 2]])
  expect(fieldsBehind(filtered(base, () => true))).toBeUndefined()
  expect(fieldsBehind(filtered(asMap(base), () => true))).toBeInstanceOf(Map)
})

// Goal: nothing is read otherwise than `JSON.parse`, or the lossless reader, would. Method: any JSON, spelled by JSON.stringify, with and without spaces.
it('reads what JSON.parse reads', () => {
  fc.assert(
    fc.property(fc.json(), fc.constantFrom(undefined, 1), (json, space) => {
      const text = JSON.stringify(JSON.parse(json), undefined, space)
      expect(parseUnkeptJson(text, { isRounded: true })).toEqual(plain(JSON.parse(text)))
      expect(parseUnkeptJson(text)).toEqual(parseLosslessJson(text))
    }),
    { numRuns: 500 },
  )
})

it.each(['1e999', '-0', '12345678901234567890', `${'9'.repeat(400)}`, '0.1e-3'])(
  'rounds %s as JSON.parse does',
  (text) => {
    expect(parseUnkeptJson(text, { isRounded: true })).toBe(JSON.parse(text))
  },
)

it.each(['', '{', '{"a"}', '{"a":1,}', '[1,]', '"\u0001"', '"\\x"', '01', 'nul', '{"a":1} 2', '[[[1]]]'])(
  'refuses %j',
  (text) => {
    expect(() => parseUnkeptJson(text, { depthMax: 2 })).toThrow(expect.objectContaining({ code: 'WR_INVALID_JSON' }))
  },
)

// Goal: whoever keeps one text does not keep all that it came in, which is views of texts as V8 makes them. Method: the heap behind a collection.
it('a text that is held holds nothing else', () => {
  setFlagsFromString('--expose-gc')
  const heapUsed = (): number => (runInNewContext('gc')() as undefined) ?? process.memoryUsage().heapUsed
  const before = heapUsed()
  const held = Array.from({ length: 1000 }, (_, at) => {
    const read = parseUnkeptJson(Buffer.from(`{"id":"what is held, ${at}","pad":"${'x'.repeat(20_000)}"}`).toString())
    return (read as { readonly id: string }).id
  })
  expect(heapUsed() - before).toBeLessThan(5_000_000)
  expect(held.at(-1)).toBe('what is held, 999')
})

/** Without prototypes, as what is read has none. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value !== 'object' || value === null) return value
  return unkept(new Map(Object.entries(value).map(([name, item]) => [name, plain(item)])))
}

it('objects with many names have no shapes, which are made anew for each of them, and are the same otherwise', () => {
  setFlagsFromString('--allow-natives-syntax')
  const hasShape = runInNewContext('(object) => %HasFastProperties(object)') as (object: object) => boolean
  const named = (count: number): [string, number][] => Array.from({ length: count }, (_, at) => [`n${at}`, at])
  const [few, many] = [named(64), [...named(900), ['__proto__', 1], ['7', 2]] as [string, number][]]
  const plain = Object.fromEntries(many)
  const made = [objectOf(many), merged(plain, { n3: 4 }), filtered(plain, (name) => name !== 'n0')]
  expect([objectOf(few), merged(objectOf(named(32)), objectOf(named(32)))].map(hasShape)).toEqual([true, true])
  expect(made.map(hasShape)).toEqual([false, false, false])
  const { n0: _, ...others } = plain
  const wanted = [plain, { ...plain, n3: 4 }, others]
  expect(made.map((object) => Object.entries(object))).toEqual(wanted.map((object) => Object.entries(object)))
})
