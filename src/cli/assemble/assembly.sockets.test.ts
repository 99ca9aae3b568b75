import { afterEach, expect, it } from 'vitest'
import { defaultRouterConfig } from '../../core/protocol/index.js'
import type { SimEngine } from '../../sim/index.js'
import { startSimEngine } from '../../sim/index.js'
import { Assembly } from './assembly.js'
import type { WorkerAddress } from './worker-keeper.js'

const open: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const it of open.splice(0).reverse()) await it.close()
})

async function engine(): Promise<SimEngine> {
  const started = await startSimEngine({ engine: 'vllm', speedup: 100, blockTokens: 16 })
  open.push(started)
  return started
}

/** Counts what it says of workers that could not join. */
function assemble(workers: readonly WorkerAddress[]): { readonly assembly: Assembly; readonly refusals: string[] } {
  const refusals: string[] = []
  const warn = (fields: object, sentence: string): void => {
    if (sentence === 'a worker could not join') refusals.push(JSON.stringify(fields))
  }
  const times = { watchMs: 50, retryMs: [20, 100] as const, missesMax: 2, probeMs: 10_000 }
  const log = { debug() {}, info() {}, warn }
  const assembly = new Assembly({ workers, config: defaultRouterConfig, times, log })
  open.push(assembly)
  return { assembly, refusals }
}

it('goes on without a worker that the gateway refuses, and tries it again', async () => {
  const [decode, prefill] = [await engine(), await engine()]
  const { assembly, refusals } = assemble([
    { url: decode.url, role: 'decode' },
    { url: prefill.url.replace('//', '//me:hidden@'), role: 'prefill', transfer: { connector: 'mooncake' } }, // without the ids that it needs
  ])
  expect(await assembly.until(() => refusals.length > 4, 10_000)).toBe(true)
  expect(refusals[0]).toContain('engine_ids')
  expect(refusals.join()).not.toContain('hidden')
  expect(assembly.reports()).toMatchObject([
    { state: 'joined', model: 'sim' },
    { model: undefined, verdict: undefined },
  ])
  expect(assembly.gateway.workers().map(({ id }) => id)).toEqual(['1'])
})
