/** `npm run docs:sim`: replays every recorded cell with default settings and writes how near we come to docs/performance/sim.md. */
import { readFileSync, writeFileSync } from 'node:fs'
import { compareCell, readReplayCells, readTrace } from '../src/sim/replay/dynamo-cells.case.js'
import type { ComparedFigure } from '../src/sim/replay/dynamo-cells.case.js'

const page = 'docs/performance/sim.md'
const trace = readTrace()
const rows: string[] = []
let isWithin = true
const isDefault = ({ name }: { readonly name: string }): boolean => /-x\d+$/.test(name) // not tuned, no lag
for (const cell of readReplayCells().filter(isDefault)) {
  const figures = compareCell(cell, trace)
  for (const figure of figures) if (!(Math.abs(figure.difference) < figure.limit)) isWithin = false
  const title = `${cell.routerMode} ${cell.version}, N ${cell.workers}, ${cell.blocks} x ${cell.blockTokens}, x${cell.arrivalSpeedup}`
  rows.push(`| ${title} | ${figures.map(cellOf).join(' | ')} |`)
  console.log(rows.at(-1))
}
const names = compareCell(readReplayCells()[0]!, trace.slice(0, 50)).map(({ figure }) => figure)
const table = [`| Cell | ${names.join(' | ')} |`, `|---|${names.map(() => '---').join('|')}|`, ...rows].join('\n')
const text = readFileSync(page, 'utf8')
writeFileSync(page, text.replace(/(<!-- cells -->\n)[\s\S]*(\n<!-- \/cells -->)/, `$1\n${table}\n$2`))
if (!isWithin) {
  console.log('a figure is further from the recorded one than allowed')
  process.exitCode = 1
}

function cellOf({ ours, difference }: ComparedFigure): string {
  const value = ours < 1 ? ours.toFixed(4) : ours < 100 ? ours.toFixed(2) : ours.toFixed(0)
  return `${value} (${(difference * 100).toFixed(2)} %)`
}
