// A folder of another model loads as well as the right one: what a router makes of an engine whose tokens are not its own.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import { afterAll, expect, it } from 'vitest'
import type { SimEngine } from '../sim/index.js'
import { loadTokenizer } from '../sim/index.js'
import type { AddressReport } from './assemble/assembly-options.js'
import type { Served } from './serve.js'
import { serveOfEachTest } from './serve-house.case.js'

const { engine, start } = serveOfEachTest()

/** As people have it on their disks. */
const folder = mkdtempSync(join(tmpdir(), 'warmroute-tinyllama-'))
cpSync(fileURLToPath(new URL('../../test/fixtures/tinyllama/', import.meta.url)), folder, { recursive: true })
writeFileSync(join(folder, 'tokenizer.json'), gunzipSync(readFileSync(join(folder, 'tokenizer.json.gz'))))
afterAll(() => rmSync(folder, { recursive: true }))

function isIn(mode: string): (reports: readonly AddressReport[]) => boolean {
  return (reports) => reports.every(({ verdict }) => verdict?.mode === mode)
}

async function chat({ address }: Served, content: string): Promise<void> {
  const body = JSON.stringify({ model: 'sim', messages: [{ role: 'user', content }], max_tokens: 2 })
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${address.url}/v1/chat/completions`, { method: 'POST', headers, body })
  expect(response.status).toBe(200)
  await response.text()
}

async function strike({ url }: SimEngine, fault: string): Promise<void> {
  const body = JSON.stringify([{ fault }])
  expect((await fetch(`${url}/sim/faults`, { method: 'POST', body })).ok).toBe(true)
}

it.each(['vllm', 'sglang'] as const)(
  'is not exact before %s with the folder of another model, and says why',
  async (kind) => {
    const it = await engine({ engine: kind })
    const lines: string[] = []
    const served = await start([it.url, '--tokenizer', folder], lines)
    await served.assembly.until(([report]) => report?.tokens?.trouble !== undefined, 10_000)
    const [report] = served.assembly.reports()
    expect(report!.tokens).toMatchObject({
      source: 'configured',
      trouble: expect.stringMatching(/^of a text the engine makes \d+ tokens/) as string,
    })
    expect(report!.verdict).toMatchObject({
      mode: 'approximate',
      reason: expect.stringContaining('of a text') as string,
    })
  },
)

it('is exact with the right folder, until the engine counts otherwise for a while, and again when it does not', async () => {
  const it = await engine({ tokenizer: loadTokenizer(folder) })
  const served = await start([it.url, '--tokenizer', folder])
  expect(await served.assembly.until(isIn('exact'), 10_000)).toBe(true)
  await strike(it, 'template_drift')
  for (let turn = 0; turn < 4; turn++) await chat(served, `How warm is it in room ${turn}?`)
  expect(await served.assembly.until(isIn('approximate'), 5_000)).toBe(true)
  expect(served.assembly.reports()[0]!.verdict!.reason).toContain(
    'of the last 4 prompts the engine counted 4 otherwise',
  )
  const metrics = await (await fetch(`${served.address.url}/metrics`)).text()
  expect(metrics).toContain('warmroute_counted_prompts_total{model="sim",result="different"} 4\n')

  expect((await fetch(`${it.url}/sim/faults`, { method: 'DELETE' })).ok).toBe(true)
  for (let turn = 0; turn < 4; turn++) await chat(served, `And in corridor ${turn}?`)
  expect(await served.assembly.until(isIn('exact'), 5_000)).toBe(true)
})
