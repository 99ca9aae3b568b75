import { expect, it } from 'vitest'
import { gridCells, gridKey, missedIn, runGridCell } from './routing-grid.case.js'
import type { GridFigures } from './routing-grid.case.js'
import { gridPage } from './routing-grid-page.case.js'

/** The short grid: 400 requests a cell. Which cells of the whole grid do not hold, and why, is in docs/routing-grid.md. */
const trace = { requests: 400, seed: 1 }
const short = [
  'chat N16 x4 16k 200 ms',
  'chat N16 x1 16k 200 ms',
  'rag N16 x4 16k 200 ms',
  'rag N4 x4 16k 200 ms',
  'tenants N4 x4 16k 200 ms',
  'tenants N16 x1 16k 200 ms',
  'fanout N16 x4 16k 200 ms',
  'fanout N4 x4 16k 200 ms',
]

it.each(short)('%s: warm is no slower than dynamo, tuned or not', (key) => {
  const cell = gridCells().find((it) => gridKey(it) === key)!
  expect(missedIn(runGridCell(cell, trace))).toEqual([])
})

it('agents: first tokens and answers come sooner than with dynamo', () => {
  const { warm, dynamo, tuned } = runGridCell(
    gridCells().find((it) => gridKey(it) === 'agents N16 x4 16k 200 ms')!,
    trace,
  )
  expect(warm.ttft).toBeLessThan(dynamo.ttft)
  expect(warm.ttft).toBeLessThan(tuned.ttft)
  expect(warm.e2e).toBeLessThan(dynamo.e2e)
})

it('has every corner and every level, once', () => {
  const cells = gridCells()
  expect(new Set(cells.map(gridKey)).size).toBe(cells.length)
  expect(cells.length).toBe(140)
  for (const workers of [4, 64])
    for (const arrivalSpeedup of [1, 8])
      for (const blocks of [4096, 65_536])
        for (const eventDelayMs of [0, 1000])
          expect(cells).toContainEqual({ shape: 'rag', workers, arrivalSpeedup, blocks, eventDelayMs })
  for (const workers of [4, 8, 16, 32, 64]) expect(cells.some((cell) => cell.workers === workers)).toBe(true)
})

it('names what a cell misses, by how much', () => {
  const same: GridFigures = { ttft: 100, p90: 150, p99: 200, itl: 7, e2e: 1000, reuse: 0.5 }
  expect(missedIn({ warm: same, dynamo: same, tuned: same })).toEqual([])
  const slower = { ...same, ttft: 103, p99: 210, e2e: 1030 }
  const missed = ['TTFT > default', 'TTFT > tuned + 2 %', 'p99 > default + 3 %', 'E2E > default + 2 %']
  expect(missedIn({ warm: slower, dynamo: same, tuned: same })).toEqual(missed)
  const cells = gridCells().slice(0, 2)
  const page = gridPage(cells, new Map([[gridKey(cells[0]!), { warm: slower, dynamo: same, tuned: same }]]), trace)
  expect(page).toContain('0 of 1 cells hold')
  expect(page).toContain('1 cells were not run')
  expect(page).toContain('| chat N4 x1 4k 0 ms | E2E > default + 2 % | +3.0 % |')
})
