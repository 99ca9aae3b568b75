import { expect, it } from 'vitest'
import { causeOf, findings } from './routing-grid-causes.case.js'
import { gridPage } from './routing-grid-page.case.js'
import { gridCells, gridKey, missedIn } from './routing-grid.case.js'
import type { GridFigures } from './routing-grid.case.js'

const key = 'agents N16 x8 16k 200 ms'
const cell = gridCells().find((it) => gridKey(it) === key)!
const { at } = findings[key]!
const missed = 'p99 > default + 3 %'

it('is told while the figures are those for which it was found', () => {
  expect(causeOf(cell, missed, at)).toMatch(/^copies of crowded prefixes/)
  expect(causeOf(cell, missed, { ttft: at.ttft * 1.029, p99: at.p99 * 0.971, e2e: at.e2e })).toMatch(/^copies/)
})

it.each(['ttft', 'p99', 'e2e'] as const)('is old once %s has moved by more than 3 %%, to either side', (name) => {
  for (const factor of [0.969, 1.031])
    expect(causeOf(cell, missed, { ...at, [name]: at[name] * factor })).toBe('not found out (figures moved)')
})

it('is not found out where nobody looked', () => {
  const other = gridCells().find((it) => !(gridKey(it) in findings))!
  expect(causeOf(other, missed, at)).toBe('not found out')
  expect(causeOf(cell, 'E2E > default + 2 %', at)).toBe('not found out') // of another miss of the same cell
})

it('stands on the page in the row of its miss', () => {
  const warm: GridFigures = { ...at, p90: 100, itl: 7, reuse: 0.9 }
  const dynamo: GridFigures = { ...warm, p99: at.p99 / 1.1 }
  const rowOf = (scale: number): string => {
    const result = { warm: { ...warm, p99: at.p99 * scale }, dynamo, tuned: warm }
    const rows = gridPage([cell], new Map([[key, result]]), { requests: 2000, seed: 2 }).split('\n')
    return rows.find((row) => row.includes(missed))!
  }
  expect(rowOf(1)).toBe(`| ${key} | ${missed} | +10.0 % | copies of crowded prefixes: holds without them |`)
  expect(rowOf(1.05)).toBe(`| ${key} | ${missed} | +15.5 % | not found out (figures moved) |`)
})

it('is of cells and misses that there are', () => {
  const keys = new Set(gridCells().map(gridKey))
  const none: GridFigures = { ttft: 1, p90: 1, p99: 1, itl: 1, e2e: 1, reuse: 0 }
  const all = { ...none, ttft: 2, p99: 2, e2e: 2 }
  const names = new Set(missedIn({ warm: all, dynamo: none, tuned: none }))
  for (const [of, { mends }] of Object.entries(findings)) {
    expect(keys).toContain(of)
    for (const [name, found] of Object.entries(mends)) {
      expect(names).toContain(name)
      expect(found.length).toBeGreaterThan(0)
    }
  }
})
