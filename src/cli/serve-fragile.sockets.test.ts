// `serve` before engines that end by what a client sends: no client gets at them with it.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import { afterAll, expect, it } from 'vitest'
import { createGateway, createPolicyRouter } from '../server/index.js'
import type { SimEngine } from '../sim/index.js'
import { loadTokenizer } from '../sim/index.js'
import { serveOfEachTest } from './serve-house.case.js'

const { engine, start, open } = serveOfEachTest()

const folder = mkdtempSync(join(tmpdir(), 'warmroute-fragile-'))
cpSync(fileURLToPath(new URL('../../test/fixtures/tinyllama/', import.meta.url)), folder, { recursive: true })
writeFileSync(join(folder, 'tokenizer.json'), gunzipSync(readFileSync(join(folder, 'tokenizer.json.gz'))))
afterAll(() => rmSync(folder, { recursive: true }))
const tokenizer = loadTokenizer(folder)

const fragile = (): Promise<SimEngine> => engine({ engine: 'sglang', isFragile: true, healthMs: 1, tokenizer })

interface Said {
  readonly status: number
  readonly error?: { readonly code: string; readonly message: string }
}

async function ask(url: string, path: string, body: object): Promise<Said> {
  const headers = { 'content-type': 'application/json' }
  const init = { method: 'POST', headers, body: JSON.stringify({ model: 'sim', max_tokens: 1, ...body }) }
  const response = await fetch(url + path, init)
  return { status: response.status, ...((await response.json()) as object) }
}

async function areAlive(...engines: readonly SimEngine[]): Promise<boolean[]> {
  return Promise.all(
    engines.map(({ url }) =>
      fetch(`${url}/v1/models`).then(
        (response) => response.ok,
        () => false,
      ),
    ),
  )
}

const messages = [{ role: 'user', content: 'x' }]
/** What was seen to end a real one. */
const poison: readonly (readonly [says: string, path: string, body: object])[] = [
  ['an id that the model does not have', '/v1/completions', { prompt: [1, 999_999] }],
  ['one below zero', '/v1/completions', { prompt: [-1] }],
  ['the first one behind the last', '/v1/completions', { prompt: [32_000] }],
  ['one in a batch', '/v1/completions', { prompt: [[1], [2, 999_999]] }],
  ['one that is written as a text', '/v1/completions', { prompt: ['999999', 5] }],
  ['one in a list of its own', '/v1/completions', { prompt: [['999999']] }],
  ['one behind very many', '/v1/completions', { prompt: [...Array.from({ length: 9000 }, () => 5), 999_999] }],
  ['a prompt without ids in a batch', '/generate', { input_ids: [[]] }],
  ['one on its own route', '/generate', { input_ids: [999_999] }],
  ['one beside a chat', '/v1/chat/completions', { messages, input_ids: [999_999] }],
  ['more alternatives than there are ids', '/v1/completions', { prompt: 'x', logprobs: 1_000_000 }],
  ['more of them in a chat', '/v1/chat/completions', { messages, logprobs: true, top_logprobs: 1_000_000 }],
  ['a choice among more than 31 bits', '/v1/completions', { prompt: 'x', top_k: 2 ** 40 }],
  ['the same on its own route', '/generate', { text: 'x', sampling_params: { top_k: 2 ** 40 } }],
  ['an end that is no id', '/v1/completions', { prompt: 'x', min_tokens: 1, stop_token_ids: [999_999] }],
  [
    'the same on its own route',
    '/generate',
    { text: 'x', sampling_params: { min_new_tokens: 1, stop_token_ids: [-5] } },
  ],
  ['a beginning before the first token', '/generate', { text: 'x', return_logprob: true, logprob_start_len: -5 }],
  ['what only its own processes have a form for', '/generate', { text: 'x', positional_embed_overrides: { a: 1 } }],
  [
    'a place behind the prompt',
    '/generate',
    { text: 'x', token_indices_to_pool: [99_999], sampling_params: { max_new_tokens: 0 } },
  ],
  ['a number for each of several prompts, and one prompt', '/generate', { text: 'x', top_logprobs_num: [1, 2] }],
  ['one that is written as a text and scored', '/v1/score', { query: ['999999'], items: [[5]], label_token_ids: [5] }],
  ['one to be scored', '/v1/score', { query: [999_999], items: [[5]], label_token_ids: [5] }],
]

it.each(poison)('%s ends an engine that is asked directly', async (_says, path, body) => {
  const one = await fragile()
  await expect(ask(one.url, path, body)).rejects.toThrow('fetch failed')
  expect(await areAlive(one)).toEqual([false])
})

it('none of it reaches an engine behind serve, and the client hears what is wrong', async () => {
  const engines = [await fragile(), await fragile()]
  const { address } = await start([...engines.map(({ url }) => url), '--tokenizer', folder])
  for (const [says, path, body] of poison) {
    const said = await ask(address.url, path, body)
    expect(said, says).toMatchObject({ status: 400, error: { type: 'invalid_request_error' } })
    expect(await areAlive(...engines), says).toEqual([true, true])
  }
  expect((await ask(address.url, '/v1/completions', { prompt: [1, 31_999] })).status).toBe(200)
})

it('a worker whose kind is not known is not guarded, and its end is tried once more elsewhere', async () => {
  const engines = [await fragile(), await fragile()]
  const router = createPolicyRouter({ policy: 'round-robin' })
  const workers = engines.map(({ url }, at) => ({ id: BigInt(at + 1), url, engine: 'unknown' as const }))
  const gateway = createGateway({ listen: { port: 0 }, models: [{ name: 'sim', blockSize: 16, router, workers }] })
  open.push({ close: () => gateway.close().then(() => router.close()) })
  const { url } = await gateway.listen()
  const said = await ask(url, '/v1/completions', { prompt: [999_999] })
  expect(said).toMatchObject({ status: 502, error: { code: 'WR_ENGINE_DISCONNECTED' } })
  expect(await areAlive(...engines)).toEqual([false, false])
})
