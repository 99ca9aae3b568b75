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
        records.set(id, 0, id)
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
      for (let id = 0; id <= 20; id++) expect(records.get(id, 0)).toBe(id)
    }),
  )
})

// Goal: a million records are never copied in one go (docs/decisions/0186), and lists do not care where their records lie.
it('grows by no more than 8,192 records at a time, and loses none', () => {
  const records = new LinkedRecords(1, 1)
  const heads = new Uint32Array(1)
  const count = 100_000
  let grownMax = 0
  for (let id = 0; id < count; id++) {
    const before = records.bytesUsed
    records.allocate()
    grownMax = Math.max(grownMax, records.bytesUsed - before)
    records.set(id, 0, id ^ 0x5555)
    records.append(0, heads, 0, id)
  }
  expect(grownMax).toBe(8192 * 3 * Uint32Array.BYTES_PER_ELEMENT)
  let seen = 0
  for (let id = heads[0]! - 1; id >= 0; id = records.after(0, heads, 0, id)) {
    if (id !== seen || records.get(id, 0) !== (id ^ 0x5555)) break
    seen++
  }
  expect(seen).toBe(count)
})

it('released records come back, the last one first, until none is left', () => {
  const records = new LinkedRecords(2, 1)
  for (let id = 0; id < 5; id++) records.allocate()
  for (const id of [3, 0, 4]) records.release(id)
  expect([records.allocate(), records.allocate(), records.allocate(), records.allocate()]).toEqual([4, 0, 3, 5])
})
