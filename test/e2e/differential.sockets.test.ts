// Goal: what a client gets through the gateway is what the engine sends, byte for byte, over a corpus of requests.
// Method: the same request to the engine and through the gateway, pinned to it; only the clock may differ.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SimTask } from '../../src/sim/index.js'
import type { SimHouse } from './sim-house.js'
import { openSimHouse } from './sim-house.js'

const long = 'A long system prompt that every request shares. '.repeat(40)
const user = (content: unknown): object[] => [{ role: 'user', content }]
const tools = [
  {
    type: 'function',
    function: {
      name: 'look',
      description: 'd',
      parameters: { type: 'object', properties: { n: { type: 'number', minimum: 1.0 } } },
    },
  },
]

type Entry = readonly [path: string, body: object | string]

const corpus: readonly Entry[] = [
  ['/v1/chat/completions', { messages: user('hi'), max_tokens: 5 }],
  ['/v1/chat/completions', { messages: user('hi'), max_tokens: 5, stream: true }],
  [
    '/v1/chat/completions',
    { messages: user('hi'), max_tokens: 5, stream: true, stream_options: { include_usage: true } },
  ],
  [
    '/v1/chat/completions',
    {
      messages: user('hi'),
      max_tokens: 5,
      stream: true,
      stream_options: { include_usage: true, continuous_usage_stats: true },
    },
  ],
  [
    '/v1/chat/completions',
    {
      messages: [{ role: 'system', content: long }, ...user('ünïcødé 🎉 \u0000 \\ "quoted"')],
      max_tokens: 40,
      stream: true,
    },
  ],
  ['/v1/chat/completions', { messages: user('hi'), max_tokens: 3, n: 2 }],
  ['/v1/chat/completions', { messages: user('hi'), max_tokens: 3, n: 2, stream: true }],
  ['/v1/chat/completions', { messages: user('hi'), max_tokens: 3, tools, tool_choice: 'none' }],
  ['/v1/chat/completions', { messages: user([{ type: 'text', text: 'parts' }]), max_tokens: 3 }],
  ['/v1/chat/completions', { messages: [], max_tokens: 3 }],
  ['/v1/chat/completions', { messages: 'no list', max_tokens: 3 }],
  ['/v1/chat/completions', { max_tokens: 3 }],
  ['/v1/chat/completions', { messages: user('hi'), max_tokens: -1 }],
  ['/v1/completions', { prompt: 'once upon a time', max_tokens: 5 }],
  ['/v1/completions', { prompt: 'once upon a time', max_tokens: 30, stream: true }],
  ['/v1/completions', { prompt: [1, 2, 3, 4], max_tokens: 5 }],
  ['/v1/completions', { prompt: ['a', 'b'], max_tokens: 5 }],
  ['/v1/completions', { prompt: ['a', 'b'], max_tokens: 5, stream: true }],
  ['/v1/completions', { prompt: [[1, 2], [3]], max_tokens: 5 }],
  ['/v1/completions', { max_tokens: 5 }],
  ['/v1/messages', { messages: user('hi'), max_tokens: 5 }],
  ['/v1/messages', { messages: user('hi'), max_tokens: 5, stream: true, system: long }],
  ['/v1/messages/count_tokens', { messages: user('hi') }],
  ['/v1/responses', { input: 'hi', max_output_tokens: 5 }],
  ['/v1/responses', { input: 'hi', max_output_tokens: 5, stream: true }],
  ['/tokenize', { prompt: 'hello there' }],
  ['/detokenize', { tokens: [1, 2, 3] }],
  [
    '/v1/chat/completions',
    '{ "model" : "sim",\n"messages":[{"role":"user","content":"odd \\u0041 spacing"}] , "max_tokens":2,"temperature":1.0 }',
  ],
]

/** Under the names that both engines have. */
const poolingCorpus: readonly Entry[] = [
  ['/v1/embeddings', { input: 'hi' }],
  ['/v1/embeddings', { input: ['a', 'b'], encoding_format: 'base64' }],
  ['/v1/embeddings', { input: [] }],
  ['/v1/rerank', { query: 'hi', documents: ['a', 'b'], top_n: 1 }],
  ['/v1/rerank', { query: 'hi', documents: [] }],
  ['/v1/score', { text_1: 'hi', text_2: ['a', 'b'], query: 'hi', items: ['a', 'b'] }],
  ['/classify', { input: 'hi', text: 'hi' }],
  ['/tokenize', { prompt: 'hello there' }],
]

describe.each<{ kind: 'vllm' | 'sglang'; task: SimTask; corpus: readonly Entry[] }>(
  (['vllm', 'sglang'] as const).flatMap((kind) => [
    { kind, task: 'generate', corpus },
    { kind, task: 'embed', corpus: poolingCorpus },
    { kind, task: 'score', corpus: poolingCorpus },
  ]),
)('$kind that can $task', ({ kind, task, corpus: requests }) => {
  let house: SimHouse

  beforeAll(async () => {
    house = await openSimHouse([kind], { usageSampleEvery: 1 }, { task })
  })

  afterAll(() => house.close())

  it.each(requests.map((entry, at) => [at, ...entry] as const))(
    'request %i, %s, is the same through the gateway',
    async (at, path, body) => {
      const text = typeof body === 'string' ? body : JSON.stringify({ model: 'sim', seed: 1, temperature: 0, ...body })
      const ask = async (url: string): Promise<{ status: number; type: string | null; text: string }> => {
        const response = await fetch(url + path, {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'x-request-id': `diff-${at}` },
          body: text,
        })
        return {
          status: response.status,
          type: response.headers.get('content-type'),
          text: settled(await response.text()),
        }
      }
      await ask(house.engines[0]!.url) // the engine's cache is warm for both
      const direct = await ask(house.engines[0]!.url)
      expect(await ask(house.url)).toEqual(direct)
    },
  )
})

/** Clocks and random ids are the engine's own and differ between any two requests. */
function settled(text: string): string {
  return text
    .replaceAll(/"(created|created_at)":\d+/g, '"$1":0')
    .replaceAll(/"(id|rid|item_id)":"[^"]*"/g, '"$1":"…"')
    .replaceAll(/"([a-z0-9_]*_latency|[a-z_]*_time|[a-z_]*_ts)":[\d.]+/g, '"$1":0')
}
