/** `npm run docs:metrics`: writes `docs/reference/metrics.md` from the catalogue; `--check` compares instead. */
import { writeFileSync } from 'node:fs'
import type { MetricKey, MetricRow } from '../src/telemetry/index.js'
import { catalogue, idle, leftOut, unitOf } from '../src/telemetry/index.js'
import { readFileSync } from './files.js'

const path = 'docs/reference/metrics.md'
const text = page(Object.values(catalogue))
if (!process.argv.includes('--check')) writeFileSync(path, text)
else if (readFileSync(path) !== text) {
  console.log(`${path} is out of date; run npm run docs:metrics`)
  process.exit(1)
}

function page(rows: readonly MetricRow[]): string {
  const sorted = [...rows].sort((a, b) => (a.name < b.name ? -1 : 1))
  return `# Metrics

Generated from \`src/telemetry/catalogue.ts\`. Scrape \`/metrics\`. Names that begin with \`dynamo_\` are those of the system we
follow, so that its dashboards work; "since" names the version where it is not 1.2.1. \`metrics_prefix\` stands in place of
\`dynamo_frontend\`, except before \`worker_\` and \`router_queue_\`. \`DYN_METRICS_<NAME>_MIN\`, \`_MAX\` and \`_COUNT\` in the environment of
\`serve\` set the bounds of \`REQUEST_DURATION\`, \`INPUT_SEQUENCE\`, \`OUTPUT_SEQUENCE\`, \`TTFT\` and \`ITL\` of the front door.
As upstream, \`worker_id\` of a \`dynamo_component_\` family is the instance id of the router itself, in hex, whichever worker the event or
request was of; in \`dynamo_frontend_worker_\` families it is the worker's, in decimal. \`warmroute_\` families call a worker \`worker\`.

Where \`router_mode\` is not \`kv\` nobody looks at prompts: families of prompt tokens, of predictions, of the router and of its
overhead then stay at zero, and what engines report is compared with nothing.

| Name | Type | Unit | Labels | Meaning | Since |
|---|---|---|---|---|---|
${sorted.map(rowText).join('\n')}

## Buckets

| Histogram | Bounds |
|---|---|
${sorted.flatMap((row) => (row.buckets ? [`| \`${row.name}\` | ${row.buckets.join(' ')} |`] : [])).join('\n')}

## Shown, and zero under \`warmroute serve\`

| Family | Why |
|---|---|
${Object.entries(idle)
  .map(([key, why]) => `| \`${catalogue[key as MetricKey].name}\` | ${why} |`)
  .join('\n')}

## Left out

| Family | Why |
|---|---|
${Object.entries(leftOut)
  .map(([name, why]) => `| \`${name}\`${name.endsWith('_') ? '…' : ''} | ${why} |`)
  .join('\n')}
`
}

function rowText(row: MetricRow): string {
  return `| \`${row.name}\` | ${row.type} | ${unitOf(keyOf(row))} | ${row.labels.join(', ')} | ${row.note ? `${row.help}. ${row.note}` : row.help} | ${row.since ?? ''} |`
}

function keyOf(row: MetricRow): MetricKey {
  return (Object.keys(catalogue) as MetricKey[]).find((key) => catalogue[key] === row)!
}
