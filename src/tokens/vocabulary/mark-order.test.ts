// Goal: a run of marks, however long, gets the order that `normalize` gives it, in the time that its length takes.
// Method: marks of every class, in runs that `normalize` still orders soon; and one that it would take minutes for.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { realTokenizer } from '../real-tokenizers.case.js'
import { hasLongMarkRun, orderMarks } from './mark-order.js'
import { toNfc } from './unicode-of-engines.js'

const points = Array.from({ length: 0x11_0000 }, (_, point) => point).filter(
  (point) => point < 0xd800 || point > 0xdfff,
)
const marks = points.map((point) => String.fromCodePoint(point)).filter((char) => /\p{M}/u.test(char))

it('knows the class of every mark', () => {
  const long = '\u0301'.repeat(31)
  const unordered = marks.filter((mark) => {
    const run = `a${mark}${long}${mark}\u0334${mark}\u0345`
    return orderMarks(run).normalize('NFC') !== run.normalize('NFC') || !hasLongMarkRun(mark.repeat(31))
  })
  expect(unordered).toEqual([])
  expect(marks.length).toBeGreaterThan(2000)
})

it('orders any marks, and what stands between them, as `normalize` does', () => {
  const some = fc.oneof(
    { weight: 12, arbitrary: fc.constantFrom(...marks) },
    { weight: 1, arbitrary: fc.constantFrom('a', 'é', '👍', '\ud83d', '\udc4d', '\u{1d15e}', '한', '\u034f') },
  )
  fc.assert(
    fc.property(fc.array(some, { minLength: 100, maxLength: 400, size: 'max' }), (chars) => {
      const text = chars.join('')
      const ordered = orderMarks(text)
      expect(ordered.normalize('NFC')).toBe(text.normalize('NFC'))
      expect(hasLongMarkRun(text) || ordered === text).toBe(true)
    }),
    { numRuns: 200 },
  )
})

it('leaves what no run of marks is too long in as it is', () => {
  for (const text of ['', 'e\u0301', `x${'\u0316\u0301'.repeat(15)}`, 'é👍'.repeat(99), '👍'.repeat(99)]) {
    expect(hasLongMarkRun(text)).toBe(false)
    expect(orderMarks(text)).toBe(text)
  }
})

// `normalize` alone would take minutes, and nothing looks at a clock in it.
it('a million marks in the worst order are normalised', () => {
  const text = `a${'\u0345\u0301\u0316'.repeat(350_000)}`
  const wanted = `\u00e1${'\u0316'.repeat(350_000)}${'\u0301'.repeat(349_999)}${'\u0345'.repeat(350_000)}`
  expect(toNfc(text) === wanted).toBe(true)
})

it('a text with very many marks has the ids of the Rust binding, and is none that could be cut', async () => {
  const tokenizer = realTokenizer('qwen3')
  const encoder = tokenizer.newEncoder()
  const text = `x a${'\u0345\u0301\u0316'.repeat(1500)} e${'\u0301\u0327'.repeat(40)}`
  expect([...encoder.encode(text)]).toEqual(await tokenizer.oracle(text))
  const normal = `x a${'\u0316'.repeat(31)}`
  expect(encoder.isStable(normal, encoder.load(normal))).toBe(false)
  expect(encoder.isStable(normal.slice(0, -1), encoder.load(normal.slice(0, -1)))).toBe(true)
})
