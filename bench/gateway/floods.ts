/** Small requests, each of which brings V8 texts and names that it never had: one is nothing, and thousands fill the table in which it keeps them. */
import { randomFrom } from '../tokens/texts.js'

export interface FloodRequest {
  readonly path: string
  readonly body: Buffer
  readonly headers?: Readonly<Record<string, string>>
}

const [chat, completions] = ['/v1/chat/completions', '/v1/completions']

/** By what is new in them: one request of each kind, another one for every seed. */
export function floodRequests(seed: number): Readonly<Record<string, FloodRequest>> {
  const random = randomFrom(seed)
  const word = (): string => Array.from({ length: 7 }, () => String.fromCharCode(0x61 + random(26))).join('')
  const words = <T>(count: number, make: (word: string) => T): T[] => Array.from({ length: count }, () => make(word()))
  const messages = [{ role: 'user', content: `hello ${word()}` }]
  const ask = (path: string, body: object, headers?: FloodRequest['headers']): FloodRequest => ({
    path,
    body: Buffer.from(JSON.stringify({ model: 'm', ...body })),
    ...(headers && { headers }),
  })
  const named = (count: number, value: unknown): object => Object.fromEntries(words(count, (name) => [name, value]))
  return {
    'short stops': ask(chat, { messages, stop: words(3000, String) }),
    'short messages': ask(chat, { messages: words(800, (content) => ({ role: 'user', content })) }),
    'short parts': ask(chat, { messages: [{ role: 'user', content: words(900, (text) => ({ type: 'text', text })) }] }),
    'short texts': ask(completions, { prompt: words(3000, String) }),
    'names of one object': ask(chat, { messages, metadata: named(2700, 1) }),
    'names of small objects': ask(chat, { messages, metadata: words(2400, (name) => ({ [name]: 1 })) }),
    'names of a tool': ask(chat, {
      messages,
      tools: [
        { type: 'function', function: { name: 'f', parameters: { properties: named(1000, { type: 'string' }) } } },
      ],
    }),
    'a longer body': ask(chat, { messages: words(4000, (content) => ({ role: 'user', content })) }),
    'as many as are parsed': ask(chat, { messages, stop: words(60, String) }),
    'in what steers': ask(completions, { prompt: word(), sampling_params: { stop: words(250, String) } }),
    headers: ask(chat, { messages }, Object.fromEntries(words(110, (name) => [`x-${name}`, '1']))),
  }
}
