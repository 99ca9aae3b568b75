/**
 * `npm run routing:grid`: replays the cells of the grid with `warm`, `dynamo` and tuned `dynamo`, on two processes, and writes
 * docs/routing-grid.md. What is done is kept in `.bench/routing-grid.jsonl`: a run that was stopped goes on where it was, unless the code of
 * the router or the simulator has changed since. `-- --only TEXT` runs cells whose name has it, `--requests N` and `--seed N` choose the
 * traces, `--processes N`, `--anew` forgets what is done.
 */
import { fork } from 'node:child_process'
import { createHash } from 'node:crypto'
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { gridCells, gridKey, runGridCell } from '../src/sim/replay/routing-grid.case.js'
import type { GridCell, GridResult } from '../src/sim/replay/routing-grid.case.js'
import { gridPage } from '../src/sim/replay/routing-grid-page.case.js'
import { globSync } from './files.js'

const page = 'docs/routing-grid.md'
const done = '.bench/routing-grid.jsonl'

interface Line {
  readonly key: string
  readonly requests: number
  readonly seed: number
  readonly code: string
  readonly result: GridResult
}

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

if (process.send) serveCells()
else await runGrid()

/** A child: answers each cell with its result. */
function serveCells(): void {
  process.on('message', (cell: GridCell) => process.send!({ cell, result: runGridCell(cell, trace) }))
  process.on('disconnect', () => process.exit())
}

async function runGrid(): Promise<void> {
  const code = codeHash()
  if (flags.anew) rmSync(done, { force: true })
  const results = readDone(code)
  const cells = gridCells()
  const left = cells.filter((cell) => gridKey(cell).includes(flags.only) && !results.has(gridKey(cell)))
  const known = cells.length - left.length
  const startMs = performance.now()
  let finished = 0
  const keep = (cell: GridCell, result: GridResult): void => {
    results.set(gridKey(cell), result)
    mkdirSync('.bench', { recursive: true })
    appendFileSync(done, `${JSON.stringify({ key: gridKey(cell), ...trace, code, result } satisfies Line)}\n`)
    finished++
    const leftSecs = ((performance.now() - startMs) / finished / 1000) * (left.length - finished)
    const text = `${known + finished}/${cells.length} cells, ${gridKey(cell)}, ${Math.ceil(leftSecs)} s left`
    process.stderr.write(process.stderr.isTTY ? `\r${text}\x1b[K` : `${text}\n`)
  }
  const queue = [...left]
  await Promise.all(Array.from({ length: Math.min(Number(flags.processes), left.length) }, () => work(queue, keep)))
  if (process.stderr.isTTY) process.stderr.write('\n')
  writeFileSync(page, gridPage(cells, results, trace))
  console.log(`${page}: ${results.size} of ${cells.length} cells`)
}

/** One child that takes cells until none are left. */
function work(queue: GridCell[], keep: (cell: GridCell, result: GridResult) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = fork(import.meta.filename, process.argv.slice(2))
    const next = (): void => {
      const cell = queue.shift()
      if (cell) child.send(cell)
      else child.disconnect()
    }
    child.on('message', (answer: { cell: GridCell; result: GridResult }) => {
      keep(answer.cell, answer.result)
      next()
    })
    child.on('exit', (status) =>
      status === 0 ? resolve() : reject(new Error(`a process ended with status ${status}`)),
    )
    next()
  })
}

function readDone(code: string): Map<string, GridResult> {
  if (!existsSync(done)) return new Map()
  const lines = readFileSync(done, 'utf8')
    .split('\n')
    .filter((line) => line.endsWith('}')) // the last one may have been cut off
    .map((line) => JSON.parse(line) as Line)
  const usable = lines.filter(
    (line) => line.code === code && line.requests === trace.requests && line.seed === trace.seed,
  )
  return new Map(usable.map(({ key, result }) => [key, result]))
}

/** Of everything that a figure depends on. */
function codeHash(): string {
  const hash = createHash('sha256')
  const files = ['src/core', 'src/sim/engine', 'src/sim/replay'].flatMap((folder) => globSync(folder, /\.ts$/))
  for (const file of files)
    if (!/\.test\.ts$|-(page|causes)\.case\.ts$/.test(file)) hash.update(file).update(readFileSync(file))
  return hash.digest('hex').slice(0, 16)
}
