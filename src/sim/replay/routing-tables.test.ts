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

// Words follow figures: a table that was made anew may not leave a paragraph behind that says something else.
it('has tables in docs/routing.md that show what it says to expect', () => {
  const page = readFileSync('docs/routing.md', 'utf8')
  const told = (words: RegExp): number[] => words.exec(page)!.slice(1).map(Number)
  const near = (said: readonly number[], found: readonly number[]): void => {
    for (const [index, value] of [Math.min(...found), Math.max(...found)].entries())
      expect(Math.abs(said[index]! - value), `${said.join(' to ')} and ${found.join(', ')}`).toBeLessThan(2)
  }
  const fleets = lessThan(page, 'fleets', 'dynamo', 0).filter(({ cell }) => !cell.includes('routers'))
  const less = (rows: readonly { less: number }[]): number[] => rows.map((row) => row.less)
  near(told(/(\d+) to (\d+) % sooner on the conversation trace/), less(fleets))
  near(told(/(\d+) to (\d+) % on step times of a GPU/), less(lessThan(page, 'gpu', 'dynamo', 0)))
  near(told(/(\d+) to (\d+) % in front of prefill/), less(lessThan(page, 'pairs', 'dynamo', 0)))
  near(told(/(\d+) to (\d+) % on the generated shapes\. Against/), less(lessThan(page, 'shapes', 'dynamo', 0)))
  const tuned = ['gpu', 'shapes'].flatMap((table) => lessThan(page, table, 'dynamo scale 10', 0))
  near(told(/Against `prefill_load_scale=10` it is (\d+) to (\d+) %/), less(tuned))
  const answers = ['fleets', 'gpu', 'shapes'].flatMap((table) => lessThan(page, table, 'dynamo', 5))
  const [most, worst] = told(/Whole answers take up to (\d+) % less[^.]*? up to ([\d.]+) % more/)
  near([-worst!, most!], less(answers))
})

/** By how many percent `warm` is below another row of the same cell, in one column of a table of the page. */
function lessThan(page: string, table: string, other: string, column: number): { cell: string; less: number }[] {
  const lines = new RegExp(`<!-- ${table} -->([\\s\\S]*)<!-- /${table} -->`).exec(page)![1]!.trim().split('\n').slice(2)
  const rows = new Map(
    lines.map((line) => [line.split(' | ')[0]!.slice(2), line.split(' | ').slice(1).map(Number.parseFloat)]),
  )
  return [...rows].flatMap(([key, figures]) => {
    const [cell, policy] = key.split(': ')
    const beside = rows.get(`${cell}: ${other}`)
    return policy === 'warm' && beside ? [{ cell: cell!, less: 100 * (1 - figures[column]! / beside[column]!) }] : []
  })
}
