/**
 * `npm run docs:replay`: replays the cells of docs/routing.md and writes their rows. All of them take about 40 minutes of a free core;
 * `-- --only TEXT` runs the rows whose first cell contains it, `--table NAME` one table, `--missing` what has no row yet,
 * `--seeds N` takes the mean of N seeds instead of the table's own number (5 for the recorded cells, else 3). Rows that are not run stay as
 * they are.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { readTrace } from '../src/sim/replay/dynamo-cells.case.js'
import { routingTables } from '../src/sim/replay/routing-tables.case.js'
import type { RoutingTable } from '../src/sim/replay/routing-tables.case.js'

const page = 'docs/routing.md'
const { values: flags } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    table: { type: 'string' },
    seeds: { type: 'string' },
    missing: { type: 'boolean', default: false },
  },
})
const trace = readTrace()
for (const table of routingTables()) {
  if (flags.table !== undefined && flags.table !== table.name) continue
  for (const row of table.rows) {
    if (!row.key.includes(flags.only) || (flags.missing && rowsOf(table).has(row.key))) continue
    const line = `| ${[row.key, ...row.run(trace, Number(flags.seeds ?? table.seeds))].join(' | ')} |`
    console.log(line)
    writeRow(table, row.key, line) // one by one: a run that is stopped keeps what it has
  }
}

function rowsOf({ name }: RoutingTable): Map<string, string> {
  const inside = new RegExp(`<!-- ${name} -->([\\s\\S]*?)<!-- /${name} -->`).exec(readFileSync(page, 'utf8'))
  if (!inside) throw new Error(`${page} has no place for the table ${name}`)
  const lines = inside[1]!.split('\n').filter((line) => line.startsWith('| '))
  return new Map(lines.slice(1).map((line) => [line.split(' | ')[0]!.slice(2), line]))
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
