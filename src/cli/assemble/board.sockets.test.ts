// The board of docs/grafana against a gateway that runs: every series that it asks for is there, under that name, type and label.
import { readFileSync } from 'node:fs'
import { afterEach, expect, it } from 'vitest'
import type { ClosedRouter } from '../../../test/closed-router.js'
import { expectClosed } from '../../../test/closed-router.js'
import { defaultRouterConfig } from '../../core/protocol/index.js'
import { startSimEngine } from '../../sim/index.js'
import { Assembly } from './assembly.js'
import type { AddressReport } from './assembly-options.js'

const open: { close(): Promise<void> }[] = []
const routers: ClosedRouter[] = []
afterEach(async () => {
  for (const it of open.splice(0).reverse()) await it.close()
  await expectClosed(...routers.splice(0))
})

/** Nothing of the kind happens in this test, and nothing is exported of them until it does; the catalogue's test has their names. */
const untilSomethingFails = [
  'warmroute_event_decode_errors_total',
  'warmroute_event_gaps_total',
  'warmroute_event_purges_total',
  'warmroute_requests_retried_total',
  'warmroute_requests_shed_total',
]

interface Board {
  readonly panels: readonly { readonly targets: readonly { readonly expr: string }[] }[]
}

it('shows what a running gateway exports', async () => {
  const page = await scrapeAfterTraffic()
  const types = new Map([...page.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => [name!, type!]))
  const { panels } = JSON.parse(readFileSync('docs/grafana/warmroute.json', 'utf8')) as Board
  const empty = new Set<string>()
  for (const expr of panels.flatMap(({ targets }) => targets.map((it) => it.expr))) {
    const grouped = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, names]) => names!.split(/,\s*/))
    for (const [, name = '', selector = ''] of expr.matchAll(/\b((?:dynamo|warmroute)_\w+)(?:\{([^}]*)\})?/g)) {
      const samples = samplesOf(page, name)
      if (samples.length === 0) {
        empty.add(name)
        continue
      }
      const isBucket = name.endsWith('_bucket')
      const wanted = isBucket ? 'histogram' : expr.includes(`rate(${name}`) ? 'counter' : 'gauge'
      expect(types.get(isBucket ? name.slice(0, -7) : name), name).toBe(wanted)
      if (isBucket) expect([grouped.includes('le'), expr.startsWith('histogram_quantile(')]).toEqual([true, true])
      const chosen = [...selector.matchAll(/(\w+)(=~?)"([^"]*)"/g)]
      for (const labels of samples)
        expect([...labels.keys()], name).toEqual(expect.arrayContaining([...chosen.map((it) => it[1]!), ...grouped]))
      for (const [, label, sign, value] of chosen)
        if (sign === '=')
          expect(
            samples.some((labels) => labels.get(label!) === value),
            `${name} ${label}`,
          ).toBe(true)
    }
  }
  expect([...empty].filter((name) => !untilSomethingFails.includes(name))).toEqual([])
})

/** One stream, one whole answer, one request that nobody serves: two workers with events. */
async function scrapeAfterTraffic(): Promise<string> {
  const engines = [await sim('vllm'), await sim('sglang')]
  const times = { watchMs: 50, retryMs: [20, 100] as const, missesMax: 2, probeMs: 10_000 }
  const workers = engines.map(({ url }) => ({ url }))
  const gateway = { listen: { port: 0 }, usageSampleEvery: 1 }
  const assembly = new Assembly({ workers, config: defaultRouterConfig, times, gateway })
  open.push(assembly)
  routers.push({ assembly })
  const { url } = await assembly.listen()
  const isExact = (reports: readonly AddressReport[]): boolean =>
    reports.every(({ verdict }) => verdict?.mode === 'exact')
  expect(await assembly.until(isExact, 10_000)).toBe(true)
  for (const more of [{ stream: true }, {}, { stream: true }, { model: 'nobody' }]) {
    const messages = [{ role: 'user', content: 'tell me of the sea '.repeat(40) }]
    const body = JSON.stringify({ model: 'sim', messages, max_tokens: 40, ...more })
    const headers = { 'content-type': 'application/json' }
    await (await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body })).text()
  }
  return await (await fetch(`${url}/metrics`)).text()
}

async function sim(engine: 'vllm' | 'sglang'): ReturnType<typeof startSimEngine> {
  const started = await startSimEngine({ engine, models: ['sim'], speedup: 100, blockTokens: 16, healthMs: 0 })
  open.push(started)
  return started
}

function samplesOf(page: string, name: string): Map<string, string>[] {
  const lines = page.split('\n').filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
  return lines.map((line) => new Map([...line.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, value]) => [key!, value!])))
}
