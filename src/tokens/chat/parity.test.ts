// Goal: the tokens that a real engine reported for 44 chat requests, and for its other routes, token for token.
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { afterAll, describe, expect, it } from 'vitest'
import { loadModel } from '../model/loaded-model.js'
import { ModelTokens } from '../model/model-tokens.js'
import { TokenPool } from '../pool/pool.js'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import { parseTemplate } from '../template/parse.js'
import type { Body, Route } from './request.js'

interface Recorded {
  readonly name: string
  readonly request: Body
  readonly prompt_token_ids: readonly number[]
}

const recorded = gunzipSync(readFileSync(new URL('../../../test/fixtures/vllm/chat-parity.jsonl.gz', import.meta.url)))
  .toString('utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Recorded)

const pool = new TokenPool({ threads: 1 })
const loaded = loadModel(tinyllamaFolder, 'parity')
const vllm = new ModelTokens(loaded, pool)
const sglang = new ModelTokens(loaded, pool, { rules: { dialect: 'sglang' } })
afterAll(() => pool.close())

async function idsOf(model: ModelTokens, route: Route, body: Body): Promise<number[]> {
  const raw = new TextEncoder().encode(JSON.stringify(body))
  return [...(await model.tokenize(route, body, { raw })).ids]
}

describe('vLLM 0.32.0 chat', () => {
  it('has 44 recorded requests', () => expect(recorded).toHaveLength(44))

  it.each(recorded)('$name', async ({ request, prompt_token_ids: wanted }) => {
    expect(await idsOf(vllm, 'chat', request)).toEqual(wanted)
    expect(await idsOf(vllm, 'chat', request)).toEqual(wanted) // and from the caches
  })
})

const hello = [29966, 29989, 1792, 29989, 29958, 13, 10994, 2, 13, 29966, 29989, 465, 22137, 29989, 29958, 13]
const helloWho = [10994, 727, 29892, 1058, 526, 366, 29973, 2, 13, 29966, 29989, 465, 22137, 29989, 29958, 13]

describe('other routes of vLLM 0.32.0', () => {
  const cases: readonly { says: string; route: Route; body: Body; wanted: readonly number[] }[] = [
    {
      says: 'a completion text gets BOS',
      route: 'completions',
      body: { prompt: 'Once upon a time' },
      wanted: [1, 9038, 2501, 263, 931],
    },
    {
      says: 'completion ids are taken as they are',
      route: 'completions',
      body: { prompt: [1, 2, 3] },
      wanted: [1, 2, 3],
    },
    {
      says: 'a completion text without specials',
      route: 'completions',
      body: { prompt: 'Hello world', add_special_tokens: false },
      wanted: [15043, 3186],
    },
    { says: 'a response has BOS twice', route: 'responses', body: { input: 'Hello' }, wanted: [1, 1, ...hello] },
    {
      says: 'a message is a chat',
      route: 'messages',
      body: { max_tokens: 4, messages: [{ role: 'user', content: 'Hello there, who are you?' }] },
      wanted: [1, ...hello.slice(0, 6), ...helloWho],
    },
    {
      says: 'a message with a system text is a chat with one',
      route: 'messages',
      body: { system: 'You are terse.', messages: [{ role: 'user', content: 'Hello there, who are you?' }] },
      wanted: recorded.find((it) => it.name === 'system+user')!.prompt_token_ids,
    },
  ]
  it.each(cases)('$says', async ({ route, body, wanted }) => {
    expect(await idsOf(vllm, route, body)).toEqual(wanted)
  })
})

describe('SGLang 0.5.23', () => {
  it('encodes a chat without special tokens around it', async () => {
    const body = { messages: [{ role: 'user', content: 'Hello there' }] }
    expect(await idsOf(sglang, 'chat', body)).toEqual([1, ...hello.slice(0, 7), 727, ...hello.slice(7)])
  })

  it('encodes a response as a chat: 17 tokens, one BOS', async () => {
    expect(await idsOf(sglang, 'responses', { input: 'Hello' })).toEqual([1, ...hello])
  })

  it('renders no tools where none may be chosen, and one where it must be', async () => {
    const tool = (name: string): Body => ({ type: 'function', function: { name } })
    const messages = [{ role: 'user', content: 'x' }]
    const plain = await idsOf(sglang, 'chat', { messages })
    expect(await idsOf(sglang, 'chat', { messages, tools: [tool('a')], tool_choice: 'none' })).toEqual(plain)
    const one = await idsOf(sglang, 'chat', { messages, tools: [tool('b')] })
    const choice = { type: 'function', function: { name: 'b' } }
    expect(await idsOf(sglang, 'chat', { messages, tools: [tool('a'), tool('b')], tool_choice: choice })).toEqual(one)
  })

  it('continues a message by encoding it behind the generation prompt', async () => {
    const first = await idsOf(sglang, 'chat', { messages: [{ role: 'user', content: 'Hello' }] })
    const messages = [
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: 'The answer is' },
    ]
    const continued = await idsOf(sglang, 'chat', { messages, continue_final_message: true })
    expect(continued).toEqual([...first, ...(await vllm.encode('The answer is', false))])
  })
})

