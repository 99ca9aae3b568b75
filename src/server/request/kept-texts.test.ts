import fc from 'fast-check'
import { expect, it } from 'vitest'
import { KeptTable } from '../kept-table.js'
import { NewTexts, textsLeft } from './kept-texts.js'

let cases = 0
/** Nine characters that nobody had before. */
const fresh = (): string => `t${(cases++).toString(36).padStart(8, '0')}`
const freshOf = (count: number, make: (text: string) => string = (text) => text): string[] =>
  Array.from({ length: count }, () => make(fresh()))
const admits = (value: unknown): boolean => new NewTexts().admits(Buffer.from(JSON.stringify(value)))

it.each<[string, (count: number) => unknown]>([
  ['short texts', (count) => freshOf(count)],
  ['names', (count) => Object.fromEntries(freshOf(count).map((name) => [name, 1]))],
  [
    'long names',
    (count) => Object.fromEntries(freshOf(count, (name) => `${'x'.repeat(70)}${name}`).map((name) => [name, 1])),
  ],
  ['names of objects deep inside', (count) => freshOf(count).map((name) => [[{ [name]: 'the same text' }]])],
  ['texts in other scripts', (count) => freshOf(count, (text) => `好${text.slice(1)}`)],
  ['texts with escapes', (count) => freshOf(count, (text) => `"${text.slice(1)}`)],
])('64 new ones may be parsed, and no more: %s', (_what, make) => {
  expect(admits(make(64))).toBe(true)
  expect(admits(make(65))).toBe(false)
})

it('what was there lately is not new', () => {
  const texts = freshOf(55)
  for (let again = 0; again < 5; again++) expect(admits({ texts, more: freshOf(3) })).toBe(true)
  const many = freshOf(640)
  const tries = Array.from({ length: 11 }, () => admits(many))
  expect(tries[0]).toBe(false)
  expect(tries.at(-1)).toBe(true) // each learned some of them
})

it('texts of more than ten characters do not count, whatever is in them', () => {
  expect(admits(freshOf(2000, (text) => `${text}, and`))).toBe(true)
  expect(admits(freshOf(2000, (text) => `${'\\"'.repeat(60)}${text}`))).toBe(true)
  expect(admits(freshOf(500, (text) => `${'"'.repeat(700)}${text}`))).toBe(true)
})

it('texts that differ in what is escaped are different ones', () => {
  const escapes = ['\\n', '\\t', '\\r', '\\b', '\\f']
  const texts = escapes.flatMap((a) => escapes.flatMap((b) => escapes.map((c) => `"${a}${b}${c}"`)))
  const ofThree = (count: number): boolean =>
    new NewTexts(new KeptTable()).admits(Buffer.from(`[${texts.slice(0, count).join()}]`))
  expect([ofThree(64), ofThree(65)]).toEqual([true, false])
})

it('a name is one, however far from its colon', () => {
  const named = (count: number): boolean => {
    const fields = freshOf(count, (name) => `"a longer name ${name}" \t\n : 1`)
    return new NewTexts(new KeptTable()).admits(Buffer.from(`{${fields.join()}}`))
  }
  expect([named(64), named(65)]).toEqual([true, false])
})

it('a long text ends where it does, also behind a backslash', () => {
  const bytes = Buffer.from(JSON.stringify([`${'x'.repeat(80)}\\`, 'b', `${'x'.repeat(80)}\\"`, 'c']))
  expect(textsLeft(bytes, 0, bytes.length, 10)).toBe(6)
  expect(admits([`${'x'.repeat(80)}\\`, ...freshOf(65)])).toBe(false) // or they would be taken for what stands between them
  expect(textsLeft(bytes, 0, bytes.length, 1)).toBe(-1) // where that is settled nobody reads on
})

it('the outline has the fields of all parts, and the longest name', () => {
  const texts = new NewTexts()
  const part = (...names: number[]): Buffer =>
    Buffer.from(JSON.stringify(Object.fromEntries(names.map((length) => ['n'.repeat(length), 1]))))
  expect(texts.admits(part(100, 80)) && texts.admits(part(70))).toBe(true)
  expect(texts.outline).toMatchObject({ fields: 3, nameBytes: 100 })
})

it('the parts of a body have one measure together', () => {
  const texts = new NewTexts()
  const part = (count: number): Buffer => Buffer.from(JSON.stringify(freshOf(count)))
  expect(texts.admits(part(40))).toBe(true)
  expect(texts.admits(part(40))).toBe(false)
  expect(texts.admits(part(1))).toBe(false)
  expect(texts.admits(Buffer.from('[1, true, "a text that V8 does not keep"]'))).toBe(true)
})

// Goal: whatever V8 would keep is counted. Method: a naive walk over the parsed value.
it('nothing that V8 keeps gets by', () => {
  const unit = fc.constantFrom('a', '"', '\\', '\n', 'é', '好', '😀', '\u0001', ' ', ':', '{')
  const text = fc.string({ unit, maxLength: 14 })
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      text,
      fc.double({ noNaN: true }),
      fc.array(tie('value')),
      fc.dictionary(text, tie('value')),
    ),
  }))
  fc.assert(
    fc.property(
      fc.array(value, { maxLength: 8 }),
      fc.integer({ min: 0, max: 80 }),
      fc.boolean(),
      (some, more, isSpaced) => {
        const body = [...some, ...freshOf(more)]
        const bytes = Buffer.from(JSON.stringify(body, undefined, isSpaced ? 1 : undefined))
        const { names, texts } = keptOf(JSON.parse(bytes.toString()))
        expect(textsLeft(bytes, 0, bytes.length, 10_000)).toBe(10_000 - names - texts)
        const all = new NewTexts()
        const isAdmitted = all.admits(bytes)
        if (isAdmitted) expect(all.outline).toMatchObject({ texts: names + texts, depth: depthOf(body) })
        if (more > 64) expect(isAdmitted).toBe(false)
      },
    ),
    { numRuns: 300 },
  )
})

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Math.max(0, ...Object.values(value).map(depthOf))
}

function keptOf(value: unknown): { names: number; texts: number } {
  if (typeof value === 'string') return { names: 0, texts: 1 }
  if (typeof value !== 'object' || value === null) return { names: 0, texts: 0 }
  const kept = { names: Array.isArray(value) ? 0 : Object.keys(value).length, texts: 0 }
  for (const item of Object.values(value)) {
    const inside = keptOf(item)
    kept.names += inside.names
    kept.texts += inside.texts
  }
  return kept
}
