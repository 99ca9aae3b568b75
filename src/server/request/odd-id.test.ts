import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { longBytes } from '../scan-fields.js'
import type { IdRules } from './odd-id.js'
import { oddIdIn } from './odd-id.js'

const idMax = 999

function look(
  text: string,
  rules: Partial<IdRules> = {},
): { readonly odd: string | undefined; readonly steps: number } {
  const before = '{"prompt":'
  const bytes = new TextEncoder().encode(`${before}${text}}`)
  const looking = oddIdIn(
    bytes,
    { valueStart: before.length, valueEnd: bytes.length - 1 },
    { mayBeText: true, idMax, ...rules },
  )
  for (let steps = 1; ; steps++) {
    const step = looking.next()
    if (step.done) return { odd: step.value, steps }
  }
}

describe('passes', () => {
  it.each([
    ['a text', '"999999"'],
    ['ids', '[0, 999,7 ,\n1.0,1e2,-0]'],
    ['a batch of them', '[[1,2],[999]]'],
    ['texts', '["a","b, 5000 [6000]","\\"]"]'],
    ['texts that are numbers', '["5000","-1"]'],
    ['texts beside lists of ids', '["a",[1,2]]'],
    ['objects, whatever they hold', '[{"type":"text","text":"x","n":[5000]},{"n":-1}]'],
    ['an empty list', '[]'],
    ['an object', '{"a":[5000]}'],
    ['what is no list', '5000'],
  ])('%s', (_says, text) => {
    expect(look(text).odd).toBe(undefined)
  })
})

describe('finds', () => {
  it.each([
    ['an id above the highest', '[1,1000]', '1000'],
    ['one in the first list of a batch', '[[1,1000],[1]]', '1000'],
    ['one in the last', '[[1],[1,1000]]', '1000'],
    ['a negative one', '[1,-1]', '-1'],
    ['a fraction', '[1.5]', '1.5'],
    ['a power', '[1,1e3]', '1e3'],
    ['what is hidden by its length', `[1.${'0'.repeat(40)}e3]`, `1.${'0'.repeat(31)}`],
    ['a very long one', `[${'9'.repeat(400)}]`, '9'.repeat(33)],
    ['one that no number is', '[1,NaN]', 'NaN'],
    ['one that Python takes for a number', '[true]', 'true'],
    ['nothing', '[1,null]', 'null'],
    ['a text that engines read as an id, beside ids', '["7",1]', 'a text'],
    ['the same, behind them', '[1,"5000"]', 'a text'],
    ['and in a list of lists', '[["5000"]]', 'a text'],
    ['an object beside ids', '[1,{"a":1}]', 'an object'],
    ['a list of lists of lists', '[[[1]]]', 'a list'],
    ['a list of ids behind texts that may be numbers', '["1",[5000]]', '5000'],
    ['an empty list in a batch', '[[1],[ ]]', 'an empty list'],
    ['the same, alone', '[[]]', 'an empty list'],
    ['a text whose digits are escaped', '["\\u0037",1]', 'a text'],
  ])('%s', (_says, text, odd) => {
    expect(look(text).odd).toBe(odd)
  })

  it.each(['["5000"]', '["a"]', '[{}]'])('%s where texts have no place', (text) => {
    expect(look(text, { mayBeText: false }).odd).toBe(text === '[{}]' ? 'an object' : 'a text')
  })
})

// Goal: of what JSON.parse takes, whatever an engine could read as ids is seen. Method: a parsed value, judged the obvious way.
it('judges as whoever parses the whole list', () => {
  const item = fc.oneof(
    fc.integer({ min: -3, max: 1005 }),
    fc.constantFrom<unknown>(1.5, true, null, 'a', '7', '1e9', {}, { a: [5000] }, 'x]"\\'),
  )
  const list = fc.array(fc.oneof(item, fc.array(item, { maxLength: 3 })), { maxLength: 4 })
  fc.assert(
    fc.property(list, fc.boolean(), fc.boolean(), (value, mayBeText, isSpaced) => {
      const text = JSON.stringify(value, undefined, isSpaced ? 1 : 0)
      const isOdd = look(text, { mayBeText }).odd !== undefined
      if (isReadAsIds(value)) expect(isOdd).toBe(!areIds(value) || hasTexts(value, mayBeText) || hasEmpty(value))
      else if (value.every((it) => typeof it === 'string')) expect(isOdd).toBe(!mayBeText && value.length > 0)
    }),
    { numRuns: 3000 },
  )
})

/** As pydantic does where texts do not fit: `"7"` and `true` are numbers. */
function isReadAsIds(value: readonly unknown[]): boolean {
  const isNumber = (it: unknown): boolean =>
    typeof it === 'number' || typeof it === 'boolean' || (typeof it === 'string' && /^-?[0-9]+(e9)?$/.test(it))
  if (value.every((it) => typeof it === 'string')) return false
  return value.every(isNumber) || value.every((it) => Array.isArray(it) && it.every(isNumber))
}

function areIds(value: readonly unknown[]): boolean {
  return value.flat().every((it) => typeof it === 'number' && Number.isInteger(it) && it >= 0 && it <= idMax)
}

function hasEmpty(value: readonly unknown[]): boolean {
  return value.some((it) => Array.isArray(it) && it.length === 0)
}

function hasTexts(value: readonly unknown[], mayBeText: boolean): boolean {
  return (
    value.flat().some((it) => typeof it === 'string') && !(mayBeText && value.every((it) => typeof it === 'string'))
  )
}

it('looks at many ids in steps, and at no more of a text than it needs', () => {
  const many = look(`[${'7,'.repeat(longBytes)}1000]`)
  expect(many.odd).toBe('1000')
  expect(many.steps).toBeGreaterThan(4)
  expect(look(`["${'word '.repeat(longBytes)}"]`).steps).toBe(1)
  expect(look(`[${'1.0,'.repeat(5000)}1000]`)).toEqual({ odd: '1000', steps: 6 })
  expect(look(`["${'7'.repeat(4 * longBytes)}",1000]`)).toMatchObject({ odd: 'a text' })
})