describe('numbers keep their spelling', () => {
  it('writes 1.0 of a tool schema as 1.0, and keys of digits in their order', async () => {
    const raw =
      '{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"b":1.0,"2":1e3,"1":12345678901234567890}}}]}'
    const text =
      '<s><|tools|>\n{"type": "function", "function": {"name": "f", "description": null, "parameters": {"b": 1.0, "2": 1000.0, "1": 12345678901234567890}}}\n</s>\n<|user|>\nx</s>\n<|assistant|>\n'
    const tokens = await vllm.tokenize('chat', JSON.parse(raw) as Body, { raw: new TextEncoder().encode(raw) })
    expect([...tokens.ids]).toEqual([...(await vllm.encode(text, false))])
    expect(tokens.exactness).toBe('proven')
  })
})

describe('a body is read as Python reads it', () => {
  const source = '{% for m in messages %}{{ m | tojson }}{% endfor %}{{ enable_thinking }}'
  const printing = {
    ...loaded,
    key: 'printing',
    templates: [{ name: 'default', source, parsed: parseTemplate(source) }],
  }
  const textOf = async (raw: string, dialect: 'vllm' | 'sglang', text: string): Promise<void> => {
    const model = new ModelTokens(printing, pool, { rules: { dialect } })
    const tokens = await model.tokenize('chat', JSON.parse(raw) as Body, { raw: new TextEncoder().encode(raw) })
    expect([...tokens.ids]).toEqual([...(await model.encode(text, false))])
  }

  it('where a message brings tools of its own', () =>
    textOf(
      '{"messages":[{"role":"system","content":"","tools":[{"function":{"name":"f","parameters":{"a":1.0}}}]}]}',
      'sglang',
      '{"role": "system", "content": "", "tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": 1.0}, "description": null}, "defer_loading": null}]}',
    ))

  it.each(['vllm', 'sglang'] as const)('where keys of digits stand beside those that we read: %s', (dialect) =>
    textOf(
      '{"messages":[{"role":"user","content":"x","7":1}],"chat_template_kwargs":{"enable_thinking":false,"1":2},"9":3}',
      dialect,
      '{"role": "user", "content": "x"}False',
    ),
  )

  it('where a call is nested more deeply than we read', async () => {
    const deep = `{"a": ${'['.repeat(600)}${']'.repeat(600)}}`
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: deep } }
    const body = { messages: [{ role: 'assistant', content: 'x', tool_calls: [call] }] }
    for (const model of [vllm, sglang])
      await expect(model.tokenize('chat', body)).rejects.toMatchObject({ reason: 'too-long' })
  })
})

