/** Every route of an engine through the real clients: whole and streamed, refused, and left in the middle. */
import Anthropic from '@anthropic-ai/sdk'
import { OpenAI } from 'openai'
import type { RealHouse } from './real-house.js'
import { eventually } from './real-house.js'

export interface Check {
  readonly name: string
  /** `absent`: the engine itself answers that it has no such route or cannot do it. */
  readonly outcome: 'pass' | 'fail' | 'absent'
  readonly note: string
}

type Try = (house: RealHouse) => Promise<string>

const messages = [
  { role: 'system' as const, content: 'You are a careful assistant. '.repeat(20) },
  { role: 'user' as const, content: 'Count.' },
]

/** What an engine answers where it lacks a route, or serves a model that cannot do it. */
const absentStatus = new Set([400, 404, 405, 501])

const checks: readonly (readonly [name: string, path: string, run: Try])[] = [
  ['models: list and retrieve', '', listModels],
  ['chat: whole', '', chatWhole],
  ['chat: stream', '', chatStream],
  ['chat: stream with usage', '', chatStreamUsage],
  ['chat: tools that may not be called', '', chatTools],
  ['completions: text, ids, batch', '', completionsWhole],
  ['completions: stream', '', completionsStream],
  ['responses: whole', '/v1/responses', responsesWhole],
  ['responses: stream', '/v1/responses', responsesStream],
  ['embeddings', '/v1/embeddings', embeddings],
  ['messages: whole', '/v1/messages', messagesWhole],
  ['messages: stream', '/v1/messages', messagesStream],
  ['messages: count tokens', '/v1/messages/count_tokens', countTokens],
  ['tokens: named and spelt again', '/tokenize', tokensThereAndBack],
  ['generate: whole', '/generate', generateWhole],
  ['errors: unknown model', '', unknownModel],
  ['errors: refused by the engine', '', engineRefuses],
  ['errors: no JSON', '', noJson],
  ['aborts: a stream is left', '', abortStream],
  ['aborts: a whole answer is not waited for', '', abortWhole],
]

export async function runClientChecks(house: RealHouse): Promise<Check[]> {
  const results: Check[] = []
  for (const [name, path, run] of checks) results.push(await check(house, name, path, run))
  return results
}

async function check(house: RealHouse, name: string, path: string, run: Try): Promise<Check> {
  try {
    return { name, outcome: 'pass', note: await run(house) }
  } catch (error) {
    const status = (error as { readonly status?: number }).status
    if (path !== '' && status !== undefined && absentStatus.has(status) && (await isAbsent(house, path, status)))
      return { name, outcome: 'absent', note: `the engine answers ${status} as well` }
    return { name, outcome: 'fail', note: String(error) }
  }
}

/** Asked directly, the engine refuses with the same status. */
async function isAbsent({ engineUrls, model }: RealHouse, path: string, status: number): Promise<boolean> {
  const ask = { model, input: 'hi', max_tokens: 4, messages: [{ role: 'user', content: 'hi' }] }
  const reply = await fetch(engineUrls[0]! + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'anthropic-version': '2023-06-01' },
    body: JSON.stringify(ask),
  })
  await reply.arrayBuffer()
  return reply.status === status
}

async function listModels({ openai, model }: RealHouse): Promise<string> {
  const ids: string[] = []
  for await (const it of openai.models.list()) ids.push(it.id)
  expectThat(ids.includes(model), `the list has ${ids.join()}`)
  expectThat((await openai.models.retrieve(model)).id === model, 'the model has another id')
  return ids.join()
}

async function chatWhole({ openai, model }: RealHouse): Promise<string> {
  const whole = await openai.chat.completions.create({ model, messages, max_tokens: 8, ...always })
  expectThat(whole.usage!.completion_tokens === 8, `${whole.usage!.completion_tokens} tokens instead of 8`)
  return `${whole.usage!.prompt_tokens} tokens in`
}

async function chatStream({ openai, model }: RealHouse): Promise<string> {
  const stream = await openai.chat.completions.create({ model, messages, max_tokens: 8, stream: true, ...always })
  let [chunks, withUsage] = [0, 0]
  for await (const chunk of stream) {
    chunks++
    if (chunk.usage) withUsage++
  }
  expectThat(chunks > 1, 'one chunk is no stream')
  expectThat(withUsage === 0, 'usage that nobody asked for reached the client')
  return `${chunks} chunks`
}

