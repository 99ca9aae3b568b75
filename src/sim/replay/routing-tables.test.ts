import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { readReplayCells, readTrace } from './dynamo-cells.case.js'
import { plainKvRouter } from './dynamo-policy.case.js'
import { runExperiment } from './experiment.js'
import { replay } from './replay.js'
import { compareRecorded, routingTables } from './routing-tables.case.js'

const trace = readTrace().slice(0, 600)

// The whole trace is compared with Dynamo's own recordings by `npm run docs:replay`; this slice with a second reading of its rules.
it("routes a slice as upstream's cost does when it is written as plainly as possible", () => {
  const mean = (seeds: readonly number[], run: (seed: number) => number): number =>
    seeds.reduce((sum, seed) => sum + run(seed), 0) / seeds.length
  const ours = (seed: number): number =>
    runExperiment(trace, { workers: 4, policies: ['dynamo'], seed })[0]!.ttft_ms.mean
  const plain = (seed: number): number =>
    replay(trace, { workers: 4, policy: plainKvRouter(4, 64, seed), eventsLeave: 'scheduled' }).ttft_ms.mean
  expect(mean([1, 2, 3], ours) / mean([1, 2, 3], plain) - 1).toBeCloseTo(0, 1)
})

it('says of a cell which figures are outside their limits', () => {
  const cell = readReplayCells().find(({ name }) => name.endsWith('n8-kv_router-bs64-blocks16384-x1'))!
  const cells = compareRecorded(cell, trace.slice(0, 20), 1) // twenty requests meet no queue
  expect(cells).toHaveLength(9)
  expect(cells.at(-1)).toMatch(/^no: TTFT mean, /)
})

it('gives every recorded kv_router cell a row, with its settings and its event delay', () => {
  const rows = routingTables()[0]!.rows.map(({ key }) => key)
  expect(new Set(rows).size).toBe(rows.length)
  expect(rows).toHaveLength(readReplayCells().filter(({ routerMode }) => routerMode === 'kv_router').length)
  expect(rows).toContain('1.6.1, N4, 16384 x 64, x1, prefill_load_scale=30, queue_threshold=0, queue_policy=wspt')
  expect(rows).toContain('1.6.1, N8, 16384 x 64, x1, event delay 10 ms')
})

it('takes the mean of a cell that was recorded more than once', () => {
  const cell = readReplayCells().find(({ runs }) => runs > 1)!
  expect(cell).toMatchObject({ name: 'v1.6.1-conversation-n16-kv_router-bs64-blocks16384-x4', runs: 10 })
  expect(cell.summary['p99_itl_ms']).toBeCloseTo(28.794, 3)
  expect(cell.summary['completed_requests']).toBe(12_031)
})

it('has every recorded kv_router cell within its limits in docs/routing.md', () => {
  const page = readFileSync('docs/routing.md', 'utf8')
  const rows = /<!-- recorded -->([\s\S]*)<!-- \/recorded -->/.exec(page)![1]!.trim().split('\n').slice(2)
  expect(rows).toHaveLength(routingTables()[0]!.rows.length)
  for (const row of rows) expect(row).toMatch(/\| 5 \| yes \|$/)
})

it('writes every table of docs/routing.md but the one of settings, which has no figures', () => {
  const page = readFileSync('docs/routing.md', 'utf8')
  const rest = routingTables().reduce(
    (text, { name }) => text.replace(new RegExp(`<!-- ${name} -->[\\s\\S]*<!-- /${name} -->`), ''),
    page,
  )
  expect(rest.match(/^\|-{3}/gm)).toHaveLength(1)
  expect(rest).toContain('| Setting | When to touch it |')
})

it('leaves no row in docs/routing.md that it does not make', () => {
  const page = readFileSync('docs/routing.md', 'utf8')
  for (const { name, rows } of routingTables()) {
    const lines = new RegExp(`<!-- ${name} -->([\\s\\S]*)<!-- /${name} -->`).exec(page)![1]!.trim().split('\n').slice(2)
    const known = new Set(rows.map(({ key }) => key))
    for (const line of lines) expect(known).toContain(line.slice(2).split(' | ')[0])
  }
})
