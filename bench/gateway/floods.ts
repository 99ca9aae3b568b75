/** Small requests, each of which brings V8 texts and names that it never had: one is nothing, and thousands fill the table in which it keeps them. */
import { randomFrom } from '../tokens/texts.js'

export interface FloodRequest {
  readonly path: string
  readonly body: Buffer
  readonly headers?: Readonly<Record<string, string>>
}

const [chat, completions] = ['/v1/chat/completions', '/v1/completions']

/** Words that nobody had before, and what is made of them. */
interface Fresh {
  readonly words: <T>(count: number, make: (word: string) => T) => T[]
  readonly named: (count: number, value: unknown) => object
  readonly messages: readonly object[]
}

/** By what is new in them. */
const kinds: Readonly<Record<string, (fresh: Fresh) => FloodRequest>> = {
  'short stops': ({ words, messages }) => ask(chat, { messages, stop: words(3000, String) }),
  'short messages': ({ words }) => ask(chat, { messages: words(800, (content) => ({ role: 'user', content })) }),
  'short parts': ({ words }) =>
    ask(chat, { messages: [{ role: 'user', content: words(900, (text) => ({ type: 'text', text })) }] }),
  'short texts': ({ words }) => ask(completions, { prompt: words(3000, String) }),
  'names of one object': ({ named, messages }) => ask(chat, { messages, metadata: named(2700, 1) }),
  'names of small objects': ({ words, messages }) =>
    ask(chat, { messages, metadata: words(2400, (name) => ({ [name]: 1 })) }),
  'names of a tool': ({ named, messages }) => ask(chat, { messages, tools: [toolOf(named(1000, { type: 'string' }))] }),
  'a longer body': ({ words }) => ask(chat, { messages: words(4000, (content) => ({ role: 'user', content })) }),
  'as many as are parsed': ({ words, messages }) => ask(chat, { messages, stop: words(60, String) }),
  'in what steers': ({ words }) => ask(completions, { prompt: 'hello', sampling_params: { stop: words(250, String) } }),
  headers: ({ words, messages }) =>
    ask(chat, { messages }, Object.fromEntries(words(110, (name) => [`x-${name}`, '1']))),
}

export const floodNames: readonly string[] = Object.keys(kinds)

/** Another one for every seed. */
export function floodRequest(name: string, seed: number): FloodRequest {
  const random = randomFrom(seed)
  const word = (): string => Array.from({ length: 7 }, () => String.fromCharCode(0x61 + random(26))).join('')
  const words: Fresh['words'] = (count, make) => Array.from({ length: count }, () => make(word()))
  const named: Fresh['named'] = (count, value) => Object.fromEntries(words(count, (name) => [name, value]))
  return kinds[name]!({ words, named, messages: [{ role: 'user', content: `hello ${word()}` }] })
}

function ask(path: string, body: object, headers?: FloodRequest['headers']): FloodRequest {
  return { path, body: Buffer.from(JSON.stringify({ model: 'm', ...body })), ...(headers && { headers }) }
}

function toolOf(properties: object): object {
  return { type: 'function', function: { name: 'f', parameters: { properties } } }
}