async function chatStreamUsage({ openai, model }: RealHouse): Promise<string> {
  const stream = await openai.chat.completions.create({
    model,
    messages,
    max_tokens: 4,
    stream: true,
    stream_options: { include_usage: true },
    ...always,
  })
  let usage
  for await (const chunk of stream) usage = chunk.usage ?? usage
  expectThat(usage?.completion_tokens === 4, `usage is ${JSON.stringify(usage)}`)
  return `${usage!.prompt_tokens} tokens in`
}

async function chatTools({ openai, model }: RealHouse): Promise<string> {
  const parameters = { type: 'object', properties: { x: { type: 'number', default: 1.5 } } }
  const tools = [{ type: 'function' as const, function: { name: 'f', parameters } }]
  const answer = await openai.chat.completions.create({ model, messages, tools, tool_choice: 'none', max_tokens: 2 })
  expectThat(answer.choices.length === 1, 'no choice')
  return `${answer.usage!.prompt_tokens} tokens in`
}

async function completionsWhole({ openai, model }: RealHouse): Promise<string> {
  const text = await openai.completions.create({ model, prompt: 'once', max_tokens: 3, ...always })
  expectThat(text.usage!.completion_tokens === 3, 'not three tokens')
  const ids = await openai.completions.create({ model, prompt: [301, 302, 303], max_tokens: 3 })
  expectThat(ids.usage!.prompt_tokens === 3, `${ids.usage!.prompt_tokens} tokens of three ids`)
  const batch = await openai.completions.create({ model, prompt: ['a', 'b'], max_tokens: 3 })
  expectThat(batch.choices.length === 2, 'a batch of two has no two choices')
  return 'three forms'
}

async function completionsStream({ openai, model }: RealHouse): Promise<string> {
  const stream = await openai.completions.create({ model, prompt: 'once', max_tokens: 6, stream: true, ...always })
  let chunks = 0
  for await (const _chunk of stream) chunks++
  expectThat(chunks > 1, 'one chunk is no stream')
  return `${chunks} chunks`
}

async function responsesWhole({ openai, model }: RealHouse): Promise<string> {
  const answer = await openai.responses.create({ model, input: 'Hello there', max_output_tokens: 5 })
  expectThat(answer.object === 'response', `object is ${answer.object}`)
  return `${answer.usage?.input_tokens} tokens in`
}

async function responsesStream({ openai, model }: RealHouse): Promise<string> {
  const stream = await openai.responses.create({ model, input: 'Hello there', max_output_tokens: 5, stream: true })
  const types: string[] = []
  for await (const event of stream) types.push(event.type)
  expectThat(
    types.at(-1) === 'response.completed' || types.at(-1) === 'response.incomplete',
    `ends with ${types.at(-1)}`,
  )
  return `${types.length} events`
}

async function embeddings({ openai, model }: RealHouse): Promise<string> {
  const { data } = await openai.embeddings.create({ model, input: 'hi' })
  return `${data[0]!.embedding.length} numbers`
}

async function tokensThereAndBack({ openai, url, model }: RealHouse): Promise<string> {
  const prompt = 'The sea is calm tonight.'
  const asked = { model, prompt, add_special_tokens: false }
  const { tokens } = await openai.post<{ tokens: number[] }>(`${url}/tokenize`, { body: asked })
  const spelt = await openai.post<{ prompt?: string; text?: string }>(`${url}/detokenize`, { body: { model, tokens } })
  const text = spelt.prompt ?? spelt.text // vLLM's name for it, and SGLang's
  expectThat(text?.trim() === prompt, `spelt again it is ${text}`)
  return `${tokens.length} tokens`
}

async function generateWhole({ openai, url, model }: RealHouse): Promise<string> {
  const body = { model, text: 'Once upon a time', sampling_params: { max_new_tokens: 4, ignore_eos: true } }
  const { meta_info: meta } = await openai.post<{ meta_info: { completion_tokens: number } }>(`${url}/generate`, {
    body,
  })
  expectThat(meta.completion_tokens === 4, `${meta.completion_tokens} tokens instead of 4`)
  return `${meta.completion_tokens} tokens out`
}

function anthropicOf({ url }: RealHouse): Anthropic {
  return new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 })
}

