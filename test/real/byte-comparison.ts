/**
 * What a client receives through the gateway against what the engine sends directly, byte for byte. An engine names and
 * dates every answer anew, so each request is first sent twice directly: what differs between those two is the engine's
 * own and is blanked by name, and the names are reported.
 */
import type { EngineKind } from '../../src/engines/index.js'
import { engineRoute } from '../../src/engines/index.js'
import type { RealHouse } from './real-house.js'

export interface ComparedRequest {
  readonly name: string
  readonly status: number
  /** `unstable`: two direct answers differ in more than names and dates, so nothing can be said. */
  readonly outcome: 'equal' | 'different' | 'unstable'
  readonly tries: number
  readonly direct: string
  readonly relayed: string
}

export interface ByteReport {
  readonly requests: readonly ComparedRequest[]
  /** Fields that were blanked. */
  readonly blanked: readonly string[]
}

interface Answer {
  readonly status: number
  readonly type: string | null
  readonly text: string
}

const triesMax = 4
const long = 'A long system prompt that every request shares. '.repeat(40)
const user = (content: unknown): object[] => [{ role: 'user', content }]
const parameters = { type: 'object', properties: { n: { type: 'number', minimum: 1.0 } } }
const tools = [{ type: 'function', function: { name: 'look', description: 'd', parameters } }]
const usage = { include_usage: true }

type Entry = readonly [path: string, body: object | string]

const chats: readonly object[] = [
  { messages: user('hi'), max_tokens: 5 },
  { messages: user('hi'), max_tokens: 5, stream: true },
  { messages: user('hi'), max_tokens: 5, stream: true, stream_options: usage },
  { messages: user('hi'), max_tokens: 5, stream: true, stream_options: { ...usage, continuous_usage_stats: true } },
  { messages: [{ role: 'system', content: long }, ...user('ünïcødé 🎉 \\ "quoted"')], max_tokens: 40, stream: true },
  { messages: [{ role: 'system', content: long }, ...user('and whole')], max_tokens: 40 },
  { messages: user('hi'), max_tokens: 3, n: 2 },
  { messages: user('hi'), max_tokens: 3, logprobs: true, top_logprobs: 2 },
  { messages: user('hi'), max_tokens: 3, tools, tool_choice: 'none' },
  { messages: user([{ type: 'text', text: 'parts' }]), max_tokens: 3 },
  { messages: user('hi'), max_tokens: 4, return_token_ids: true },
  { messages: [], max_tokens: 3 },
  { messages: 'no list', max_tokens: 3 },
  { max_tokens: 3 },
  { messages: user('hi'), max_tokens: -1 },
  { messages: user('hi'), max_tokens: 3, temperature: 'hot' },
  { messages: user('far too long '.repeat(20_000)), max_tokens: 3 },
]

const completions: readonly object[] = [
  { prompt: 'once upon a time', max_tokens: 5 },
  { prompt: 'once upon a time', max_tokens: 30, stream: true },
  { prompt: 'once upon a time', max_tokens: 6, stream: true, stream_options: usage },
  { prompt: 'once upon a time', max_tokens: 6, stop: ['e'] },
  { prompt: [301, 302, 303, 304], max_tokens: 5 },
  { prompt: ['a', 'b'], max_tokens: 5 },
  { prompt: [[301, 302], [303]], max_tokens: 5 },
  { prompt: 'echoed', max_tokens: 2, echo: true, logprobs: 1 },
  { max_tokens: 5 },
]

