/** docs/routing-grid.md as text: what was run, what every cell came to, and which do not hold, with the cause. */
import { gridKey, missedIn, tunedSettings } from './routing-grid.case.js'
import type { GridCell, GridResult } from './routing-grid.case.js'
import { causeOf } from './routing-grid-causes.case.js'

export function gridPage(
  cells: readonly GridCell[],
  results: ReadonlyMap<string, GridResult>,
  trace: { readonly requests: number; readonly seed: number },
): string {
  const run = cells.flatMap((cell) => {
    const result = results.get(gridKey(cell))
    return result ? [{ cell, result, missed: missedIn(result) }] : []
  })
  const held = run.filter(({ missed }) => missed.length === 0)
  const missing = run.length < cells.length ? [`${cells.length - run.length} cells were not run.`, ''] : []
  return [
    '# Routing grid',
    '',
    '`policy: warm` beside `dynamo` over five generated shapes, fleets of 4 to 64 workers, arrivals x1 to x8, pools of 4 k to 64 k blocks of 64',
    'tokens, and events that come 0 to 1,000 ms late. Written by `npm run routing:grid`; all of it is simulated.',
    '',
    'Not the product of all levels but a central composite design for each shape: the sixteen corners, the centre (16 workers, x4, 16 k, 200 ms), and from',
    'the centre every other level of one factor at a time. At x1 four requests arrive in a second, whatever the fleet. Each cell replays',
    `${trace.requests} requests of seed ${trace.seed}, one run of each policy. Terms and constants were chosen with 1,000 and 2,000 requests of seed 1 and on the conversation trace;`,
    'this table was made once they were fixed. Tuned is `dynamo` with `' + tunedSettings.join(' ') + '`.',
    '',
    'A cell holds when the mean TTFT is at most that of `dynamo` (a thousandth more is a tie) and that of tuned plus 2 %, p99 at most that of `dynamo` plus 3 %, and E2E at most that of',
    `\`dynamo\` plus 2 %. ${held.length} of ${run.length} cells hold. Over all cells (geometric mean): TTFT ${mean(run, 'ttft', 'dynamo')} against \`dynamo\` and ${mean(run, 'ttft', 'tuned')} against tuned,`,
    `p90 ${mean(run, 'p90', 'dynamo')} and ${mean(run, 'p90', 'tuned')}, p99 ${mean(run, 'p99', 'dynamo')} and ${mean(run, 'p99', 'tuned')}, ITL ${mean(run, 'itl', 'dynamo')} and ${mean(run, 'itl', 'tuned')}, E2E ${mean(run, 'e2e', 'dynamo')} and ${mean(run, 'e2e', 'tuned')}.`,
    '',
    ...missing,
    '## Exceptions',
    '',
    'The cause is what mends the miss when it alone is changed on that cell; where several do, any of them. It stands for as long as the cell’s first tokens,',
    'p99 and answers are within 3 % of those for which it was found.',
    '',
    '| Cell | Missed | By | Cause |',
    '|---|---|---|---|',
    ...run.flatMap(({ cell, result, missed }) => missed.map((name) => exceptionRow(cell, result, name))),
    '',
    '## Cells',
    '',
    'Milliseconds of `warm`; in brackets, the difference to `dynamo` and to tuned.',
    '',
    '| Cell | TTFT mean | p90 | p99 | ITL mean | E2E mean | reuse (`dynamo`, tuned) | Holds |',
    '|---|--:|--:|--:|--:|--:|--:|---|',
    ...run.map(({ cell, result, missed }) => cellRow(cell, result, missed.length === 0)),
    '',
  ].join('\n')
}

type Figure = 'ttft' | 'p90' | 'p99' | 'itl' | 'e2e'

function cellRow(cell: GridCell, { warm, dynamo, tuned }: GridResult, isHeld: boolean): string {
  const figure = (name: Figure): string =>
    `${plain(warm[name])} (${percent(warm[name] / dynamo[name])}, ${percent(warm[name] / tuned[name])})`
  const reuse = `${warm.reuse.toFixed(3)} (${dynamo.reuse.toFixed(3)}, ${tuned.reuse.toFixed(3)})`
  const figures = (['ttft', 'p90', 'p99', 'itl', 'e2e'] as const).map(figure)
  return `| ${[gridKey(cell), ...figures, reuse, isHeld ? 'yes' : 'no'].join(' | ')} |`
}

function exceptionRow(cell: GridCell, result: GridResult, missed: string): string {
  const { warm, dynamo, tuned } = result
  const by = missed.includes('tuned')
    ? warm.ttft / tuned.ttft
    : missed.startsWith('p99')
      ? warm.p99 / dynamo.p99
      : missed.startsWith('E2E')
        ? warm.e2e / dynamo.e2e
        : warm.ttft / dynamo.ttft
  return `| ${[gridKey(cell), missed, percent(by), causeOf(cell, missed, warm)].join(' | ')} |`
}

function mean(run: readonly { readonly result: GridResult }[], name: Figure, than: 'dynamo' | 'tuned'): string {
  const sum = run.reduce((total, { result }) => total + Math.log(result.warm[name] / result[than][name]), 0)
  return percent(Math.exp(sum / Math.max(1, run.length)))
}

function percent(ratio: number): string {
  const value = (ratio - 1) * 100
  return `${value > 0 ? '+' : ''}${value.toFixed(1)} %`
}

function plain(value: number): string {
  return value < 100 ? value.toFixed(1) : value.toFixed(0)
}
