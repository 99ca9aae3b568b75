/**
 * `npm run bench [-- name…] [--json FILE] [--compare] [--save] [--smoke]`
 * Runs the benchmarks whose file or name contains one of the words, each file in a process of its own.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { existsSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { globSync, readFileSync } from '../scripts/files.js'
import type { Bench, Figure } from './harness.js'
import { runBench } from './harness.js'

const baselinePath = 'bench/baseline.json'

const { values: flags, positionals: words } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: 'string' },
    compare: { type: 'boolean', default: false },
    save: { type: 'boolean', default: false },
    smoke: { type: 'boolean', default: false },
    one: { type: 'string' }, // internal: run one file in this process and print its figures as JSON
  },
})

interface Report {
  readonly benchmarks: readonly Figure[]
  readonly machine: Readonly<Record<string, string | number>>
}

if (flags.one) await runFile(flags.one)
else runAll()

async function runFile(path: string): Promise<void> {
  const { benches } = (await import(`../${path}`)) as { benches: readonly Bench[] }
  const figures: Figure[] = []
  for (const bench of benches.filter(wanted(path))) {
    console.error(`\n${bench.name}: ${bench.question}`)
    figures.push(...(await runBench(bench, flags.smoke)))
  }
  console.log(JSON.stringify(figures))
}

function runAll(): void {
  const figures: Figure[] = []
  for (const path of globSync('bench', /\.bench\.ts$/)) {
    const args = ['--expose-gc', '--import', 'tsx', 'bench/run.ts', '--one', path, ...(flags.smoke ? ['--smoke'] : [])]
    const child = spawnSync(process.execPath, [...args, ...words], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
      maxBuffer: 1 << 28,
    })
    if (child.status !== 0) throw new Error(`${path} failed`)
    figures.push(...(JSON.parse(child.stdout.trim().split('\n').at(-1) ?? '[]') as Figure[]))
  }
  const report: Report = { benchmarks: figures, machine: describeMachine() }
  printTable(report, flags.compare ? readBaseline() : undefined)
  if (flags.json) writeJson(flags.json, report)
  if (flags.save) writeJson(baselinePath, mergeInto(readBaseline(), report))
}

function wanted(path: string): (bench: Bench) => boolean {
  return (bench) => words.length === 0 || words.some((word) => bench.name.includes(word) || path.includes(word))
}

function describeMachine(): Report['machine'] {
  const model = cpus()[0]?.model ?? 'unknown'
  return { cpu: model, cores: cpus().length, memory_gib: Math.round(totalmem() / 2 ** 30), node: process.version }
}

function printTable(report: Report, baseline: Report | undefined): void {
  const before = new Map(baseline?.benchmarks.map((figure) => [figure.id, figure.value]))
  const rows = report.benchmarks.map((figure) => {
    const ratio = before.get(figure.id)
    return [
      figure.id,
      figure.value.toPrecision(4),
      figure.unit,
      `${(figure.spread * 100).toFixed(0)} %`,
      ...(baseline ? [ratio === undefined ? 'new' : `${(figure.value / ratio).toFixed(2)}x`] : []),
      figure.checksum,
    ]
  })
  const head = ['benchmark', 'value', 'unit', 'spread', ...(baseline ? ['of baseline'] : []), 'checksum']
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]!.length)))
  for (const row of [head, ...rows]) console.log(row.map((cell, column) => cell.padEnd(widths[column]!)).join('  '))
}

function readBaseline(): Report {
  if (!existsSync(baselinePath)) return { benchmarks: [], machine: {} }
  return JSON.parse(readFileSync(baselinePath)) as Report
}

/** A partial run replaces only what it measured. */
function mergeInto(baseline: Report, report: Report): Report {
  const merged = new Map(baseline.benchmarks.map((figure) => [figure.id, figure]))
  for (const figure of report.benchmarks) merged.set(figure.id, figure)
  const benchmarks = [...merged.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
  return { benchmarks, machine: report.machine }
}

function writeJson(path: string, report: Report): void {
  const folder = path.slice(0, Math.max(0, path.lastIndexOf('/')))
  if (folder) mkdirSync(folder, { recursive: true })
  writeFileSync(path, `${JSON.stringify(report, null, 2)}\n`)
}
