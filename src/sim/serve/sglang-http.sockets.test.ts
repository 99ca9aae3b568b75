import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { expectSameAnswer, readExchanges } from './recorded-http.case.js'
import type { SimEngine } from './sim-engine.js'
import { startSimEngine } from './sim-engine.js'
import { createSimTokenizer } from './tokenizer.js'

let engine: SimEngine

beforeAll(async () => {
  engine = await startSimEngine({
    engine: 'sglang',
    models: ['tiny'],
    root: './sgmodel',
    blockTokens: 32,
    blocks: 300,
    modelTokensMax: 16_384,
    speedup: 1000,
    healthMs: 1,
    tokenizer: { ...createSimTokenizer(), vocabularySize: 32_000 },
  })
})

afterAll(() => engine.close())

/** What a simulated SGLang does not do, and why. */
const leftOut: Readonly<Record<string, string>> = {
  'get/get_server_info': 'cut out of the recording; its useful keys are checked below',
  'get/model_info': 'fewer keys: nothing about embeddings',
  'get/v1/loads?include=core': 'fewer keys: no moments of decoding',
  'err-malformed': 'the message of the real server shows a path of its own files',
}

const exchanges = readExchanges('sglang/kv-events.jsonl.gz').filter(({ step }) => leftOut[step] === undefined)

it.each(exchanges)('answers as a real SGLang: $step', async (recorded) => {
  await expectSameAnswer(engine.url, recorded)
})

interface Asked {
  readonly path: string
  readonly body: object
  readonly status: number
  readonly answer: unknown
}

it('opens and refuses sessions in the words of a real SGLang', async () => {
  const recorded = JSON.parse(readFileSync('test/fixtures/sglang/generate.json', 'utf8')) as readonly Asked[]
  const sessions = recorded.slice(recorded.findIndex(({ path }) => path === '/open_session'))
  for (const { path, body, status, answer } of sessions) {
    const headers = { 'content-type': 'application/json' }
    const reply = await fetch(engine.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    const text = await reply.text()
    expect({ path, body, status: reply.status }).toEqual({ path, body, status })
    if (status !== 200) expect(JSON.parse(text)).toEqual(answer)
  }
  expect(sessions).toHaveLength(10)
})

it('has put every other recorded request of the file', () => {
  expect(exchanges.length).toBeGreaterThan(35)
})

it('tells in /server_info what a router needs', async () => {
  const info = (await (await fetch(`${engine.url}/server_info`)).json()) as Record<string, unknown>
  expect(info).toMatchObject({
    page_size: 32,
    max_total_num_tokens: 9600,
    max_req_input_len: 9594,
    dp_size: 1,
    version: '0.5.23',
  })
  expect(Object.keys(info['kv_events'] as object)).toEqual([
    'publisher',
    'endpoint_host',
    'endpoint_port_base',
    'topic',
    'block_size',
    'dp_size',
    'replay_endpoint_port_base',
  ])
})
