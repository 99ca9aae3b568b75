import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { KeptTable } from './kept-table.js'

const hashOf = (table: KeptTable, text: string): number =>
  Array.from(text).reduce((hash, unit) => KeptTable.mix(hash, unit.charCodeAt(0), 0), table.seed)

it('a text is new, known, and kept until a collection', () => {
  const table = new KeptTable()
  const hash = hashOf(table, 'a text')
  expect([table.look(hash), table.look(hash)]).toEqual(['new', 'known'])
  table.keep(hash)
  expect(table.look(hash)).toBe('kept')
  table.collected()
  expect(table.look(hash)).toBe('known')
})

it('ages are told apart for longer than anybody needs', () => {
  const table = new KeptTable()
  const hash = hashOf(table, 'a text')
  table.keep(hash)
  for (let age = 1; age < 63; age++) {
    table.collected()
    expect(table.look(hash)).toBe('known')
  }
})

it('a text that V8 need not have is known in every age, and not kept', () => {
  const table = new KeptTable()
  const hash = hashOf(table, 'a text')
  table.look(hash)
  for (let age = 1; age < 130; age++) {
    table.collected()
    expect(table.look(hash)).toBe('known')
  }
})

it('the share of all requests is 65,536', () => {
  const table = new KeptTable()
  expect([table.hasRoom(65_536), table.hasRoom(65_537)]).toEqual([true, false])
})

it('each of many texts counts once, whatever its hash', () => {
  const table = new KeptTable(64)
  for (let text = 0; text < 64; text++)
    for (let again = 0; again < 3; again++) table.keep(hashOf(table, `text ${text}`))
  expect([table.hasRoom(0), table.hasRoom(1)]).toEqual([true, false])
})

it('a text counts once between two collections, and one that has no hash each time', () => {
  const table = new KeptTable(3)
  const hash = hashOf(table, 'a text')
  for (let again = 0; again < 5; again++) table.keep(hash)
  expect([table.hasRoom(2), table.hasRoom(3)]).toEqual([true, false])
  table.keep(undefined)
  table.keep(undefined)
  expect([table.hasRoom(0), table.hasRoom(1)]).toEqual([true, false])
  table.collected()
  expect([table.hasRoom(3), table.hasRoom(4)]).toEqual([true, false])
})

// Goal: V8 gets no more than the share, whatever comes. Method: a set beside it has what was let in since the last collection.
it('no more is kept than the share', () => {
  const step = fc.oneof(
    { weight: 30, arbitrary: fc.integer({ min: 0, max: 400 }) },
    { arbitrary: fc.constant('collected' as const), weight: 1 },
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 600 }), fc.integer({ min: 1, max: 50 }), (steps, share) => {
      const table = new KeptTable(share)
      let has = new Set<number>()
      for (const text of steps) {
        if (text === 'collected') {
          table.collected()
          has = new Set()
          continue
        }
        const hash = hashOf(table, String(text))
        const newness = table.look(hash)
        if (newness === 'kept') expect(has.has(text)).toBe(true)
        else if (table.hasRoom(1)) {
          table.keep(hash)
          has.add(text)
        }
        expect(has.size).toBeLessThanOrEqual(share)
      }
    }),
    { numRuns: 200 },
  )
})

it('a full collection is noticed', async () => {
  const table = KeptTable.ofProcess
  const hash = hashOf(table, 'what a collection ends')
  table.look(hash)
  table.keep(hash)
  expect(table.look(hash)).toBe('kept')
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  for (let turn = 0; turn < 100 && table.look(hash) === 'kept'; turn++)
    await new Promise((resolve) => setTimeout(resolve, 10))
  expect(table.look(hash)).toBe('known')
})
