import fc from 'fast-check'
import { expect, it } from 'vitest'
import { IdTable, mixWords } from './id-table.js'

function idsOf(table: IdTable, hash: number): number[] {
  const ids: number[] = []
  for (let slot = table.first(hash); slot >= 0; slot = table.next(slot, hash)) ids.push(table.idAt(slot))
  return ids.sort((a, b) => a - b)
}

// Goal: no order of adding and deleting loses an id or keeps one. Few hashes, most of them neighbours: clusters collide.
it('table: holds exactly the ids that a list of pairs holds', () => {
  const hash = fc.constantFrom(0, 1, 2, 15, 16, 17, 31, 63, 64, 0xffff_ffff, 0x8000_0000)
  const anyStep = fc.record({ hash, delete: fc.integer({ min: 0, max: 3 }).map((it) => it === 0) })
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 160 }), (steps) => {
      const table = new IdTable()
      let model: { hash: number; id: number }[] = []
      for (const [id, step] of steps.entries()) {
        if (step.delete) {
          const slot = table.first(step.hash)
          expect(slot >= 0).toBe(model.some((it) => it.hash === step.hash))
          if (slot < 0) continue
          const gone = table.idAt(slot)
          table.deleteAt(slot)
          model = model.filter((it) => it.id !== gone)
        } else {
          table.add(step.hash, id)
          model.push({ hash: step.hash, id })
        }
        expect(table.size).toBe(model.length)
        for (const other of new Set(steps.map((it) => it.hash)))
          expect(idsOf(table, other)).toEqual(model.filter((it) => it.hash === other).map((it) => it.id))
      }
    }),
  )
})

it('table: while it grows, old entries are found, deleted and counted as new ones are', () => {
  const table = new IdTable()
  const model = new Map<number, number>() // id to hash
  const hashOf = (id: number) => mixWords(9, id >> 1, 0, 0, 0) // each hash twice
  for (let id = 0; id < 5000; id++) {
    table.add(hashOf(id), id)
    model.set(id, hashOf(id))
    const other = mixWords(3, id, 0, 0, 0) % (id + 1)
    if (id % 3 === 0) {
      table.deleteId(hashOf(other), other)
      model.delete(other)
    }
    expect(table.size).toBe(model.size)
    const twins = [other & ~1, other | 1].filter((it) => model.has(it))
    expect(idsOf(table, hashOf(other))).toEqual(twins)
  }
  for (let id = 0; id < 5000; id++) expect(idsOf(table, hashOf(id)).includes(id)).toBe(model.has(id))
})

it('mixing spreads words that differ in one place', () => {
  const seen = new Set<number>()
  for (let word = 0; word < 1000; word++)
    for (const place of [0, 1, 2, 3]) {
      const words: [number, number, number, number] = [0, 0, 0, 0]
      words[place] = word + 1
      seen.add(mixWords(1, ...words))
    }
  expect(seen.size).toBeGreaterThan(3990)
})