describe('what cannot be known says why', () => {
  const user = (content: Body[string]): Body => ({ messages: [{ role: 'user', content }] })
  const cases: readonly { says: string; route: Route; body: Body; reason: string }[] = [
    {
      says: 'an image',
      route: 'chat',
      body: user([{ type: 'image_url', image_url: { url: 'data:' } }]),
      reason: 'media-image',
    },
    {
      says: 'an audio part',
      route: 'chat',
      body: user([{ type: 'input_audio', input_audio: {} }]),
      reason: 'media-audio',
    },
    {
      says: 'a video part',
      route: 'chat',
      body: user([{ type: 'video_url', video_url: { url: 'x' } }]),
      reason: 'media-video',
    },
    { says: 'a file', route: 'chat', body: user([{ type: 'file', file: {} }]), reason: 'media-other' },
    {
      says: 'an Anthropic image',
      route: 'messages',
      body: user([{ type: 'image', source: {} }]),
      reason: 'media-image',
    },
    {
      says: 'a response that continues a stored one',
      route: 'responses',
      body: { input: 'x', previous_response_id: 'r' },
      reason: 'stored-response',
    },
    { says: 'prompt vectors', route: 'completions', body: { prompt_embeds: 'AAAA' }, reason: 'embeddings' },
    {
      says: 'a template in the request',
      route: 'chat',
      body: { ...user('x'), chat_template: '{{ 1 }}' },
      reason: 'request-template',
    },
    { says: 'an empty tool list', route: 'chat', body: { ...user('x'), tools: [] }, reason: 'malformed' },
    { says: 'a prompt of another kind', route: 'completions', body: { prompt: { a: 1 } }, reason: 'malformed' },
    { says: 'a negative token id', route: 'completions', body: { prompt: [1, -2] }, reason: 'malformed' },
    {
      says: 'continue_final_message with a generation prompt',
      route: 'chat',
      body: { ...user('x'), continue_final_message: true, add_generation_prompt: true },
      reason: 'malformed',
    },
    { says: 'no messages', route: 'chat', body: {}, reason: 'malformed' },
  ]
  it.each(cases)('$says', async ({ route, body, reason }) => {
    await expect(vllm.tokenize(route, body)).rejects.toMatchObject({ reason })
  })
})

describe.each([
  ['image', ['image', 'image_url', 'image_pil', 'image_embeds', 'input_image'], 'image_data'],
  ['audio', ['audio', 'audio_url', 'audio_embeds', 'input_audio'], 'audio_data'],
  ['video', ['video', 'video_url', 'input_video'], 'video_data'],
] as const)('%s parts are load-only, with that reason', (kind, types, beside) => {
  const reason = `media-${kind}`

  it.each(types)('%s, between texts, for vLLM and SGLang', async (type) => {
    const part = { type, [type]: { url: 'data:;base64,AAAA', data: 'AAAA', format: 'wav' } }
    const messages = [
      { role: 'user', content: [{ type: 'text', text: 'before' }, part, { type: 'text', text: 'after' }] },
    ]
    for (const model of [vllm, sglang])
      await expect(model.tokenize('chat', { messages })).rejects.toMatchObject({ reason })
  })

  it('beside token ids, which the engine replaces in part', async () => {
    const body = { input_ids: [1, 2, 3], [beside]: 'data:;base64,AAAA' }
    await expect(sglang.tokenize('chat', body)).rejects.toMatchObject({ reason })
  })
})

it('takes token ids that the request carries', async () => {
  const tokens = await vllm.tokenize('chat', { messages: [], nvext: { token_data: [5, 6, 7] } })
  expect([...tokens.ids]).toEqual([5, 6, 7])
  expect(tokens.source).toBe('request')
})

it.each(['input_ids', 'prompt_token_ids'])(
  'reads %s beside messages where the engine does, and nowhere else',
  async (field) => {
    const { request, prompt_token_ids: rendered } = recorded.find((it) => it.name === 'system+user')!
    const body = { ...request, [field]: [5, 6, 7] } as Body
    expect([...(await vllm.tokenize('chat', body)).ids]).toEqual(rendered)
    const ids = [...(await sglang.tokenize('chat', body)).ids]
    if (field === 'input_ids') expect(ids).toEqual([5, 6, 7])
    else expect(ids.length).toBeGreaterThan(3)
    expect([...(await sglang.tokenize('completions', { prompt: 'Hello world', [field]: [5, 6, 7] })).ids]).toEqual([
      1, 15043, 3186,
    ])
  },
)

it('counts the tokens of every prompt of a batch', async () => {
  const tokens = await vllm.tokenize('completions', { prompt: ['Hello world', 'Once upon a time'] })
  expect([...tokens.ids]).toEqual([1, 15043, 3186])
  expect(tokens).toMatchObject({ promptCount: 2, totalCount: 8 })
})
