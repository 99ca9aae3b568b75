// Whose tokens `serve` uses, and what it makes of an engine that has others: a folder of another model loads as well as the right one.
import type { IncomingMessage } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import { afterAll, describe, expect, it } from 'vitest'
import type { SimEngine } from '../sim/index.js'
import { loadTokenizer } from '../sim/index.js'
import type { AddressReport } from './assemble/assembly-options.js'
import type { Served } from './serve.js'
import { client, conversation, isExact, say, serveOfEachTest, settled } from './serve-house.case.js'

const { engine, start, open } = serveOfEachTest()

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
    const isToldWhy = ([report]: readonly AddressReport[]): boolean =>
      report?.verdict?.reason?.includes('of a text') === true
    expect(await served.assembly.until(isToldWhy, 10_000)).toBe(true)
    const [report] = served.assembly.reports()
    expect(report!.tokens).toMatchObject({
      source: 'configured',
      trouble: expect.stringMatching(/^of a text the engine makes \d+ tokens/) as string,
    })
    expect(report!.verdict!.mode).toBe('approximate')
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

describe('whose tokens are used', () => {
  const tinyllama = new URL('../../test/fixtures/tinyllama/', import.meta.url)
  const files: Readonly<Record<string, () => Buffer>> = {
    'tokenizer.json': () => gunzipSync(readFileSync(new URL('tokenizer.json.gz', tinyllama))),
    'tokenizer_config.json': () => readFileSync(new URL('tokenizer_config.json', tinyllama)),
    'chat_template.jinja': () => readFileSync(new URL('chat_template.jinja', tinyllama)),
    'config.json': () => readFileSync(new URL('config.json', tinyllama)),
  }

  /** Answers as a hub that keeps its large files elsewhere, and notes what it is asked with. */
  async function hub(asked: IncomingMessage[]): Promise<string> {
    const server = createServer((request, response) => {
      asked.push(request)
      const name = request.url!.split('/').at(-1)!
      const isElsewhere = request.url!.startsWith('/large/')
      if (name === 'tokenizer.json' && !isElsewhere)
        return void response.writeHead(302, { location: `http://localhost:${port}/large/${name}` }).end()
      const file = files[name]?.()
      response.writeHead(file ? 200 : 404).end(file)
    })
    await new Promise<void>((resolve) => server.listen(0, resolve))
    const { port } = server.address() as AddressInfo
    open.push({ close: () => new Promise((resolve) => server.close(() => resolve()).closeAllConnections()) })
    return `http://127.0.0.1:${port}`
  }

  it('asks a hub only when allowed, never shows its key, and says in the metrics where tokens come from', async () => {
    const asked: IncomingMessage[] = []
    const endpoint = await hub(asked)
    const cache = mkdtempSync(join(tmpdir(), 'warmroute-hub-'))
    open.push({ close: () => Promise.resolve(rmSync(cache, { recursive: true })) })
    const env = { HF_ENDPOINT: endpoint, HF_TOKEN: 'hub-secret', HF_HUB_CACHE: cache }
    const it = await engine({ root: 'org/tiny' })
    const lines: string[] = []
    const without = await start([it.url], lines, undefined, env)
    expect(asked).toEqual([])
    expect(without.assembly.reports()[0]!.tokens).toMatchObject({ source: 'engine' })

    const served = await start([it.url, '--hub-download'], lines, undefined, env)
    const isHub = (reports: readonly AddressReport[]) => reports[0]!.tokens?.source === 'hub'
    expect(await served.assembly.until(isHub, 20_000)).toBe(true)
    expect(asked.map(({ headers }) => [headers.host!.split(':')[0], headers.authorization])).toEqual([
      ...Array.from({ length: 10 }, () => ['127.0.0.1', 'Bearer hub-secret']),
      ['localhost', undefined], // another host is not told
    ])
    await say(client(served), [], 'How warm is it?')
    const metrics = await (await fetch(`${served.address.url}/metrics`)).text()
    expect(metrics).toContain('warmroute_token_source{encoder="own",model="sim",source="hub"} 1')
    expect(metrics).toContain('warmroute_tokenized_prompts_total{exactness="proven",model="sim",source="tokenizer"} 1')
    expect(metrics).toMatch(/warmroute_token_cache_misses_total\{cache="pieces",model="sim"\} [1-9]/)
    expect(metrics).toMatch(/warmroute_encoded_texts_total\{model="sim",place="loop"\} [1-9]/)
    expect(metrics).toMatch(/dynamo_frontend_template_seconds_count [1-9]/)
    expect(metrics).toMatch(/dynamo_frontend_tokenize_seconds_count [1-9]/)
    expect(`${lines.join()}${metrics}`).not.toContain('hub-secret')
  })

  it('takes another tokenizer while it runs, and keeps it when workers come and go', async () => {
    const engines = [await engine({ isTokenizerInfo: true }), await engine()]
    const served = await start(engines.map(({ url }) => url))
    const { url } = served.address
    const folder = fileURLToPath(tinyllama)
    const replace = (path: string): Promise<Response> =>
      fetch(`${url}/models/sim/tokenizer`, { method: 'POST', body: JSON.stringify({ path }) })
    expect(await (await fetch(`${url}/models/sim/tokenizer`)).json()).toMatchObject({ source: 'engine' })
    expect((await replace('test/nowhere')).status).toBe(400)
    expect(served.assembly.reports()[0]!.tokens).toMatchObject({ source: 'engine' })
    expect(await (await replace(folder)).json()).toMatchObject({ source: 'configured', from: folder, encoder: 'own' })
    await say(client(served), [], 'How warm is it?')
    await fetch(`${url}/workers/1`, { method: 'DELETE' })
    expect(served.assembly.reports()[1]!.tokens).toMatchObject({ source: 'configured', from: folder })
    await say(client(served), [], 'And now?')
    const metrics = await (await fetch(`${url}/metrics`)).text()
    expect(metrics).toContain('warmroute_token_source{encoder="own",model="sim",source="configured"} 1')
    expect(metrics).toContain('warmroute_tokenized_prompts_total{exactness="proven",model="sim",source="tokenizer"} 2')
    for (const [outcome, count] of Object.entries({ replaced: 1, refused: 1 }))
      expect(metrics).toContain(`warmroute_tokenizer_replacements_total{model="sim",outcome="${outcome}"} ${count}\n`)
  })

  it.each([
    ['vllm', 'sglang'],
    ['sglang', 'vllm'],
  ] as const)('asks the vLLM of a mixed fleet, though %s joins before %s', async (...kinds) => {
    const engines = [await engine({ engine: kinds[0] }), await engine({ engine: kinds[1] })]
    const served = await start([engines[0]!.url])
    const body = JSON.stringify({ model: 'sim', url: engines[1]!.url })
    expect((await fetch(`${served.address.url}/workers`, { method: 'POST', body })).status).toBe(201)
    const isBoth = (reports: readonly AddressReport[]) => reports.length === 2 && isExact(reports)
    expect(await served.assembly.until(isBoth, 10_000)).toBe(true)
    const isOwn = (reports: readonly AddressReport[]) => reports.every(({ tokens, url }) => tokens?.from === url)
    expect(await served.assembly.until(isOwn, 10_000)).toBe(true) // each kind for its own workers
    const usual = await (await fetch(`${served.address.url}/models/sim/tokenizer`)).json()
    expect(usual).toMatchObject({ from: engines[kinds.indexOf('vllm')]!.url })
  })

  it('asks an engine that tells its tokenizer for new ends only, and says what every engine is asked for', async () => {
    const [told, silent] = [await engine({ isTokenizerInfo: true }), await engine({ models: ['other'] })]
    const lines: string[] = []
    const served = await start([told.url, silent.url], lines)
    expect(served.assembly.reports().map(({ tokens }) => tokens?.asks)).toEqual(['ends', 'whole'])
    expect(lines.join('\n')).toContain('the engine of other tokenizes every new prompt from its start')
    expect(lines.join('\n')).not.toContain('the engine of sim tokenizes')
    const messages = conversation('harbours')
    expect(await served.assembly.until(isExact, 10_000)).toBe(true)
    for (let turn = 0; turn < 6; turn++) {
      await settled(served, [told])
      const { predicted, reported } = await say(client(served), messages, `And what of number ${turn}?`)
      expect(predicted).toBe(reported)
    }
    const metrics = await (await fetch(`${served.address.url}/metrics`)).text()
    const promptsBy = (asked: string): number =>
      Number(
        new RegExp(`^warmroute_engine_prompts_total\\{asked="${asked}",model="sim"\\} (\\d+)$`, 'm').exec(metrics)?.[1],
      )
    const [ends, wholes] = [promptsBy('end'), promptsBy('whole')]
    expect([ends + wholes, promptsBy('refuted')]).toEqual([6, 0])
    expect(ends).toBeGreaterThanOrEqual(2) // 5, but for those that a busy machine takes too long to render
    expect(promptsBy('checked')).toBe(Math.min(ends, 4))
  })
})
