// Goal: `/v1/responses` and `/v1/messages` are routed by the tokens that the chosen engine will see, whichever engines serve a model.
// Method: simulated vLLM and SGLang with real tokenizer files on real sockets; what was predicted for each request is what the engine reports.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import { afterAll, describe, expect, it } from 'vitest'
import type { SimEngine } from '../sim/index.js'
import { loadTokenizer } from '../sim/index.js'
import type { Served } from './serve.js'
import { isExact, serveOfEachTest, settled } from './serve-house.case.js'

const { engine, start } = serveOfEachTest()

const folder = mkdtempSync(join(tmpdir(), 'warmroute-responses-'))
cpSync(fileURLToPath(new URL('../../test/fixtures/tinyllama/', import.meta.url)), folder, { recursive: true })
writeFileSync(join(folder, 'tokenizer.json'), gunzipSync(readFileSync(join(folder, 'tokenizer.json.gz'))))
afterAll(() => rmSync(folder, { recursive: true }))

interface Outcome {
  readonly worker: string
  readonly predicted: number
  readonly reported: number
}

interface Usage {
  readonly input_tokens_details?: { readonly cached_tokens?: number }
  readonly cache_read_input_tokens?: number
}

async function ask({ address }: Served, route: string, body: object, worker?: string): Promise<Outcome> {
  const pin = worker === undefined ? {} : { 'x-worker-instance-id': worker }
  const headers = { 'content-type': 'application/json', ...pin }
  const response = await fetch(`${address.url}/v1/${route}`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ model: 'sim', ...body }),
  })
  const answer = (await response.json()) as { readonly usage?: Usage }
  expect([response.status, answer.usage === undefined ? answer : 'usage']).toEqual([200, 'usage'])
  return {
    worker: response.headers.get('x-warmroute-worker-id')!,
    predicted: Number(response.headers.get('x-warmroute-cached-tokens')),
    reported: answer.usage!.input_tokens_details?.cached_tokens ?? answer.usage!.cache_read_input_tokens ?? 0,
  }
}

const user = (text: string): object => ({ role: 'user', content: text })
const long = 'The harbour was quiet, and the boats lay in the mist like sleeping animals. '.repeat(8)
const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }

const responsesTool = { type: 'function', name: 'weather', description: 'Weather of a city', parameters: schema }

/** The turns of two conversations, each longer than the one before it. */
const conversations: Readonly<Record<string, readonly object[]>> = {
  responses: [
    [user(long)],
    [
      user(long),
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Let me look.', annotations: [] }] },
    ],
    [{ type: 'function_call', call_id: 'c1', name: 'weather', arguments: '{"city": "Bonn"}' }],
    [
      { type: 'function_call_output', call_id: 'c1', output: 'rain' },
      user([
        { type: 'input_text', text: 'And' },
        { type: 'input_text', text: 'tomorrow?' },
      ] as never),
    ],
  ].map((_, at, turns) => ({
    input: [...(at > 0 ? turns.slice(1, at + 1).flat() : turns[0]!), ...(at > 0 ? [user(`Turn ${at}?`)] : [])],
    instructions: 'You are brief.',
    tools: [responsesTool],
    max_output_tokens: 8,
  })),
  messages: [
    [user(long)],
    [
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'Let me look.' },
          { type: 'tool_use', id: 'c1', name: 'weather', input: { city: 'Bonn', days: 2 } },
        ],
      },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 'c1',
            content: [
              { type: 'text', text: 'rain' },
              { type: 'text', text: 'wind' },
            ],
          },
          { type: 'text', text: 'So?' },
        ],
      },
    ],
    [
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm', signature: 's' },
          { type: 'text', text: 'Rain.' },
        ],
      },
      user('Thanks.'),
    ],
  ].map((_, at, turns) => ({
    messages: turns.slice(0, at + 1).flat(),
    system: [
      { type: 'text', text: 'You are brief.', cache_control: { type: 'ephemeral' } },
      { type: 'text', text: 'And kind.' },
    ],
    tools: [{ name: 'weather', description: 'Weather of a city', input_schema: schema }],
    max_tokens: 8,
  })),
}

async function fleetOf(kinds: readonly ('vllm' | 'sglang')[], isScaleOut: boolean): Promise<SimEngine[]> {
  const tokenizer = loadTokenizer(folder)
  const engines: SimEngine[] = []
  for (const kind of kinds) engines.push(await engine({ engine: kind, tokenizer, isScaleOut }))
  return engines
}

