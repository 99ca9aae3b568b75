// The recorded exposition of a real system is the judge of every name, type, sentence, label and bound that we claim to share.
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import type { MetricRow } from './catalogue.js'
import { catalogue, leftOut } from './catalogue.js'
import { createMetrics } from './metrics.js'

const recorded = readExposition(readFileSync('test/fixtures/dynamo/v1.2.1/metrics.txt', 'utf8'))
const newer = readExposition(readFileSync('test/fixtures/dynamo/v1.6.1/metrics.txt', 'utf8'))
const rows: readonly MetricRow[] = Object.values(catalogue)

it.each([
  ['1.2.1', recorded],
  ['1.6.1', newer],
])('has every family of the recorded %s system, or says why not', (_, families) => {
  const known = new Set(rows.map((row) => row.name))
  const missing = [...families.keys()].filter(
    (name) => !known.has(name) && !Object.keys(leftOut).some((prefix) => name.startsWith(prefix)),
  )
  expect(missing).toEqual([])
})

it('gives a reason only for families that were recorded and are not shown', () => {
  const names = [...recorded.keys(), ...newer.keys()].filter((name) => !rows.some((row) => row.name === name))
  for (const prefix of Object.keys(leftOut))
    expect(
      names.some((name) => name.startsWith(prefix)),
      prefix,
    ).toBe(true)
})

it.each(rows.filter((row) => row.since === '1.6.1' && newer.has(row.name)).map((row) => [row.name, row] as const))(
  '%s is as recorded with 1.6.1',
  (name, row) => {
    const family = newer.get(name)!
    expect({ type: row.type, help: row.help }).toEqual({ type: family.type, help: family.help })
    expect([...row.labels].sort()).toEqual([...family.labels].sort())
    expect(row.buckets ?? []).toEqual(family.bounds.map(Number))
  },
)

it.each(rows.filter((row) => recorded.has(row.name)).map((row) => [row.name, row] as const))(
  '%s is as recorded',
  (name, row) => {
    const family = recorded.get(name)!
    expect({ type: row.type, help: row.help }).toEqual({ type: family.type, help: family.help })
    expect([...row.labels].sort()).toEqual([...family.labels].sort())
    expect(row.buckets ?? []).toEqual(family.bounds.map(Number))
  },
)

it('claims no version for a row that the recording has, and one for every other shared name', () => {
  for (const row of rows.filter((it) => it.name.startsWith('dynamo_'))) {
    expect(row.since === undefined, row.name).toBe(recorded.has(row.name))
  }
})

it('scrapes families without labels as zero from the start', () => {
  expect(createMetrics().registry.text()).toContain('dynamo_frontend_disconnected_clients 0\n')
})

interface Board {
  readonly title: string
  readonly uid: string
  readonly schemaVersion: number
  readonly time: { readonly from: string; readonly to: string }
  readonly templating: { readonly list: readonly Variable[] }
  readonly panels: readonly Panel[]
}

interface Variable {
  readonly name: string
  readonly type: string
  readonly query: string
  readonly refresh?: number
  readonly includeAll?: boolean
  readonly allValue?: string
}

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly datasource: unknown
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly fieldConfig: { readonly defaults: { readonly unit?: string } }
  readonly targets: readonly { readonly refId: string; readonly expr: string; readonly legendFormat?: string }[]
}

const board = JSON.parse(readFileSync('docs/grafana/warmroute.json', 'utf8')) as Board

/** Every expression of the board, with what its legend names. */
function boardTargets(): readonly { readonly title: string; readonly expr: string; readonly legend: string }[] {
  return board.panels.flatMap(({ title, targets }) =>
    targets.map(({ expr, legendFormat = '' }) => ({ title, expr, legend: legendFormat })),
  )
}

