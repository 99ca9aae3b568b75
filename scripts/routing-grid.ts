/**
 * `npm run routing:grid`: replays the cells of the grid with `warm`, `dynamo` and tuned `dynamo`, on two processes, and writes
 * docs/routing-grid.md. What is done is kept (`kept-results.ts`). `-- --only TEXT` runs cells whose name has it, `--requests N` and
 * `--seed N` choose the traces, `--processes N`, `--anew` forgets what is done.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { gridCells, gridKey, runGridCell } from '../src/sim/replay/routing-grid.case.js'
import type { GridCell, GridResult } from '../src/sim/replay/routing-grid.case.js'
import { gridPage } from '../src/sim/replay/routing-grid-page.case.js'
import { KeptResults } from './kept-results.js'
import { isTaskProcess, runTasks, serveTasks } from './task-processes.js'

const page = 'docs/routing-grid.md'

const { values: flags } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    requests: { type: 'string', default: '2000' },
    seed: { type: 'string', default: '2' },
    processes: { type: 'string', default: '2' },
    anew: { type: 'boolean', default: false },
  },
})
const trace = { requests: Number(flags.requests), seed: Number(flags.seed) }

if (isTaskProcess) serveTasks((cell: GridCell) => runGridCell(cell, trace))
else await runGrid()

async function runGrid(): Promise<void> {
  const kept = new KeptResults<GridResult>('.bench/routing-grid.jsonl', flags.anew)
  const keyOf = (cell: GridCell): string => `${gridKey(cell)}, ${trace.requests} requests of seed ${trace.seed}`
  const cells = gridCells()
  await runTasks<GridCell, GridResult>(import.meta.filename, {
    tasks: cells.filter((cell) => gridKey(cell).includes(flags.only) && !kept.get(keyOf(cell))),
    processes: Number(flags.processes),
    nameOf: gridKey,
    done: (cell, result) => kept.keep(keyOf(cell), result),
  })
  const results = new Map(cells.flatMap((cell) => pairOf(gridKey(cell), kept.get(keyOf(cell)))))
  writeFileSync(page, gridPage(cells, results, trace))
  console.log(`${page}: ${results.size} of ${cells.length} cells`)
}

function pairOf(key: string, result: GridResult | undefined): [string, GridResult][] {
  return result ? [[key, result]] : []
}