function corpusFor(model: string): Entry[] {
  const odd = `{ "model" : ${JSON.stringify(model)},\n"messages":[{"role":"user","content":"odd \\u0041 spacing"}] , "max_tokens":2,"temperature":0.0 }`
  return [
    ...chats.map((body): Entry => ['/v1/chat/completions', body]),
    ...completions.map((body): Entry => ['/v1/completions', body]),
    ['/v1/messages', { messages: user('hi'), max_tokens: 5 }],
    ['/v1/messages', { messages: user('hi'), max_tokens: 5, stream: true, system: long }],
    ['/v1/messages/count_tokens', { messages: user('hi') }],
    ['/v1/responses', { input: 'hi', max_output_tokens: 5 }],
    ['/v1/responses', { input: 'hi', max_output_tokens: 5, stream: true }],
    ['/v1/embeddings', { input: 'hi' }],
    ['/v1/rerank', { query: 'hi', documents: ['a', 'b'] }],
    ['/v1/score', { text_1: 'hi', text_2: 'ho' }],
    ['/pooling', { input: 'hi' }],
    ['/classify', { input: 'hi' }],
    ['/generate', { text: 'hi', sampling_params: { max_new_tokens: 4, temperature: 0 } }],
    ['/tokenize', { prompt: 'hello there' }],
    ['/tokenize', { messages: user('hello there') }],
    ['/detokenize', { tokens: [301, 302, 303] }],
    ['/v1/chat/completions', odd],
    ['/v1/chat/completions', `{"model":${JSON.stringify(model)},"messages":[`],
  ]
}

/** Our own words, where the gateway answers instead of the engine: bodies that are no JSON, routes that it does not have. */
const isOurs = ([path, body]: Entry, engine: EngineKind): boolean =>
  (typeof body === 'string' && body.endsWith('[')) || engineRoute(engine, path) === undefined

export async function compareBytes(house: RealHouse): Promise<ByteReport> {
  const blanked = new Set<string>()
  const requests: ComparedRequest[] = []
  const engine = house.served.assembly.reports()[0]?.facts?.kind.value ?? 'unknown'
  for (const [at, entry] of corpusFor(house.model).entries()) {
    if (!isOurs(entry, engine)) requests.push(await compare(house, entry, at, blanked))
  }
  return { requests, blanked: [...blanked].sort() }
}

/** The first engine is asked directly, and the gateway is told to use no other. */
async function compare(
  house: RealHouse,
  [path, body]: Entry,
  at: number,
  blanked: Set<string>,
): Promise<ComparedRequest> {
  const text =
    typeof body === 'string' ? body : JSON.stringify({ model: house.model, temperature: 0, seed: 1, ...body })
  const ask = (base: string): Promise<Answer> => post(base + path, text, `bytes-${at}`)
  const direct = house.engineUrls[0]!
  const name = `${path} ${text.length > 120 ? `${text.slice(0, 120)}…` : text}`
  await ask(direct) // the engine's cache is warm for all that follow
  for (let tries = 1; ; tries++) {
    const [first, second, relayed] = [await ask(direct), await ask(direct), await ask(house.url)]
    const [one, two, through] = [settled(first, blanked), settled(second, blanked), settled(relayed, blanked)]
    const outcome = through === one || through === two ? 'equal' : one === two ? 'different' : 'unstable'
    // A busy engine sometimes puts two tokens into one chunk; another try tells chance from change.
    if (outcome === 'equal' || tries === triesMax)
      return { name, status: first.status, outcome, tries, direct: one, relayed: through }
  }
}

async function post(url: string, body: string, requestId: string): Promise<Answer> {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-request-id': requestId,
      'x-dynamo-worker-instance-id': '1',
      'anthropic-version': '2023-06-01',
    },
    body,
    signal: AbortSignal.timeout(120_000),
  })
  return { status: response.status, type: response.headers.get('content-type'), text: await response.text() }
}

const names = /"(id|rid|item_id|call_id|response_id)":"[^"]*"/g
const dates = /"(created|created_at|completed_at|[a-z0-9_]*_latency|decode_throughput|[a-z_]*_time|[a-z_]*_ts)":[\d.]+/g

function settled({ status, type, text }: Answer, blanked: Set<string>): string {
  const blank = (value: string) => (_: string, field: string) => {
    blanked.add(field)
    return `"${field}":${value}`
  }
  return `${status} ${type}\n${text.replaceAll(names, blank('"…"')).replaceAll(dates, blank('0'))}`
}
