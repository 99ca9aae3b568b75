import { expect, it } from 'vitest'
import { runExperiment } from './experiment.js'
import { generateTrace } from './generate.js'
import { htmlPage } from './html-page.js'

const trace = generateTrace('chat', { requests: 60, seed: 1 })
const results = runExperiment(trace, { workers: 3, policies: ['warm', 'round-robin'], isIdealWanted: true })
const page = htmlPage(results, { title: 'a <b> & "c"', command: 'warmroute replay x' })

it('is one page with a plot per question and a line per run, and asks for nothing from outside', () => {
  expect(page).not.toMatch(/<script|<link|<img|https?:|url\(|@import/)
  expect(page.match(/<svg /g)).toHaveLength(3 * 2 + 2) // three of lines, each for two widths, and the workers of two policies
  expect(page.match(/<svg [^>]*aria-label="[^"]+"/g)).toHaveLength(8)
  expect(page.match(/<path class="line"/g)).toHaveLength((2 * 3 + 2) * 2)
  expect(page.match(/<dt>/g)).toHaveLength(3)
  expect(page).toContain(`The floor is ${Number(results.at(-1)!.ttft_ms.mean.toFixed(1))} ms.`)
  for (const { policy } of results) expect(page).toContain(policy)
  expect(page).not.toMatch(/NaN|Infinity|undefined/)
})

it('is well formed: every element that opens closes', () => {
  const open: string[] = []
  for (const [, slash, name, rest] of page.matchAll(/<(\/?)([a-z][a-z0-9]*)([^>]*)>/g)) {
    if (name === 'meta' || rest!.endsWith('/')) continue
    if (slash) expect(open.pop()).toBe(name)
    else open.push(name!)
  }
  expect(open).toEqual([])
})

it('shows foreign text as text', () => {
  expect(page).toContain('a &lt;b&gt; &amp; &quot;c&quot;')
  expect(page).not.toContain('<b>')
})

it('says which requests no figure counts', () => {
  const long = [{ ...trace[0]!, promptTokens: 2_000_000 }]
  const rejected = runExperiment(long, { workers: 1, policies: ['random'] })
  const text = htmlPage(rejected, { title: 't', command: 'c' })
  expect(text).toContain('random: 1 of 1 requests were rejected')
  expect(text).not.toMatch(/NaN|Infinity/)
})

it('has something to say of a single run, and shows a single value where it can be seen', () => {
  const single = runExperiment(trace.slice(0, 1), { workers: 1, policies: ['random'] })
  const text = htmlPage(single, { title: 't', command: 'c' })
  expect(text).not.toMatch(/NaN|Infinity/)
  expect(text).toContain('1 request: random answers first')
  expect(text.match(/h0" stroke="[^"]+" stroke-width="8"/g)).toHaveLength(2 * 2) // dots over the length of the trace
  for (const [, width, path] of text.matchAll(/viewBox="0 0 (\d+) [^>]*>.*?<path class="line" d="([^"]+)"/g))
    for (const [, x, y] of path!.matchAll(/[ML](\S+?) (\d+\.?\d*)/g)) {
      expect(Number(x)).toBeGreaterThan(0)
      expect(Number(x)).toBeLessThan(Number(width))
      expect(Number(y)).toBeGreaterThan(0)
    }
})

it('shows what a sweep changed, beside policies that have no settings', () => {
  const sweep = { key: 'prefill_load_scale', values: [1, 4, 16] }
  const swept = runExperiment(trace, { workers: 3, policies: ['random', 'dynamo'], sweep, isIdealWanted: true })
  const text = htmlPage(swept, { title: 't', command: 'c' })
  const section = /What the sweep changed[\s\S]*?<\/section>/.exec(text)![0]
  const lines = [...section.matchAll(/<path class="line" d="([^"]+)"[^>]*><title>([^<]+)/g)]
  expect(lines.map(([, path, label]) => [label, path!.match(/[ML]/g)!.length])).toEqual(
    Array.from({ length: 4 }, () => [
      ['random', 2],
      ['dynamo', 3],
    ]).flat(), // two figures, two widths
  )
  expect(page).not.toContain('What the sweep changed')
})

it('tells more runs apart than there are colours', () => {
  const sweep = { key: 'router_temperature', values: [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8] }
  const many = runExperiment(trace.slice(0, 20), { workers: 2, policies: ['dynamo'], sweep })
  const looks = [...htmlPage(many, { title: 't', command: 'c' }).matchAll(/stroke="(#[^"]+)"( stroke-dasharray)?/g)]
  expect(new Set(looks.map(([look]) => look)).size).toBe(9)
})

it.each([
  [20_000, /10 s</],
  [20 * 60_000, /10 min</],
  [20 * 3_600_000, /10 h</],
])('counts arrivals of a trace of %d ms in numbers that can be read', (lengthMs, tick) => {
  const spread = trace.slice(0, 40).map((request, index) => ({ ...request, arrivalMs: (index / 39) * lengthMs }))
  const run = runExperiment(spread, { workers: 2, policies: ['random'] })
  expect(htmlPage(run, { title: 't', command: 'c' })).toMatch(tick)
})

it('measures the workers of policies by each other, not by the ideal that did everything alone', () => {
  const without = results.filter(({ policy }) => policy !== 'ideal')
  const panelsOf = (text: string): string =>
    text.slice(text.indexOf('class="panels"'), text.indexOf('</section>', text.indexOf('class="panels"')))
  expect(panelsOf(page)).toBe(panelsOf(htmlPage(without, { title: 'a <b> & "c"', command: 'warmroute replay x' })))
})
