import { expect, it } from 'vitest'
import { runExperiment } from './experiment.js'
import { generateTrace } from './generate.js'
import { htmlPage } from './html-page.js'

const trace = generateTrace('chat', { requests: 60, seed: 1 })
const results = runExperiment(trace, { workers: 3, policies: ['warm', 'round-robin'], isIdealWanted: true })
const page = htmlPage(results, { title: 'a <b> & "c"', command: 'warmroute replay x' })

it('is one page with a plot per question and a line per run, and asks for nothing from outside', () => {
  expect(page).not.toMatch(/<script|<link|<img|https?:|url\(|@import/)
  expect(page.match(/<svg /g)).toHaveLength(4 + 2) // three of lines, bars, and the workers of two policies
  expect(page.match(/<svg [^>]*aria-label="[^"]+"/g)).toHaveLength(6)
  expect(page.match(/<path class="line"/g)).toHaveLength(2 * 3 + 2)
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

it('has something to say of a single run, and of equal values', () => {
  const single = runExperiment(trace.slice(0, 1), { workers: 1, policies: ['random'] })
  expect(htmlPage(single, { title: 't', command: 'c' })).not.toMatch(/NaN|Infinity/)
})

it('measures the workers of policies by each other, not by the ideal that did everything alone', () => {
  const without = results.filter(({ policy }) => policy !== 'ideal')
  const panelsOf = (text: string): string =>
    text.slice(text.indexOf('class="panels"'), text.indexOf('</section>', text.indexOf('class="panels"')))
  expect(panelsOf(page)).toBe(panelsOf(htmlPage(without, { title: 'a <b> & "c"', command: 'warmroute replay x' })))
})
