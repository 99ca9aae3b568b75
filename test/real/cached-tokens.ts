/** Predicted against reported cached tokens, request by request, through the gateway and with the real client. */
import type OpenAI from 'openai'
import type { RealHouse } from './real-house.js'

export interface CachedRow {
  readonly route: string
  readonly worker: string
  readonly promptTokens: number
  readonly predicted: number
  readonly reported: number
}

export interface CachedReport {
  readonly rows: readonly CachedRow[]
  readonly equal: number
  readonly hits: number
  readonly cachedTokens: number
  readonly promptTokens: number
  /** Requests at once: reported minus predicted tokens, and how often. */
  readonly concurrent: readonly (readonly [difference: number, requests: number])[]
}

interface Asked {
  readonly usage: { readonly prompt_tokens: number; readonly cached: number }
  readonly response: Response
}

type Messages = OpenAI.ChatCompletionMessageParam[]

interface Mix {
  readonly random: () => number
  readonly chats: Messages[]
}

const topics = ['tides', 'bread', 'clocks', 'moss']
const turnsMax = 12

/** Growing chats over four system prompts, plain and streamed, beside completions of text and of token ids. */
export async function compareCached(house: RealHouse, requests: number, concurrent: number): Promise<CachedReport> {
  const mix: Mix = { random: newRandom(7), chats: [] }
  const rows: CachedRow[] = []
  for (let at = 0; at < requests; at++) {
    rows.push(await ask(house, mix))
    await house.settle()
  }
  const differences = new Map<number, number>()
  const atOnce = Array.from({ length: concurrent }, () => ask(house, mix))
  for (const { predicted, reported } of await Promise.all(atOnce))
    differences.set(reported - predicted, (differences.get(reported - predicted) ?? 0) + 1)
  const sum = (of: (row: CachedRow) => number): number => rows.reduce((total, row) => total + of(row), 0)
  return {
    rows,
    equal: sum((row) => (row.predicted === row.reported ? 1 : 0)),
    hits: sum((row) => (row.reported > 0 ? 1 : 0)),
    cachedTokens: sum((row) => row.reported),
    promptTokens: sum((row) => row.promptTokens),
    concurrent: [...differences].sort(([a], [b]) => a - b),
  }
}

async function ask(house: RealHouse, mix: Mix): Promise<CachedRow> {
  const [route, asked] = await oneOf(house, mix)
  const { usage, response } = asked
  return {
    route,
    worker: response.headers.get('x-warmroute-worker-id') ?? '?',
    promptTokens: usage.prompt_tokens,
    predicted: Number(response.headers.get('x-warmroute-cached-tokens')),
    reported: usage.cached,
  }
}

async function oneOf(house: RealHouse, mix: Mix): Promise<[string, Asked]> {
  switch (mix.random() % 6) {
    case 0:
      return ['completions, text', await completeText(house, mix)]
    case 1:
      return ['completions, token ids', await completeIds(house, mix)]
    case 2:
      return ['chat, stream', await chatStream(house, mix)]
    default:
      return ['chat', await chat(house, mix)]
  }
}

/** A conversation under way, or a new one over a shared system prompt. */
function nextChat({ random, chats }: Mix): Messages {
  const known = chats[random() % 6]
  const messages: Messages = known ?? [
    { role: 'system', content: `You know all about ${topics[random() % 4]}. `.repeat(25) },
  ]
  if (!known) chats.push(messages)
  else if (messages.length > turnsMax) chats.splice(chats.indexOf(messages), 1)
  messages.push({ role: 'user', content: `Question ${random() % 1000}: ${'why '.repeat(random() % 40)}?` })
  return messages
}

async function chat({ openai, model }: RealHouse, mix: Mix): Promise<Asked> {
  const messages = nextChat(mix)
  const { data, response } = await openai.chat.completions
    .create({ model, messages: [...messages], max_tokens: 1 + (mix.random() % 40), temperature: 0 })
    .withResponse()
  messages.push({ role: 'assistant', content: data.choices[0]!.message.content ?? '' })
  return { usage: usageOf(data.usage), response }
}

async function chatStream({ openai, model }: RealHouse, mix: Mix): Promise<Asked> {
  const messages = nextChat(mix)
  const { data, response } = await openai.chat.completions
    .create({
      model,
      messages: [...messages],
      max_tokens: 1 + (mix.random() % 40),
      temperature: 0,
      stream: true,
      stream_options: { include_usage: true },
    })
    .withResponse()
  let text = ''
  let usage
  for await (const chunk of data) {
    text += chunk.choices[0]?.delta.content ?? ''
    usage = chunk.usage ?? usage
  }
  messages.push({ role: 'assistant', content: text })
  return { usage: usageOf(usage), response }
}

async function completeText({ openai, model }: RealHouse, { random }: Mix): Promise<Asked> {
  const prompt = `Once upon a time number ${random() % 5} ${'there was a story '.repeat(5 + (random() % 60))}`
  const { data, response } = await openai.completions
    .create({ model, prompt, max_tokens: 1 + (random() % 20), temperature: 0 })
    .withResponse()
  return { usage: usageOf(data.usage), response }
}

/** Half of them whole blocks of 16 and 32: the engine computes the last block of such a prompt again. */
async function completeIds({ openai, model }: RealHouse, { random }: Mix): Promise<Asked> {
  const family = random() % 5
  const length = random() % 2 === 0 ? 32 * (1 + (random() % 8)) : 20 + (random() % 400)
  const prompt = Array.from({ length }, (_, at) => 300 + ((at * 7 + family * 1013) % 3_000))
  const { data, response } = await openai.completions
    .create({ model, prompt, max_tokens: 1 + (random() % 20), temperature: 0 })
    .withResponse()
  return { usage: usageOf(data.usage), response }
}

function usageOf(usage: OpenAI.CompletionUsage | null | undefined): Asked['usage'] {
  return { prompt_tokens: usage?.prompt_tokens ?? 0, cached: usage?.prompt_tokens_details?.cached_tokens ?? 0 }
}

function newRandom(seed: number): () => number {
  let draw = seed
  return () => (draw = (Math.imul(draw, 1_103_515_245) + 12_345) >>> 0) >>> 8
}
