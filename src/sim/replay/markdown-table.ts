/** Results as a Markdown table, for a terminal and for pasting. */
import type { PolicyResult } from './experiment.js'

const columns: readonly (readonly [string, (result: PolicyResult) => string])[] = [
  ['policy', labelOf],
  ['TTFT mean', ({ ttft_ms: ttft }) => ms(ttft.mean)],
  ['p50', ({ ttft_ms: ttft }) => ms(ttft.p50)],
  ['p90', ({ ttft_ms: ttft }) => ms(ttft.p90)],
  ['p99', ({ ttft_ms: ttft }) => ms(ttft.p99)],
  ['ITL mean', ({ itl_ms: itl }) => itl.mean.toFixed(2)],
  ['ITL p99', ({ itl_ms: itl }) => itl.p99.toFixed(1)],
  ['E2E mean', ({ e2e_ms: e2e }) => ms(e2e.mean)],
  ['E2E p99', ({ e2e_ms: e2e }) => ms(e2e.p99)],
  ['reuse', ({ reuse }) => reuse.toFixed(3)],
  ['held mean', ({ held_ms: held }) => ms(held.mean)],
  ['queued mean', ({ queued_ms: queued }) => ms(queued.mean)],
  ['imbalance', ({ imbalance }) => imbalance.prefill_tokens.toFixed(2)],
  ['tokens/s', ({ output_tokens_per_s: rate }) => rate.toFixed(0)],
]

/** The name of a run: its policy, and what was set. */
export function labelOf({ policy, settings }: Pick<PolicyResult, 'policy' | 'settings'>): string {
  return [policy, ...Object.entries(settings).map(([key, value]) => `${key}=${value}`)].join(' ')
}

/** Times in milliseconds; imbalance is the busiest worker's prefill over the mean worker's. */
export function markdownTable(results: readonly PolicyResult[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [
    line(columns.map(([title]) => title)),
    `|${columns.map((_, index) => (index === 0 ? '---' : '--:')).join('|')}|`,
    ...results.map((result) => line(columns.map(([, cell]) => cell(result)))),
  ].join('\n')
}

/** What the figures do not show: requests that never ran, answers that were cut, settings that nobody looked at. */
export function notesOf(results: readonly PolicyResult[]): string[] {
  const rejected = results
    .filter((result) => result.rejected > 0)
    .map(
      (result) =>
        `${labelOf(result)}: ${result.rejected} of ${result.requests} requests were rejected, their prompts being longer than the KV of an engine; no figure counts them.`,
    )
  const cut = results[0]?.answers_cut ?? 0
  const shortened =
    cut > 0
      ? [`answers that end early: ${cut}, where prompt and answer together are longer than the KV of an engine.`]
      : []
  return [...rejected, ...shortened, ...idleSettingsOf(results)]
}

/** A sweep over a setting that the policy does not read gives the same run again and again. */
function idleSettingsOf(results: readonly PolicyResult[]): string[] {
  return [...new Set(results.map(({ policy }) => policy))].flatMap((policy) => {
    const [first, ...others] = results.filter((result) => result.policy === policy)
    const isSame = (other: PolicyResult): boolean =>
      other.ttft_ms.mean === first!.ttft_ms.mean && other.e2e_ms.mean === first!.e2e_ms.mean
    const swept = Object.keys(first!.settings).filter((key) =>
      others.some(({ settings }) => settings[key] !== first!.settings[key]),
    )
    return swept.length > 0 && others.every(isSame) ? [`${policy}: ${swept.join(', ')} made no difference.`] : []
  })
}

function ms(value: number): string {
  return value.toFixed(value < 10 ? 1 : 0)
}
