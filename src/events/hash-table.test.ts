import fc from 'fast-check'
import { expect, it } from 'vitest'
import { HashTable } from './hash-table.js'
import { finish } from './turns.case.js'

// Goal: the table answers as a Map does, through growth, collisions and deletions that shift entries back.
// Method: few keys, so that runs collide and wrap; the same steps drive both.
type Step = { readonly kind: 'set' | 'up' | 'down' | 'delete' | 'clear'; readonly key: number }

const anyStep: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom('set', 'up', 'up', 'up', 'down', 'delete', 'clear'),
  key: fc.integer({ min: 0, max: 120 }),
})

it('agrees with a Map after every step', () => {
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 400 }), fc.integer(), (steps, seed) => {
      const table = new HashTable(seed)
      const model = new Map<number, number>()
      for (const { kind, key } of steps) {
        const [low, high] = [key % 11, Math.floor(key / 11)]
        const before = model.get(key) ?? 0
        if (kind === 'set') {
          table.set(low, high, 7)
          model.set(key, 7)
        } else if (kind === 'up') {
          expect(table.countUp(low, high, key & 1)).toBe(before >> 1)
          model.set(key, (before + 2) | (key & 1))
        } else if (kind === 'down') {
          expect(table.countDown(low, high)).toBe((before >> 1) - 1)
          if (before < 4) model.delete(key)
          else model.set(key, before - 2)
        } else if (kind === 'delete') {
          expect(table.delete(low, high)).toBe(model.delete(key))
        } else if (key < 5) {
          table.clear()
          model.clear()
        }
        expect(table.size).toBe(model.size)
      }
      for (let key = 0; key <= 120; key++) {
        expect(table.get(key % 11, Math.floor(key / 11))).toBe(model.get(key) ?? 0)
      }
      const copy = new HashTable(seed + 1)
      finish(copy.load(finish(table.freeze().dump())))
      expect(copy.size).toBe(table.size)
      for (const [key, value] of model) expect(copy.get(key % 11, Math.floor(key / 11))).toBe(value)
    }),
    { numRuns: 60 },
  )
})

it('is read as it was when it was frozen, whatever happens to it meanwhile', () => {
  const anyChange = fc.tuple(
    fc.constantFrom('set', 'up', 'down', 'delete', 'clear'),
    fc.nat(9_000),
    fc.nat({ max: 30 }), // entries that go with it, so that pages of a large table change
  )
  fc.assert(
    fc.property(fc.array(anyChange, { maxLength: 60 }), fc.constantFrom(40, 2_000, 8_500), (changes, size) => {
      const table = new HashTable(5)
      for (let key = 0; key < size; key++) table.set(key, 7 * key, 2 + 2 * (key % 3))
      const frozen = table.freeze()
      const steps = frozen.dump()
      let step = steps.next()
      for (const [kind, key, more] of changes) {
        for (let at = key; at <= key + more; at++) {
          if (kind === 'set') table.set(at, 7 * at, 99)
          else if (kind === 'up') table.countUp(at, 7 * at, 1)
          else if (kind === 'down') table.countDown(at, 7 * at)
          else if (kind === 'delete') table.delete(at, 7 * at)
        }
        if (kind === 'clear' && key < 500) table.clear()
        if (!step.done) step = steps.next()
      }
      while (!step.done) step = steps.next()
      frozen.release()
      const entries = step.value
      const values = new Map(Array.from({ length: size }, (_, at) => [entries[3 * at], entries[3 * at + 2]]))
      expect(entries).toHaveLength(3 * size)
      for (let key = 0; key < size; key++) expect(values.get(key)).toBe(2 + 2 * (key % 3))
    }),
    { numRuns: 40 },
  )
})
