// Goal: a long part is found where JavaScript finds it, in any text, and in a time that does not grow with the part.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { indexIn, lastIndexIn } from './texts.js'

/** Texts of two letters, in which much is nearly the part. */
const anyPart = fc
  .tuple(fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 1, maxLength: 12 }), fc.integer({ min: 1, max: 90 }))
  .map(([some, length]) => some.repeat(90).slice(0, length))
const anyCase = anyPart.chain((part) => {
  const piece = fc.oneof(
    fc.constant(part),
    fc.integer({ min: 0, max: part.length }).map((at) => part.slice(at)),
    fc.integer({ min: 0, max: part.length }).map((at) => part.slice(0, at)),
    fc.constantFrom('a', 'b', ''),
  )
  return fc.record({
    part: fc.constant(part),
    text: fc.array(piece, { maxLength: 8 }).map((it) => it.join('')),
    from: fc.nat(100),
  })
})

it('finds a part where JavaScript does, however long it is', () => {
  fc.assert(
    fc.property(anyCase, ({ part, text, from }) => {
      expect(indexIn(text, part, from)).toBe(text.indexOf(part, from))
      expect(lastIndexIn(text, part)).toBe(text.lastIndexOf(part))
    }),
    { numRuns: 3000 },
  )
})

it('a text that is nearly the part everywhere is searched once', () => {
  const text = 'a'.repeat(300_000)
  const part = `${'a'.repeat(75_000)}b${'a'.repeat(75_000)}`
  // Seconds each where every place is compared, and milliseconds where it is not.
  for (let round = 0; round < 3; round++) {
    expect(indexIn(text, part)).toBe(-1)
    expect(lastIndexIn(text, part)).toBe(-1)
  }
}, 10_000)