// What a Prometheus would say of a wrong name is nothing: the panel stays empty, and nobody notices.
it.each(boardTargets())('the board asks for what there is: $title, $expr', ({ expr, legend }) => {
  const asked = [...expr.matchAll(/\b((?:dynamo|warmroute)_\w+)(?:\{([^}]*)\})?(\[\w+\])?/g)]
  expect(asked).not.toEqual([])
  const grouped = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, names]) => names!.split(/,\s*/))
  for (const [, name = '', selector = '', range] of asked) {
    const row = rows.find((it) => it.name === name || (it.type === 'histogram' && `${it.name}_bucket` === name))
    expect(row, name).toBeDefined()
    const isBucket = name.endsWith('_bucket')
    expect(isBucket, name).toBe(row!.type === 'histogram') // of the rest of a histogram nothing is exported under its own name
    expect(expr.startsWith('histogram_quantile('), name).toBe(isBucket)
    if (isBucket) expect(grouped).toContain('le')
    const labels = [...row!.labels, ...(isBucket ? ['le'] : [])]
    const chosen = [...selector.matchAll(/(\w+)(?:=|=~|!=|!~)"[^"]*"/g)].map(([, label]) => label!)
    expect(labels).toEqual(expect.arrayContaining([...chosen, ...grouped]))
    // A rate is of something that only grows; what goes up and down is read as it is.
    expect(expr.includes(`rate(${name}`), name).toBe(row!.type !== 'gauge')
    expect(range === undefined, name).toBe(row!.type === 'gauge')
    const shown = expr.includes('sum') ? grouped : labels
    const named = [...legend.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => label!)
    expect(shown).toEqual(expect.arrayContaining(named))
  }
  expect(expr.split('(')).toHaveLength(expr.split(')').length)
  // A share of little is still a share: with a bound below it, predictions of a quiet gateway would look wrong.
  expect(expr).not.toContain('clamp')
})

it.each(board.panels)('the panel "$title" says what it shows, of which source, in which unit and where', (panel) => {
  const { id, type, title, datasource, fieldConfig, gridPos, targets } = panel
  expect(type).toBe('timeseries')
  expect(title.trim()).not.toBe('')
  expect(datasource).toEqual({ type: 'prometheus', uid: '${source}' })
  expect(fieldConfig.defaults.unit).toBe(unitOf(targets.map(({ expr }) => expr)))
  expect(new Set(targets.map(({ refId }) => refId)).size).toBe(targets.length)
  expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24)
  for (const other of board.panels.filter((it) => it !== panel)) {
    expect(other.id).not.toBe(id)
    expect(overlap(gridPos, other.gridPos), other.title).toBe(false)
  }
})

it('the board asks for its source and for models, anew each time, and shows all where none is chosen', () => {
  const { list } = board.templating
  const used = new Set(
    JSON.stringify(board.panels)
      .match(/\$\{?\w+/g)
      ?.map((it) => it.replace(/\W/g, '')),
  )
  expect([...used].sort()).toEqual(list.map(({ name }) => name).sort())
  expect(list.find(({ type }) => type === 'datasource')).toMatchObject({ name: 'source', query: 'prometheus' })
  for (const { query, refresh, includeAll, allValue } of list.filter(({ type }) => type === 'query')) {
    const [, name, label] = /^label_values\((\w+), (\w+)\)$/.exec(query)!
    expect(rows.find((row) => row.name === name)?.labels).toContain(label)
    expect({ refresh, includeAll, allValue }).toEqual({ refresh: 2, includeAll: true, allValue: '.*' })
  }
  expect([board.title, board.uid, board.time]).toEqual(['Warmroute', 'warmroute', { from: 'now-1h', to: 'now' }])
  expect(board.schemaVersion).toBeGreaterThanOrEqual(36) // since then a panel names its source as an object
})

/** Seconds are seconds and shares are shares; a rate of requests is one, and everything else a plain number. */
function unitOf(expressions: readonly string[]): string {
  if (expressions.every((it) => it.includes(' / '))) return 'percentunit'
  if (expressions.every((it) => it.includes('_seconds'))) return 's'
  return expressions.every((it) => /rate\(\w*_requests_/.test(it)) ? 'reqps' : 'short'
}

function overlap(a: Panel['gridPos'], b: Panel['gridPos']): boolean {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h
}

interface RecordedFamily {
  type: string
  readonly help: string
  readonly labels: Set<string>
  readonly bounds: string[]
}

function readExposition(text: string): Map<string, RecordedFamily> {
  const families = new Map<string, RecordedFamily>()
  for (const line of text.split('\n')) {
    const help = /^# HELP (\S+) (.*)$/.exec(line)
    const type = /^# TYPE (\S+) (.*)$/.exec(line)
    const sample = /^(\w+?)(_bucket|_sum|_count)?(?:\{(.*)\})? \S+$/.exec(line)
    if (help) families.set(help[1]!, { type: '', help: help[2]!, labels: new Set(), bounds: [] })
    else if (type) families.get(type[1]!)!.type = type[2]!
    else if (sample) {
      const family = families.get(sample[1]!) ?? families.get(`${sample[1]}${sample[2] ?? ''}`)!
      for (const [, name, value] of (sample[3] ?? '').matchAll(/(\w+)="([^"]*)"/g)) {
        if (name !== 'le') family.labels.add(name!)
        else if (value !== '+Inf' && !family.bounds.includes(value!)) family.bounds.push(value!)
      }
    }
  }
  return families
}