describe.each([
  { says: 'by files', words: ['--tokenizer', folder], isScaleOut: false },
  { says: 'by what the engines render', words: [], isScaleOut: true },
])('$says', ({ words, isScaleOut }) => {
  it.each(['responses', 'messages'])(
    'a fleet of both engines judges each worker by its own tokens: %s',
    async (route) => {
      const engines = await fleetOf(['vllm', 'sglang'], isScaleOut)
      const served = await start([...engines.map(({ url }) => url), ...words])
      expect(await served.assembly.until(isExact, 60_000)).toBe(true)
      const workers = served.assembly.reports().map(({ workerId }) => String(workerId))
      for (const [at, body] of conversations[route]!.entries())
        for (const pinned of [...workers, undefined]) {
          const outcome = await ask(served, route, body, pinned)
          await settled(served, engines)
          if (pinned !== undefined) expect(outcome.worker).toBe(pinned)
          expect({ at, pinned, ...outcome }).toEqual({ at, pinned, ...outcome, predicted: outcome.reported })
          if (at > 0) expect(outcome.reported).toBeGreaterThan(100)
        }
    },
  )
})

describe.each([
  { says: 'by files', words: ['--tokenizer', folder] },
  { says: 'by asking it', words: [] },
])('an SGLang with a reasoning parser, $says', ({ words }) => {
  const session = { thinking: { type: 'adaptive' }, output_config: { effort: 'medium' } }

  it.each(['qwen3', 'deepseek-r1', 'mistral'])('keeps a session that thinks where it is warm: %s', async (parser) => {
    const tokenizer = loadTokenizer(folder)
    const engines = [
      await engine({ engine: 'sglang', tokenizer, reasoningParser: parser }),
      await engine({ engine: 'sglang', tokenizer, reasoningParser: parser }),
    ]
    const served = await start([...engines.map(({ url }) => url), ...words])
    expect(await served.assembly.until(isExact, 60_000)).toBe(true)
    const outcomes: Outcome[] = []
    for (const body of conversations['messages']!) {
      outcomes.push(await ask(served, 'messages', { ...body, ...session }))
      await settled(served, engines)
    }
    // The last request once more: all of it is warm now, thoughts included.
    outcomes.push(await ask(served, 'messages', { ...conversations['messages']!.at(-1), ...session }))
    for (const outcome of outcomes) expect(outcome).toEqual({ ...outcome, predicted: outcome.reported })
    expect(new Set(outcomes.map(({ worker }) => worker)).size).toBe(1)
    expect(outcomes.at(-1)!.reported).toBeGreaterThan(outcomes.at(-2)!.reported)
    const metrics = await (await fetch(`${served.address.url}/metrics`)).text()
    expect(metrics).not.toContain('warmroute_load_only_prompts_total{')
  })

  it('routes by load where it has a parser that nobody knows, and says so without a cure', async () => {
    const it = await engine({ engine: 'sglang', tokenizer: loadTokenizer(folder), reasoningParser: 'muse' })
    const lines: string[] = []
    const served = await start([it.url, ...words], lines)
    expect(await served.assembly.until(isExact, 60_000)).toBe(true)
    const why = 'are routed by load: what its reasoning parser muse makes of them is not known.'
    expect(lines.filter((line) => line.includes('thoughts'))).toEqual([expect.stringContaining(why)])
    // The simulated engine knows no more than we do, and refuses what it cannot convert.
    const body = JSON.stringify({ model: 'sim', ...conversations['messages']!.at(-1), ...session })
    const headers = { 'content-type': 'application/json' }
    await (await fetch(`${served.address.url}/v1/messages`, { method: 'POST', headers, body })).text()
    const metrics = await (await fetch(`${served.address.url}/metrics`)).text()
    expect(metrics).toContain('warmroute_load_only_prompts_total{model="sim",reason="engine-settings"} 1\n')
  })
})

