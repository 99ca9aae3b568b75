import fc from 'fast-check'
import { expect, it } from 'vitest'
import { HashTable } from './hash-table.js'

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
      copy.load(table.dump())
      expect(copy.size).toBe(table.size)
      for (const [key, value] of model) expect(copy.get(key % 11, Math.floor(key / 11))).toBe(value)
    }),
    { numRuns: 60 },
  )
})
