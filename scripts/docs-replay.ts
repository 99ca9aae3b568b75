/**
 * `npm run docs:replay`: replays the cells of docs/routing.md on two processes and writes their rows. All of them take about 40 minutes of
 * one free core. What is done is kept (`kept-results.ts`). `-- --only TEXT` runs the rows whose first cell contains it, `--table NAME` one
 * table, `--seeds N` takes the mean of N seeds instead of the table's own number (5 for the recorded cells, else 3), `--processes N`,
 * `--anew` forgets what is done. Rows that are not run stay as they are.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { readTrace } from '../src/sim/replay/dynamo-cells.case.js'
import { routingTables } from '../src/sim/replay/routing-tables.case.js'
import type { RoutingTable } from '../src/sim/replay/routing-tables.case.js'
import type { TraceRequest } from '../src/sim/replay/trace.js'
import { KeptResults } from './kept-results.js'
import { isTaskProcess, runTasks, serveTasks } from './task-processes.js'

const page = 'docs/routing.md'

interface Row {
  readonly table: string
  readonly key: string
  readonly seeds: number
}

const { values: flags } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    table: { type: 'string' },
    seeds: { type: 'string' },
    processes: { type: 'string', default: '2' },
    anew: { type: 'boolean', default: false },
  },
})
const tables = new Map(routingTables().map((table) => [table.name, table]))

if (isTaskProcess) serveRows()
else await runRows()

function serveRows(): void {
  let trace: readonly TraceRequest[] | undefined
  serveTasks(({ table, key, seeds }: Row) => {
    const row = tables.get(table)!.rows.find((it) => it.key === key)!
    return row.run((trace ??= readTrace()), seeds)
  })
}

async function runRows(): Promise<void> {
  const kept = new KeptResults<string[]>('.bench/docs-replay.jsonl', flags.anew)
  const keyOf = ({ table, key, seeds }: Row): string => `${table}, ${key}, ${seeds} seeds`
  const wanted = [...tables.values()]
    .filter(({ name }) => flags.table === undefined || flags.table === name)
    .flatMap(({ name, rows, seeds }) =>
      rows.map(({ key }): Row => ({ table: name, key, seeds: Number(flags.seeds ?? seeds) })),
    )
    .filter(({ key }) => key.includes(flags.only))
    .sort((a, b) => Number(b.key.includes('warm')) - Number(a.key.includes('warm'))) // what a change of ours moves comes first
  const write = (row: Row, cells: readonly string[]): void =>
    writeRow(tables.get(row.table)!, row.key, `| ${[row.key, ...cells].join(' | ')} |`)
  for (const row of wanted) {
    const cells = kept.get(keyOf(row))
    if (cells) write(row, cells)
  }
  await runTasks<Row, string[]>(import.meta.filename, {
    tasks: wanted.filter((row) => !kept.get(keyOf(row))),
    processes: Number(flags.processes),
    nameOf: ({ table, key }) => `${table}, ${key}`,
    done(row, cells) {
      kept.keep(keyOf(row), cells)
      write(row, cells) // one by one: what is done can be read while the rest runs
    },
  })
  console.log(`${page}: ${wanted.length} rows`)
}

function writeRow(table: RoutingTable, key: string, line: string): void {
  const known = rowsOf(table).set(key, line)
  const rows = table.rows.flatMap((row) => known.get(row.key) ?? [])
  const head = [`| ${table.head.join(' | ')} |`, `|---|${'--:|'.repeat(table.head.length - 1)}`]
  const text = readFileSync(page, 'utf8')
  const place = new RegExp(`(<!-- ${table.name} -->)[\\s\\S]*?(<!-- /${table.name} -->)`)
  writeFileSync(
    page,
    text.replace(place, (_, open: string, close: string) => [open, '', ...head, ...rows, '', close].join('\n')),
  )
}

function rowsOf({ name }: RoutingTable): Map<string, string> {
  const inside = new RegExp(`<!-- ${name} -->([\\s\\S]*?)<!-- /${name} -->`).exec(readFileSync(page, 'utf8'))
  if (!inside) throw new Error(`${page} has no place for the table ${name}`)
  const lines = inside[1]!.split('\n').filter((line) => line.startsWith('| '))
  return new Map(lines.slice(1).map((line) => [line.split(' | ')[0]!.slice(2), line]))
}
