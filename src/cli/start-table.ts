/** What `serve` says when it stands: who is there, how well each cache is known, and what to add where it is not exact. */
import type { AddressReport } from './assemble/assembly-options.js'
import { whyThoughtsUnknown } from '../tokens/index.js'
import { table } from './table.js'

/** `all`: where it shows only some of those who are there. */
export function startTable(reports: readonly AddressReport[], all: readonly AddressReport[] = reports): string[] {
  const hasPairs = all.some(({ role }) => role !== undefined && role !== 'aggregated')
  const head = ['worker', 'address', 'engine', 'model', 'events', 'tokenizer', 'mode', ...(hasPairs ? ['role'] : [])]
  const rows = reports.map((report) => [...rowOf(report), ...(hasPairs ? [report.role ?? '-'] : [])])
  const lines = table(head, rows).map((line) => `  ${line}`)
  const advice = [
    ...reports.flatMap(adviceOf),
    ...wholePrompts(reports, all),
    ...passedOver(reports),
    ...reports.flatMap(unknownThoughts),
  ]
  return advice.length === 0 ? lines : [...lines, '', ...advice]
}

function rowOf(report: AddressReport): string[] {
  const { workerId, url, facts, model, tokens, verdict } = report
  if (!facts || !verdict) return [String(workerId), url, '-', '-', '-', '-', 'waiting']
  const engine = [facts.kind.value, facts.version?.value].filter(Boolean).join(' ')
  return [
    String(workerId),
    url,
    engine,
    model ?? '-',
    eventsOf(report),
    tokens?.asks ? `engine, ${tokens.asks}` : (tokens?.source ?? 'none'),
    verdict.mode,
  ]
}

/** Models whose engine is asked to tokenize the whole of every new prompt, and what would make its end enough. */
function wholePrompts(reports: readonly AddressReport[], all: readonly AddressReport[]): string[] {
  const asked = all.filter(
    ({ tokens, url, facts }) => tokens?.asks === 'whole' && tokens.from === url && facts?.generates?.value !== false,
  )
  const hasSeveral = new Set(all.flatMap(({ model }) => model ?? [])).size > 1
  return asked.flatMap((report) => {
    if (!reports.includes(report)) return []
    const { model, tokens, facts } = report
    const ours = hasSeveral ? `--tokenizers '{"${model}":"<folder>"}'` : '--tokenizer <folder>'
    return [
      `  ${asked.filter((it) => it.model === model).length > 1 ? `the ${facts?.kind.value} engine` : 'the engine'} of ${model} tokenizes every new prompt from its start: ${tokens!.reason}.`,
      ...(tokens!.unaskable === undefined
        ? []
        : [`    it cannot be asked for ${tokens!.unaskable}: those are routed by load.`]),
      facts?.kind.value === 'vllm'
        ? `    to have it asked for new ends only, and for everything, add: --enable-tokenizer-info-endpoint; for no call at all: warmroute serve ${ours}`
        : `    to have it not asked at all, add: warmroute serve ${ours}`,
    ]
  })
}

/** Models with tokens from a source that was not the first choice, and why the ones before it do not serve. */
function passedOver(reports: readonly AddressReport[]): string[] {
  const models = new Map(reports.map(({ model, tokens }) => [model, tokens] as const))
  return [...models].flatMap(([model, tokens]) =>
    tokens && tokens.source !== 'none'
      ? tokens.tried.map((why) => `  the tokens of ${model} come from its ${tokens.source}, because: ${why}`)
      : [],
  )
}

/** No files mend it, so no flag is named. */
function unknownThoughts({ workerId, facts, tokens }: AddressReport): string[] {
  if (facts?.kind.value !== 'sglang' || !tokens || tokens.source === 'none') return []
  const why = whyThoughtsUnknown(facts.reasoningParser?.value)
  if (why === undefined) return []
  return [`  messages to worker ${workerId} that hold thoughts or switch thinking are routed by load: ${why}.`]
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

function adviceOf({ workerId, state, absence, verdict, tokens }: AddressReport): string[] {
  if (!verdict)
    return [
      state === 'dismissed'
        ? `  worker ${workerId} was taken away.`
        : `  worker ${workerId} ${absence}. It is asked again until it does, and joins then.`,
    ]
  if (verdict.mode === 'exact') return []
  const lines = [`  worker ${workerId} is ${verdict.mode}: ${verdict.reason}.`]
  if (verdict.fix !== undefined) lines.push(`    to make it exact, add: ${verdict.fix}`)
  for (const it of tokens?.source === 'none' ? tokens.tried : []) lines.push(`    tokenizer: ${it}`)
  return lines
}
