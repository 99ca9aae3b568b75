/** Texts and requests that are meant to hurt a tokenizer: shared by the bench that times them and the tests that see them end. */
import { randomFrom, tinyllamaFolder, tokenizerFolder } from './texts.js'

/** Five real tokenizers of different kinds, and how one of each one's added tokens is written. */
export const bombedModels = {
  qwen3: { folder: tokenizerFolder('qwen3'), addedToken: '<|im_start|>' },
  llama3: { folder: tokenizerFolder('llama3'), addedToken: '<|begin_of_text|>' },
  deepseek_v3: { folder: tokenizerFolder('deepseek_v3'), addedToken: '<｜begin▁of▁sentence｜>' },
  gpt2: { folder: tokenizerFolder('gpt2'), addedToken: '<|endoftext|>' },
  tinyllama: { folder: tinyllamaFolder, addedToken: '</s>' },
} as const

export type BombedModel = keyof typeof bombedModels

/** By what each is made of: about `bytes` bytes of it, and another text for every seed. */
export function textBombs(model: BombedModel): Readonly<Record<string, (bytes: number, seed: number) => string>> {
  const { addedToken } = bombedModels[model]
  return {
    'one letter': full('a'),
    'one punctuation mark': full('!'),
    spaces: full(' '),
    'line ends': full('\n'),
    'one digit': full('7'),
    digits: (bytes, seed) => anyOf(0x30, 10, bytes, seed),
    letters: (bytes, seed) => anyOf(0x61, 26, bytes, seed),
    'random bytes': (bytes, seed) => randomBytes(bytes, seed).toString('latin1'),
    'random bytes, read as UTF-8': (bytes, seed) => randomBytes(bytes / 2, seed).toString('utf8'),
    'Chinese characters': (bytes, seed) => anyOf(0x4e00, 20_000, bytes / 3, seed),
    'one combining mark': full('\u0301'),
    'decomposed letters': full('e\u0301'),
    'Hangul in parts': full('\u1112\u1161\u11ab'),
    'joined emoji': full('👩\u200d'),
    'lone surrogates': full('\ud83d'),
    'marks of words': full('▁'),
    'marks in the worst order': full('\u0315\u0316'),
    'an added token': full(addedToken),
    'letters between added tokens': full(`a${addedToken}`),
    'the start of an added token': full(addedToken.slice(0, -1)),
    'the first character of an added token': full(addedToken[0]!),
  }
}

function full(part: string): (bytes: number, seed: number) => string {
  return (bytes, seed) =>
    `${part.repeat(Math.ceil(bytes / Buffer.byteLength(part)))}${String.fromCharCode(0x61 + seed)}`
}

function anyOf(first: number, count: number, length: number, seed: number): string {
  const random = randomFrom(seed)
  return Array.from({ length }, () => String.fromCharCode(first + random(count))).join('')
}

function randomBytes(length: number, seed: number): Buffer {
  const random = randomFrom(seed)
  return Buffer.from(Uint8Array.from({ length }, () => random(256)))
}

/** Chats whose templates have much to do; those that print tools print all of this. */
export function chatBombs(size: number, seed: number): Readonly<Record<string, Readonly<Record<string, unknown>>>> {
  const messages = [{ role: 'user', content: `hello ${seed}` }]
  const withParameters = (parameters: unknown): Readonly<Record<string, unknown>> => ({
    messages,
    tools: [{ type: 'function', function: { name: 'f', description: 'f', parameters } }],
  })
  const properties = Array.from({ length: size / 25 }, (_, at) => [`property_${at}_${seed}`, { type: 'string' }])
  return {
    'a huge tool schema': withParameters({ type: 'object', properties: Object.fromEntries(properties) }),
    'a tool of one long description': withParameters({ description: 'a'.repeat(size) }),
    'deeply nested tools': withParameters(nested(2000)),
    'as deep as a body may be, and wide': withParameters(Array.from({ length: size / 500 }, () => nested(100))),
    'many messages': {
      messages: Array.from({ length: size / 100 }, (_, at) => ({
        role: at % 2 ? 'assistant' : 'user',
        content: `${at} ${seed}`,
      })),
    },
    'one long message': { messages: [{ role: 'user', content: `${'好'.repeat(size / 3)}${seed}` }] },
    'many parts': {
      messages: [
        { role: 'user', content: Array.from({ length: size / 50 }, (_, at) => ({ type: 'text', text: `${at}` })) },
      ],
    },
  }
}

/** Requests that a program hands over parsed, without their bytes, of about `size` characters: nobody has read them in a thread. */
export function parsedBombs(size: number, seed: number): Readonly<Record<string, ParsedBomb>> {
  const text = `${'words of many kinds, '.repeat(size / 20 / 40)}${seed}`
  const turns = Array.from({ length: 40 }, (_, at) => ({
    role: at % 2 ? 'assistant' : 'user',
    content: `${at} ${text}`,
  }))
  const short = Array.from({ length: size / 20 }, (_, at) => ({
    role: at % 2 ? 'assistant' : 'user',
    content: `${at} ${seed}`,
  }))
  const parts = (type: string): unknown =>
    Array.from({ length: size / 40 }, (_, at) => ({ type, text: `${at} ${seed}` }))
  const { 'as deep as a body may be, and wide': wide } = chatBombs(size, seed)
  return {
    'a long chat': { route: 'chat', body: { messages: turns } },
    'very many short messages': { route: 'chat', body: { messages: short } },
    'very many parts': { route: 'chat', body: { messages: [{ role: 'user', content: parts('text') }] } },
    'a schema of very many keys': { route: 'chat', body: keyed(size / 10_000, 400, seed) },
    'an object of twenty thousand keys': { route: 'chat', body: keyed(1, size / 200, seed) },
    'deep and wide': { route: 'chat', body: wide! },
    'a long text': { route: 'completions', body: { prompt: text.repeat(40) } },
    'very many texts': { route: 'completions', body: { prompt: short.map(({ content }) => content) } },
    'very many ids': {
      route: 'completions',
      body: { prompt: Array.from({ length: size / 8 }, (_, at) => at % 50_000) },
    },
    'a long response': { route: 'responses', body: { input: turns } },
    'a response of very many parts': {
      route: 'responses',
      body: { input: [{ role: 'user', content: parts('input_text') }] },
    },
    'long messages': { route: 'messages', body: { max_tokens: 9, messages: turns } },
    'messages of very many blocks': {
      route: 'messages',
      body: { max_tokens: 9, messages: [{ role: 'user', content: parts('text') }] },
    },
  }
}

/** V8 tells the keys of an object all at once: parsing one that has very many holds its owner for longer than we do. */
function keyed(objects: number, keys: number, seed: number): Readonly<Record<string, unknown>> {
  const properties = Array.from({ length: keys }, (_, at) => [`property_${at}_${seed}`, { type: 'string' }])
  const parameters = Array.from({ length: objects }, () => ({ properties: Object.fromEntries(properties) as unknown }))
  return {
    messages: [{ role: 'user', content: 'hello' }],
    tools: [{ type: 'function', function: { name: 'f', description: 'f', parameters } }],
  }
}

export interface ParsedBomb {
  readonly route: 'chat' | 'completions' | 'responses' | 'messages'
  readonly body: Readonly<Record<string, unknown>>
}

function nested(depth: number): unknown {
  let value: unknown = 1
  for (let level = 0; level < depth; level++) value = level % 2 ? [value] : { a: value }
  return value
}
