import fc from 'fast-check'
import { expect, it } from 'vitest'
import { stepBytes } from './scan-fields.js'
import type { ItemSpans } from './scan-list.js'
import { scanList } from './scan-list.js'

function itemsOf(bytes: Buffer, start: number, end: number, itemsMax: number): unknown {
  const steps = scanList(bytes, start, end, itemsMax)
  let step: IteratorResult<undefined, ItemSpans | undefined> = steps.next()
  while (!step.done) step = steps.next()
  return step.value?.map(([from, to]) => JSON.parse(bytes.toString('utf8', from, to)) as unknown)
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

it.each(['{}', '"[1]"', '1'])('%s is no list', (text) => {
  expect(itemsOf(Buffer.from(text), 0, text.length, 9)).toBeUndefined()
})

it('looks at one step of a long item at a time', () => {
  const bytes = Buffer.from(`["${'\\"'.repeat(2 * stepBytes)}"]`)
  expect([...scanList(bytes, 0, bytes.length, 1)]).toHaveLength(4)
})
