/** The report as one page that needs nothing from outside: figures first, then plots, then how to get it again. */
import type { PolicyResult } from './experiment.js'
import { labelOf, notesOf } from './markdown-table.js'
import type { TimelineEntry } from './report.js'
import { barPlot, escapeText, linePlot, workerPlot } from './svg-plots.js'
import type { Axis } from './svg-plots.js'

export interface PageFacts {
  /** What was replayed, for the heading. */
  readonly title: string
  /** The command that gives the same page. */
  readonly command: string
}

/** Told apart by people with any colour vision (Okabe and Ito); the ninth run begins again. */
const colors = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#7a68a6', '#8c8c8c']

export function htmlPage(results: readonly PolicyResult[], facts: PageFacts): string {
  const runs = results.map(
    (result, index): Run => ({
      result,
      label: labelOf(result),
      color: colors[index % colors.length]!,
      isDashed: index >= colors.length,
    }),
  )
  const contestants = runs.filter(({ result }) => result.policy !== 'ideal')
  const arrival = arrivalAxis(results)
  const overTime = (of: readonly Run[], value: (entry: TimelineEntry) => number, title: string): string =>
    linePlot(
      of.map(({ result, ...look }) => ({
        ...look,
        points: result.timeline
          .filter(({ requests }) => requests > 0)
          .map((entry) => [entry.start_ms / arrival.unitMs, value(entry)] as const),
      })),
      arrival,
      { title, format: duration },
    )
  const sections = [
    `<h1>${escapeText(facts.title)}</h1>`,
    `<p class="lead">${escapeText(leadOf(results))}</p>`,
    legend(runs),
    tableOf(runs),
    ...notesOf(results).map((note) => `<p class="note">${escapeText(note)}</p>`),
    ...sweepSections(results),
    section(
      'How long until the first token',
      'Each line says which share of the requests had its first token by then. Further left is better.',
      linePlot(
        runs.map(({ result, ...look }) => ({
          ...look,
          points: result.ttft_quantiles_ms.map((ms, percent) => [ms, percent] as const),
        })),
        { title: 'time to first token, log scale', isLog: true, format: duration },
        { title: 'share of requests', format: (value) => `${Math.round(value)} %` },
      ),
    ),
    section(
      'Over the length of the trace',
      'Mean time to first token of the requests that arrived in each sixtieth of it.',
      overTime(runs, (entry) => entry.ttft_ms_mean, 'mean TTFT'),
    ),
    section(
      'How long requests waited',
      'Mean time from arrival to the first pass of an engine, in the router and in front of the engine.',
      overTime(contestants, (entry) => entry.queued_ms_mean, 'mean wait'), // in the ideal nobody waits
    ),
    section(
      'What did not have to be computed',
      `Share of prompt tokens that came out of a cache. One cache that holds everything would spare ${((results[0]?.reuse_achievable ?? 0) * 100).toFixed(1)} %.`,
      barPlot(
        runs.map(({ result, label, color }) => ({
          label,
          color,
          value: result.reuse,
          text: `${(result.reuse * 100).toFixed(1)} %`,
        })),
        Math.max(...results.map(({ reuse }) => reuse)),
      ),
    ),
    workerSection(contestants), // the ideal has one worker that did everything
    `<h2>Again</h2><pre>${escapeText(facts.command)}</pre>`,
  ]
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeText(facts.title)}</title><style>${style}</style></head>
<body><main>
${sections.join('\n')}
</main></body></html>
`
}

/** How a run looks on the page. */
interface Look {
  readonly label: string
  readonly color: string
  readonly isDashed: boolean
}

interface Run extends Look {
  readonly result: PolicyResult
}

/** Seconds, minutes or hours, whichever gives small numbers. */
function arrivalAxis(results: readonly PolicyResult[]): Axis & { readonly unitMs: number } {
  const lastMs = Math.max(0, ...results.map(({ timeline }) => timeline.at(-1)?.start_ms ?? 0))
  const [unit, unitMs] = (
    [
      ['h', 3_600_000],
      ['min', 60_000],
      ['s', 1000],
    ] as const
  ).find(([, ms]) => lastMs > 3 * ms) ?? ['s', 1000]
  return { title: 'arrival', isTight: true, unitMs, format: (value) => `${Number(value.toPrecision(3))} ${unit}` }
}

/** What a sweep was for: each policy over the values, and beside it those that have no settings. */
function sweepSections(results: readonly PolicyResult[]): string[] {
  const contestants = results.filter(({ policy }) => policy !== 'ideal')
  const policies = [...new Set(contestants.map(({ policy }) => policy))]
  const valuesOf = (name: string): string[] => contestants.flatMap(({ settings }) => settings[name] ?? [])
  const key = contestants
    .flatMap(({ settings }) => Object.keys(settings))
    .find((name) => new Set(valuesOf(name)).size > 1)
  if (key === undefined) return []
  const values = valuesOf(key).map(Number)
  const looks = policies.map((policy, index) => ({
    label: policy,
    color: colors[index % colors.length]!,
    isDashed: false,
  }))
  const plot = (title: string, figure: (result: PolicyResult) => number): string =>
    linePlot(
      looks.map((look) => ({
        ...look,
        points: contestants
          .filter(({ policy }) => policy === look.label)
          .flatMap((result) => {
            const at = result.settings[key]
            const places = at === undefined ? [Math.min(...values), Math.max(...values)] : [Number(at)]
            return places.map((place) => [place, figure(result)] as const)
          }),
      })),
      { title: escapeText(key), isTight: true, format: (value) => String(Number(value.toPrecision(4))) },
      { title, format: duration },
    )
  return [
    section(
      'What the sweep changed',
      `First tokens and whole answers over the values of ${escapeText(key)}. Lower is better.`,
      `${legend(looks)}${plot('mean TTFT', ({ ttft_ms: it }) => it.mean)}${plot('mean E2E', ({ e2e_ms: it }) => it.mean)}`,
    ),
  ]
}

/** One sentence with the outcome: the fastest run against the slowest. The floor is no contestant. */
function leadOf(results: readonly PolicyResult[]): string {
  const contestants = results.filter(({ policy }) => policy !== 'ideal')
  const sorted = [...contestants].sort((a, b) => a.ttft_ms.mean - b.ttft_ms.mean)
  const best = sorted[0]
  const worst = sorted.at(-1)
  if (!best || !worst) return 'Nothing was replayed.'
  const requests = `${best.requests.toLocaleString('en')} ${best.requests === 1 ? 'request' : 'requests'}`
  const ideal = results.find(({ policy }) => policy === 'ideal')
  const floor = ideal ? ` The floor is ${duration(ideal.ttft_ms.mean)}.` : ''
  const fastest = `${labelOf(best)} answers first after ${duration(best.ttft_ms.mean)} on average`
  if (best === worst) return `${requests}: ${fastest}.${floor}`
  const less = Math.round((1 - best.ttft_ms.mean / worst.ttft_ms.mean) * 100)
  return `${requests}: ${fastest}, ${less} % sooner than ${labelOf(worst)} (${duration(worst.ttft_ms.mean)}).${floor}`
}

function legend(looks: readonly Look[]): string {
  const items = looks.map((look) => `<span>${swatch(look)}${escapeText(look.label)}</span>`)
  return `<p class="legend">${items.join('')}</p>`
}

function swatch({ color, isDashed }: Look): string {
  const fill = isDashed ? `repeating-linear-gradient(90deg,${color} 0 4px,transparent 4px 6px)` : color
  return `<i style="background:${fill}"></i>`
}

function tableOf(runs: readonly Run[]): string {
  const head = [
    '',
    'TTFT mean',
    'p50',
    'p90',
    'p99',
    'ITL mean',
    'ITL p99',
    'E2E mean',
    'E2E p99',
    'reuse',
    'held',
    'queued',
    'imbalance',
    'tokens/s',
  ]
  const rows = runs.map((run) => {
    const { result, label } = run
    const { ttft_ms: ttft, itl_ms: itl, e2e_ms: e2e } = result
    const cells = [
      ...[ttft.mean, ttft.p50, ttft.p90, ttft.p99, itl.mean, itl.p99, e2e.mean, e2e.p99].map(duration),
      `${(result.reuse * 100).toFixed(1)} %`,
      duration(result.held_ms.mean),
      duration(result.queued_ms.mean),
      result.imbalance.prefill_tokens.toFixed(2),
      result.output_tokens_per_s.toFixed(0),
    ]
    const name = `<th scope="row">${swatch(run)}${escapeText(label)}</th>`
    return `<tr>${name}${cells.map((cell) => `<td>${cell}</td>`).join('')}</tr>`
  })
  const titles = head.map((title) => `<th scope="col">${title}</th>`).join('')
  return `<div class="wide"><table><thead><tr>${titles}</tr></thead><tbody>${rows.join('')}</tbody></table></div>`
}

function workerSection(runs: readonly Run[]): string {
  const max = runs.reduce(
    (most, { result }) => result.workers.reduce((busiest, worker) => Math.max(busiest, worker.prompt_tokens), most),
    0,
  )
  const figures = runs.map(({ result, label, color }) => {
    const workers = result.workers.map((worker) => ({
      computed: worker.prompt_tokens - worker.cached_tokens,
      spared: worker.cached_tokens,
    }))
    const says = `the busiest computed ${result.imbalance.prefill_tokens.toFixed(2)} times the mean`
    const plot = workerPlot(workers, max, color)
    return `<figure><figcaption>${escapeText(label)}<small>${says}</small></figcaption>${plot}</figure>`
  })
  return section(
    'What each worker did',
    `Prompt tokens per worker: computed, and paler above it what its cache spared it. One scale for all; the tallest has ${max.toLocaleString('en')} tokens.`,
    `<div class="panels">${figures.join('')}</div>`,
  )
}

function section(title: string, says: string, plot: string): string {
  return `<section><h2>${title}</h2><p>${says}</p>${plot}</section>`
}

function duration(ms: number): string {
  if (ms >= 100_000) return `${(ms / 1000).toFixed(0)} s`
  if (ms >= 10_000) return `${Number((ms / 1000).toFixed(1))} s`
  if (ms >= 1000) return `${(ms / 1000).toFixed(2).replace(/\.?0+$/, '')} s`
  return `${ms < 100 ? Number(ms.toFixed(1)) : Math.round(ms)} ms`
}

const style = `
:root{color-scheme:light dark;--ink:#1d2328;--soft:#66707a;--rule:#e3e7ea;--paper:#fff;--ground:#f6f7f8}
@media (prefers-color-scheme:dark){:root{--ink:#e8eaec;--soft:#9aa4ad;--rule:#30363c;--paper:#1b1f23;--ground:#131619}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1200px;margin:0 auto;padding:40px 20px 64px}
h1{font-size:26px;line-height:1.25;margin:0 0 6px;letter-spacing:-.01em}
h2{font-size:17px;margin:0 0 2px}
p{margin:0 0 14px;color:var(--soft)}
.lead{font-size:17px;color:var(--ink)}
.note{color:var(--ink);border-left:3px solid #d55e00;padding-left:10px}
section,.wide{background:var(--paper);border:1px solid var(--rule);border-radius:10px;padding:18px 20px;margin:18px 0}
.wide{overflow-x:auto;padding:8px 14px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:13.5px}
th,td{padding:7px 7px;text-align:right;white-space:nowrap;border-top:1px solid var(--rule)}
thead th{border:0;color:var(--soft);font-weight:500}
tbody th{text-align:left;font-weight:600;position:sticky;left:-14px;background:var(--paper)}
i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:7px}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px}
svg{width:100%;height:auto;display:block}
.slim{display:none}
@media (max-width:600px){.broad{display:none}.slim{display:block}section{padding:14px 12px}main{padding:24px 12px 48px}}
.line{fill:none;stroke-linejoin:round;stroke-linecap:round}
.line:not([stroke-width]){stroke-width:2}
.line:not([stroke-width]):hover{stroke-width:4}
.grid{stroke:var(--rule)}
.tick,.axis{font-size:11.5px;fill:var(--soft)}
.bars{display:grid;grid-template-columns:fit-content(45%) 1fr;gap:8px 12px;margin:0;font-size:13px;align-items:center}
.bars dt{text-align:right;overflow-wrap:anywhere}
.bars dd{margin:0;display:flex;align-items:center;gap:8px}
.bars b{height:20px;min-width:1px;border-radius:3px}
.bars span{white-space:nowrap}
.panels{display:grid;grid-template-columns:repeat(auto-fill,minmax(260px,1fr));gap:18px}
figure{margin:0}
figcaption{font-weight:600;font-size:13px;margin-bottom:4px}
figcaption small{display:block;font-weight:400;color:var(--soft)}
pre{background:var(--paper);border:1px solid var(--rule);border-radius:10px;padding:12px 16px;white-space:pre-wrap;overflow-wrap:anywhere;font-size:13px}
`
