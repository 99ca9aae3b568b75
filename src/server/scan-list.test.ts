import fc from 'fast-check'
import { expect, it } from 'vitest'
import { stepBytes } from './scan-fields.js'
import type { ItemSpans } from './scan-list.js'
import type { Steps } from './steps.js'
import { holdsEmptyText, scanList } from './scan-list.js'

function endOf<T>(steps: Steps<T>): T {
  let step = steps.next()
  while (!step.done) step = steps.next()
  return step.value
}

function itemsOf(bytes: Buffer, start: number, end: number, itemsMax: number): unknown {
  return endOf<ItemSpans | undefined>(scanList(bytes, start, end, itemsMax))?.map(
    ([from, to]) => JSON.parse(bytes.toString('utf8', from, to)) as unknown,
  )
}

it('finds the items that JSON.parse finds, as many as are wanted', () => {
  const value = fc.oneof(fc.jsonValue({ maxDepth: 3 }), fc.constantFrom('"]', '\\', '[{', ',', '\\"'))
  fc.assert(
    fc.property(fc.array(value), fc.nat(4), fc.nat(12), fc.string(), (list, indent, itemsMax, around) => {
      const text = JSON.stringify(list, undefined, indent)
      const before = Buffer.from(around)
      const bytes = Buffer.concat([before, Buffer.from(text), before])
      const end = bytes.length - before.length
      expect(itemsOf(bytes, before.length, end, itemsMax)).toEqual((JSON.parse(text) as unknown[]).slice(0, itemsMax))
    }),
  )
})

it('finds an empty text among them, and no other', () => {
  const value = fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.constantFrom('""', '\\"', [''], { '': '' }, ''))
  const found = { true: 0, false: 0 }
  fc.assert(
    fc.property(fc.array(value), fc.nat(2), (list, indent) => {
      const bytes = Buffer.from(JSON.stringify(list, undefined, indent))
      const isThere = endOf(holdsEmptyText(bytes, 0, bytes.length))
      found[`${isThere}`]++
      expect(isThere).toBe(list.includes(''))
    }),
  )
  expect(Math.min(found.true, found.false)).toBeGreaterThan(10)
  expect(endOf(holdsEmptyText(Buffer.from('""'), 0, 2))).toBe(false)
})

it.each(['{}', '"[1]"', '1'])('%s is no list', (text) => {
  expect(itemsOf(Buffer.from(text), 0, text.length, 9)).toBeUndefined()
})

it('looks at one step of a long item at a time', () => {
  const bytes = Buffer.from(`["${'\\"'.repeat(2 * stepBytes)}"]`)
  expect([...scanList(bytes, 0, bytes.length, 1)]).toHaveLength(4)
})
