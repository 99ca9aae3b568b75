import { afterAll, beforeAll, expect, it } from 'vitest'
import { expectSameAnswer, readExchanges } from './recorded-http.case.js'
import type { SimEngine } from './sim-engine.js'
import { startSimEngine } from './sim-engine.js'
import { createSimTokenizer } from './tokenizer.js'

let plain: SimEngine
let scaleOut: SimEngine

beforeAll(async () => {
  const common = {
    engine: 'vllm',
    models: ['tiny'],
    blockTokens: 32,
    blocks: 300,
    batchedTokensMax: 2048,
    modelTokensMax: 8192,
    speedup: 1000,
    tokenizer: { ...createSimTokenizer(), vocabularySize: 32_000 },
  } as const
  plain = await startSimEngine({ ...common, isDevMode: true })
  scaleOut = await startSimEngine({
    ...common,
    models: ['tiny', 'tiny-alias'],
    isScaleOut: true,
    isRequestIdEchoed: true,
    isTokenizerInfo: true,
    events: { topic: '', bufferSteps: 4 },
  })
})

afterAll(async () => {
  await plain.close()
  await scaleOut.close()
})

/** What a simulated vLLM does not do, and why. */
const leftOut: Readonly<Record<string, string>> = {
  'get/openapi.json': 'no schema is served',
  'server_info-json': 'only the sections that routers read; checked below',
  'server_info-text': 'one line of text instead of Python objects',
  'abort-stream-after-3-chunks': 'the recording was cut by its client; checked in sim-engine.sockets.test.ts',
  'b-load-during-1-stream': 'needs a stream beside it',
}

const exchanges = readExchanges('vllm/http.jsonl.gz').filter(({ step }) => leftOut[step] === undefined)

it.each(exchanges)('answers as a real vLLM: $server $step', async (recorded) => {
  await expectSameAnswer(recorded.server === 'A' ? plain.url : scaleOut.url, recorded)
})

it('has put every other recorded request of the file', () => {
  expect(exchanges.length).toBeGreaterThan(85)
})
