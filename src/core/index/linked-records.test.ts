import fc from 'fast-check'
import { expect, it } from 'vitest'
import { LinkedRecords } from './linked-records.js'

// Goal: a record's two lists never disturb each other or another list, whatever is appended and removed in between.
it('lists keep the order of arrival through any removal', () => {
  const step = fc.record({ ring: fc.nat(1), list: fc.nat(2), id: fc.nat(20) })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
      const records = new LinkedRecords(1, 2)
      for (let id = 0; id <= 20; id++) {
        expect(records.allocate()).toBe(id)
        records.words[records.stride * id] = id
      }
      const heads = new Uint32Array(6)
      const model: number[][] = [[], [], [], [], [], []]
      for (const { ring, list, id } of steps) {
        const lists = [0, 1, 2].map((it) => 3 * ring + it)
        const at = lists.find((it) => model[it]!.includes(id))
        if (at !== undefined) {
          records.remove(ring, heads, at, id)
          model[at] = model[at]!.filter((it) => it !== id)
        } else {
          records.append(ring, heads, 3 * ring + list, id)
          model[3 * ring + list]!.push(id)
        }
        for (const [at, expected] of model.entries()) {
          const ids: number[] = []
          for (let it = heads[at]! - 1; it >= 0; it = records.after(Math.floor(at / 3), heads, at, it)) ids.push(it)
          expect(ids).toEqual(expected)
        }
      }
      for (let id = 0; id <= 20; id++) expect(records.words[records.stride * id]).toBe(id)
    }),
  )
})

it('a released record is used again', () => {
  const records = new LinkedRecords(1, 1)
  const first = records.allocate()
  records.allocate()
  records.release(first)
  expect(records.allocate()).toBe(first)
  expect(records.allocate()).toBe(2)
})
