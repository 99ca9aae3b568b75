// Goal: models that pool answer as recorded from real servers, and so do SGLang's routes of OpenAI and Anthropic.
// Method: every recorded exchange is put to a simulated server of the same task: same status, headers and shape.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { RecordedExchange } from './recorded-http.case.js'
import { expectSameAnswer, readExchanges } from './recorded-http.case.js'
import type { SimEngine } from './sim-engine.js'
import { startSimEngine } from './sim-engine.js'
import type { SimEngineOptions } from './sim-options.js'
import { createSimTokenizer } from './tokenizer.js'

/** What a simulated server does not do, and why. */
const leftOut: Readonly<Record<string, string>> = {
  'get/openapi.json': 'no schema is served',
  'embeddings-bad-format': 'a real vLLM says it of each variant of the body',
  'get/model_info': 'fewer keys: nothing about embeddings',
  'get/get_model_info': 'fewer keys: nothing about embeddings',
}

/** Their message shows files of the real server; what is before it is the same. */
const showsFiles = (recorded: RecordedExchange): boolean => recorded.response_text.includes('<site-packages>')

describe.each([
  { engine: 'vllm', task: 'embed', file: 'vllm/pooling', count: 50 },
  { engine: 'vllm', task: 'score', file: 'vllm/pooling', count: 50 },
  { engine: 'vllm', task: 'classify', file: 'vllm/pooling', count: 50 },
  { engine: 'sglang', task: 'embed', file: 'sglang/pooling', count: 40 },
  { engine: 'sglang', task: 'classify', file: 'sglang/pooling', count: 40 },
  { engine: 'sglang', task: 'generate', file: 'sglang/http', count: 35 },
] as const)('a simulated $engine that can $task', ({ engine, task, file, count }) => {
  let server: SimEngine
  const exchanges = readExchanges(`${file}.jsonl.gz`).filter(
    (recorded) => recorded.server === task && leftOut[recorded.step] === undefined,
  )

  beforeAll(async () => {
    const options: SimEngineOptions = {
      engine,
      task,
      models: [task === 'generate' ? 'tiny' : 'pool'],
      root: task === 'classify' && engine === 'sglang' ? './sgseq' : './sgmodel',
      blockTokens: 32,
      blocks: 300,
      modelTokensMax: engine === 'vllm' ? 2048 : 16_384,
      speedup: 1000,
      healthMs: 1,
      tokenizer: { ...createSimTokenizer(), vocabularySize: 32_000 },
    }
    server = await startSimEngine(options)
  })
  afterAll(() => server.close())

  it.each(exchanges)('answers as a real one: $step', async (recorded) => {
    if (!showsFiles(recorded)) return void (await expectSameAnswer(server.url, recorded))
    const { method, path, headers, body } = recorded.request
    const reply = await fetch(server.url + path, { method, headers: { ...headers }, body: JSON.stringify(body) })
    expect(reply.status).toBe(recorded.status)
    expect(Object.keys((await reply.json()) as object)).toEqual(
      Object.keys(JSON.parse(recorded.response_text) as object),
    )
  })

  it('has put every other recorded request of the file', () => {
    expect(exchanges.length).toBeGreaterThan(count)
  })
})

it('an SGLang that pools goes down with the first request for text, as a real one does', async () => {
  const server = await startSimEngine({ engine: 'sglang', task: 'embed', healthMs: 1 })
  const ask = fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sim', messages: [{ role: 'user', content: 'x' }] }),
  })
  await expect(ask).rejects.toThrow()
  await expect(fetch(`${server.url}/health`)).rejects.toThrow()
  await server.close()
})
