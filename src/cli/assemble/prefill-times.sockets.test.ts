// `prefill_times: online` end to end: engines with a clock of their own, requests through the door, and what was learned of them.
import { expect, it } from 'vitest'
import type { Served } from '../serve.js'
import { isExact, serveOfEachTest } from '../serve-house.case.js'

const { engine, start } = serveOfEachTest()

it('policy dynamo learns how long prefills take, and shows how well', async () => {
  const served = await serveThem(['--prefill-times=online'])
  expect(await figures(served)).toEqual({ learned: 0, error: undefined })
  for (let n = 0; n < 40; n++) await ask(served, `${n} ${'word '.repeat(100 + 40 * (n % 9))}`)
  const { learned, error } = await figures(served)
  expect(learned).toBeGreaterThan(25)
  expect(error).toBeGreaterThan(0)
  expect(error).toBeLessThan(1)
})

it('without it nothing is learned, and nothing is shown', async () => {
  const served = await serveThem([])
  for (let n = 0; n < 3; n++) await ask(served, `${n} hello`)
  expect(await figures(served)).toEqual({ learned: undefined, error: undefined })
})

async function figures({ address }: Served): Promise<{ learned: number | undefined; error: number | undefined }> {
  const text = await (await fetch(`${address.url}/metrics`)).text()
  const read = (name: string): number | undefined => {
    const value = new RegExp(`^${name}\\{model="sim",worker_type="decode"\\} (\\S+)$`, 'm').exec(text)?.[1]
    return value === undefined ? undefined : Number(value)
  }
  return { learned: read('warmroute_prefills_learned_total'), error: read('warmroute_prefill_estimate_error_ratio') }
}

async function ask({ address }: Served, content: string): Promise<void> {
  const body = JSON.stringify({ model: 'sim', messages: [{ role: 'user', content }], max_tokens: 2, stream: true })
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(`${address.url}/v1/chat/completions`, { method: 'POST', headers, body })
  expect([answer.status, (await answer.text()).includes('[DONE]')]).toEqual([200, true])
}

async function serveThem(words: readonly string[]): Promise<Served> {
  const slow = { speedup: 1, healthMs: 0 }
  const engines = [await engine(slow), await engine(slow)]
  const served = await start(['--policy=dynamo', ...words, ...engines.map(({ url }) => url)])
  expect(await served.assembly.until(isExact, 10_000)).toBe(true)
  return served
}
