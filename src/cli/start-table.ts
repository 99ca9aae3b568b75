/** What `serve` says when it stands: who is there, how well each cache is known, and what to add where it is not exact. */
import { withoutCredentials } from '../server/index.js'
import type { AddressReport } from './assemble/assembly-options.js'
import { table } from './table.js'

export function startTable(reports: readonly AddressReport[]): string[] {
  const hasPairs = reports.some(({ role }) => role !== undefined && role !== 'aggregated')
  const head = ['worker', 'address', 'engine', 'model', 'events', 'tokenizer', 'mode', ...(hasPairs ? ['role'] : [])]
  const rows = reports.map((report) => [...rowOf(report), ...(hasPairs ? [report.role ?? '-'] : [])])
  const lines = table(head, rows).map((line) => `  ${line}`)
  const advice = reports.flatMap(adviceOf)
  return advice.length === 0 ? lines : [...lines, '', ...advice]
}

function rowOf(report: AddressReport): string[] {
  const { workerId, url, facts, model, tokens, verdict } = report
  if (!facts || !verdict) return [String(workerId), withoutCredentials(url), '-', '-', '-', '-', 'waiting']
  const engine = [facts.kind.value, facts.version?.value].filter(Boolean).join(' ')
  return [
    String(workerId),
    withoutCredentials(url),
    engine,
    model ?? '-',
    eventsOf(report),
    tokens?.source ?? 'none',
    verdict.mode,
  ]
}

function eventsOf({ facts }: AddressReport): string {
  const sources = facts?.eventSources?.value
  if (!sources) return 'not said'
  const [first] = sources
  if (!first) return 'off'
  const port = first.endpoint.replace(/^tcp:\/\//, '')
  const more = sources.length > 1 ? ` x${sources.length}` : ''
  return `${port}${more}${first.replayEndpoint === undefined ? ', no replay' : ' + replay'}`
}

function adviceOf({ workerId, state, verdict, tokens }: AddressReport): string[] {
  if (!verdict)
    return [
      state === 'dismissed'
        ? `  worker ${workerId} was taken away.`
        : `  worker ${workerId} does not answer yet. It is asked again until it does, and joins then.`,
    ]
  if (verdict.mode === 'exact') return []
  const lines = [`  worker ${workerId} is ${verdict.mode}: ${verdict.reason}.`]
  if (verdict.fix !== undefined) lines.push(`    to make it exact, add: ${verdict.fix}`)
  for (const it of tokens?.source === 'none' ? tokens.tried : []) lines.push(`    tokenizer: ${it}`)
  return lines
}