async function messagesWhole(house: RealHouse): Promise<string> {
  const hi = [{ role: 'user' as const, content: 'Hi' }]
  const whole = await anthropicOf(house).messages.create({ model: house.model, max_tokens: 6, messages: hi })
  expectThat(whole.type === 'message', `type is ${whole.type}`)
  return `${whole.usage.input_tokens} tokens in`
}

async function messagesStream(house: RealHouse): Promise<string> {
  const hi = [{ role: 'user' as const, content: 'Hi' }]
  const ask = { model: house.model, max_tokens: 6, system: 'Be brief.', messages: hi }
  const final = await anthropicOf(house).messages.stream(ask).finalMessage()
  expectThat(final.usage.output_tokens > 0, 'no output')
  return `${final.usage.output_tokens} tokens out`
}

async function countTokens(house: RealHouse): Promise<string> {
  const hi = [{ role: 'user' as const, content: 'Hi' }]
  const { input_tokens: count } = await anthropicOf(house).messages.countTokens({ model: house.model, messages: hi })
  expectThat(count > 0, 'nothing was counted')
  return `${count} tokens`
}

async function unknownModel({ openai }: RealHouse): Promise<string> {
  const error = await refusal(openai.chat.completions.create({ model: 'no-such-model', messages }))
  expectThat(error.status === 404 && error.code === 'WR_MODEL_NOT_FOUND', `${error.status} ${error.code}`)
  return '404 WR_MODEL_NOT_FOUND'
}

async function engineRefuses({ openai, model }: RealHouse): Promise<string> {
  const error = await refusal(openai.chat.completions.create({ model, messages: 'no list' as never }))
  expectThat(error.status === 400, `status ${error.status}`)
  return '400 in the engine’s own words'
}

async function noJson({ url }: RealHouse): Promise<string> {
  const headers = { 'content-type': 'application/json' }
  const reply = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body: '{"model":' })
  const body = (await reply.json()) as { readonly error?: { readonly code?: string } }
  expectThat(reply.status === 400 && body.error?.code?.startsWith('WR_') === true, JSON.stringify(body))
  return `400 ${body.error!.code}`
}

async function abortStream(house: RealHouse): Promise<string> {
  const { openai, model } = house
  const ask = { model, messages, max_tokens: 4000, stream: true as const, ...always }
  const stream = await openai.chat.completions.create(ask)
  for await (const _chunk of stream) break
  stream.controller.abort()
  return isIdleSoon(house)
}

async function abortWhole(house: RealHouse): Promise<string> {
  const { openai, model, served } = house
  const abort = new AbortController()
  const ask = { model, messages, max_tokens: 4000, ...always }
  const answer = openai.chat.completions.create(ask, { signal: abort.signal }).then(
    () => 'answered',
    () => 'aborted',
  )
  expectThat(await eventually(() => served.assembly.gateway.inFlight > 0), 'it never came to the gateway')
  abort.abort()
  expectThat((await answer) === 'aborted', 'it was answered before it could be left')
  return isIdleSoon(house)
}

/** The gateway forgets the request, and the engine stops generating, both soon. */
async function isIdleSoon({ served, engineUrls }: RealHouse): Promise<string> {
  expectThat(await eventually(() => served.assembly.gateway.inFlight === 0, 2_000), 'the gateway holds on to it')
  const started = performance.now()
  const isIdle = await eventually(async () => (await running(engineUrls)) === 0)
  expectThat(isIdle, 'the engine goes on generating')
  return `idle after ${Math.round(performance.now() - started)} ms`
}

/** Requests that run on the engines by their own count; 0 where they do not say. */
async function running(engineUrls: readonly string[]): Promise<number> {
  let sum = 0
  for (const url of engineUrls) {
    const text = await (await fetch(`${url}/metrics`)).text()
    for (const [, value] of text.matchAll(/^(?:vllm:num_requests_running|sglang:num_running_reqs)\{[^\n]*\} (\S+)$/gm))
      sum += Number(value)
  }
  return sum
}

/** Random weights end a text early or never; this makes them count to the end. */
const always = { ignore_eos: true, temperature: 0 }

async function refusal(answer: Promise<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> {
  try {
    await answer
  } catch (error) {
    if (error instanceof OpenAI.APIError) return error
    throw error
  }
  throw new Error('it was answered')
}

function expectThat(holds: boolean, otherwise: string): void {
  if (!holds) throw new Error(otherwise)
}