describe('where vLLM renders nothing and there are no files', () => {
  const plain = [
    [user(long)],
    [
      user(long),
      { role: 'assistant', content: 'Hm.' },
      user([
        { type: 'input_text', text: 'And' },
        { type: 'input_text', text: 'now?' },
      ] as never),
    ],
  ]

  it('finds out where each engine puts late system messages and what it makes of no thinking, says whom it asks, and counts it', async () => {
    const engines = await fleetOf(['vllm', 'sglang'], false)
    const served = await start(engines.map(({ url }) => url))
    expect(await served.assembly.until(isExact, 60_000)).toBe(true)
    const reports = served.assembly.reports()
    for (const { url, tokens } of reports) expect(tokens).toMatchObject({ source: 'engine', from: url, asks: 'whole' })
    const turns = [
      user(long),
      { role: 'assistant', content: 'Hm.' },
      { role: 'system', content: 'Be brief.' },
      user('And?'),
    ]
    const bodies = [{ messages: turns }, { messages: [user(long), user('No.')], thinking: { type: 'disabled' } }]
    for (const body of bodies)
      for (const { workerId } of reports) {
        await ask(served, 'messages', { ...body, max_tokens: 8 }, String(workerId))
        await settled(served, engines)
        const again = await ask(served, 'messages', { ...body, max_tokens: 8 }, String(workerId))
        expect(again).toMatchObject({ worker: String(workerId), predicted: again.reported })
        expect(again.reported).toBeGreaterThan(100)
      }
    const metrics = await (await fetch(`${served.address.url}/metrics`)).text()
    expect(metrics).not.toContain('warmroute_load_only_prompts_total{model="sim",reason="engine-settings"}')
    expect(metrics).toMatch(/warmroute_token_cache_hits_total\{cache="sglang_texts",model="sim"\} [1-9]/)
  })

  it('asks each engine to tokenize the chat that it makes of a response', async () => {
    const engines = await fleetOf(['vllm', 'sglang'], false)
    const served = await start(engines.map(({ url }) => url))
    expect(await served.assembly.until(isExact, 60_000)).toBe(true)
    const workers = served.assembly.reports().map(({ workerId }) => String(workerId))
    for (const input of plain)
      for (const worker of workers) {
        const body = { input, instructions: 'Be brief.', tools: [responsesTool], max_output_tokens: 8 }
        await ask(served, 'responses', body, worker)
        await settled(served, engines)
        const again = await ask(served, 'responses', body, worker)
        expect(again).toMatchObject({ worker, predicted: again.reported })
        expect(again.reported).toBeGreaterThan(100)
      }
  })

  it('says for which of them it cannot, and predicts nothing there', async () => {
    const [vllm, sglang] = await fleetOf(['vllm', 'sglang'], false)
    const served = await start([vllm!.url, sglang!.url])
    expect(await served.assembly.until(isExact, 60_000)).toBe(true)
    const [of, other] = served.assembly.reports().map(({ workerId }) => String(workerId)) as [string, string]
    const call = { type: 'function_call', call_id: 'c1', name: 'weather', arguments: '{"city": "Bonn"}' }
    const body = { input: [user(long), call, { type: 'function_call_output', call_id: 'c1', output: 'rain' }] }
    for (const worker of [of, other]) await ask(served, 'responses', body, worker)
    await settled(served, [vllm!, sglang!])
    expect(await ask(served, 'responses', body, of)).toMatchObject({ predicted: 0 })
    const exact = await ask(served, 'responses', body, other)
    expect(exact.predicted).toBe(exact.reported)
    expect(exact.reported).toBeGreaterThan(100)
    const metrics = await (await fetch(`${served.address.url}/metrics`)).text()
    expect(metrics).toContain('warmroute_load_only_prompts_total{model="sim",reason="engine-settings"} 4\n')
  })
})

it('says that a response which goes on with a stored one is known to nobody else, and predicts nothing', async () => {
  const engines = await fleetOf(['vllm', 'sglang'], true)
  const served = await start(engines.map(({ url }) => url))
  expect(await served.assembly.until(isExact, 60_000)).toBe(true)
  const body = JSON.stringify({ model: 'sim', input: long, previous_response_id: 'resp_1' })
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${served.address.url}/v1/responses`, { method: 'POST', headers, body })
  expect([400, 404]).toContain(response.status) // neither engine keeps responses unless it was started to
  expect(response.headers.get('x-warmroute-cached-tokens')).toBe('0')
  const metrics = await (await fetch(`${served.address.url}/metrics`)).text()
  expect(metrics).toContain('warmroute_load_only_prompts_total{model="sim",reason="stored-response"} 2\n')
})

it('goes on judging the others by their own tokens when the last engine of the usual kind has left', async () => {
  const [vllm, sglang] = await fleetOf(['vllm', 'sglang'], false)
  const served = await start([vllm!.url, sglang!.url, '--tokenizer', folder])
  expect(await served.assembly.until(isExact, 60_000)).toBe(true)
  await vllm!.close()
  expect(await served.assembly.until(([gone]) => gone!.verdict === undefined, 10_000)).toBe(true)
  for (const body of conversations['responses']!) {
    await ask(served, 'responses', body)
    const reports = () =>
      served.assembly.until((all) => all[1]!.batches === sglang!.stats().ranks[0]!.batches_numbered, 5_000)
    expect(await reports()).toBe(true)
    const again = await ask(served, 'responses', body)
    expect(again.predicted).toBe(again.reported)
    expect(again.reported).toBeGreaterThan(100)
  }
})
