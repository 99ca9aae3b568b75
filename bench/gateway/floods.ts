/** Small requests, each of which brings V8 texts and names that it never had: one is nothing, and thousands fill the table in which it keeps them. */
import { randomFrom } from '../tokens/texts.js'
import { askedKinds } from './asked-floods.js'
import type { Fresh, Kind } from './flood.js'
import { ask } from './flood.js'
import type { Sent } from './send.js'

const [chat, completions] = ['/v1/chat/completions', '/v1/completions']

/** By what is new in them. */
const kinds: Readonly<Record<string, Kind>> = {
  'short stops': {
    news: 3000,
    make: ({ words, messages }, news) => ask(chat, { messages, stop: words(news, String) }),
  },
  'short messages': {
    news: 800,
    make: ({ words }, news) => ask(chat, { messages: words(news, (content) => ({ role: 'user', content })) }),
  },
  'short parts': {
    news: 900,
    make: ({ words }, news) =>
      ask(chat, { messages: [{ role: 'user', content: words(news, (text) => ({ type: 'text', text })) }] }),
  },
  'short texts': { news: 3000, make: ({ words }, news) => ask(completions, { prompt: words(news, String) }) },
  'names of one object': {
    news: 2700,
    make: ({ named, messages }, news) => ask(chat, { messages, metadata: named(news, 1) }),
  },
  'names of small objects': {
    news: 2400,
    make: ({ words, messages }, news) => ask(chat, { messages, metadata: words(news, (name) => ({ [name]: 1 })) }),
  },
  'names of a tool': {
    news: 1000,
    make: ({ named, messages }, news) => ask(chat, { messages, tools: [toolOf(named(news, { type: 'string' }))] }),
  },
  'arguments of a call': {
    news: 900,
    make: ({ named, messages }, news) => {
      const call = { id: 'c', type: 'function', function: { name: 'f', arguments: JSON.stringify(named(news, 'a')) } }
      const made = { role: 'assistant', content: 'so', tool_calls: [call] }
      return ask(chat, { messages: [...messages, made, { role: 'tool', tool_call_id: 'c', content: 'done' }] })
    },
  },
  'a longer body': {
    news: 4000,
    make: ({ words }, news) => ask(chat, { messages: words(news, (content) => ({ role: 'user', content })) }),
  },
  'as many as are parsed': {
    news: 60,
    make: ({ words, messages }, news) => ask(chat, { messages, stop: words(news, String) }),
  },
  'in what steers': {
    news: 250,
    make: ({ words }, news) => ask(completions, { prompt: 'hello', sampling_params: { stop: words(news, String) } }),
  },
  'names in what steers': {
    news: 250,
    make: ({ named }, news) => ask(completions, { prompt: 'hello', vllm_xargs: named(news, 1) }),
  },
  'wishes of a worker': {
    news: 240,
    make: ({ named, messages }, news) =>
      ask(chat, { messages, nvext: { routing_constraints: { preferred_taints: named(news, 1) } } }),
  },
  'names of fields': { news: 250, make: ({ named, messages }, news) => ask(chat, { messages, ...named(news, 1) }) },
  'fields of one text': {
    news: 250,
    make: ({ words, messages }, news) =>
      ask(chat, { messages, ...Object.fromEntries(words(news, String).map((text, at) => [`f${at}`, text])) }),
  },
  headers: {
    news: 110,
    make: ({ words, messages }, news) =>
      ask(chat, { messages }, Object.fromEntries(words(news, (name) => [`x-${name}`, '1']))),
  },
  'a turn of an agent': {
    news: 700,
    make: ({ words, messages }, news) =>
      ask(chat, { messages }, { 'x-codex-turn-metadata': JSON.stringify({ texts: words(news, String) }) }),
  },
}

const allKinds: Readonly<Record<string, Kind>> = { ...kinds, ...askedKinds }

export const floodNames: readonly string[] = Object.keys(allKinds)

/** Another one for every seed. */
export function floodRequest(name: string, seed: number): Sent {
  const random = randomFrom(seed)
  const word = (): string => Array.from({ length: 7 }, () => String.fromCharCode(0x61 + random(26))).join('')
  const words: Fresh['words'] = (count, make) => Array.from({ length: count }, () => make(word()))
  const named: Fresh['named'] = (count, value) => Object.fromEntries(words(count, (name) => [name, value]))
  const { news, make } = allKinds[name]!
  return make({ words, named, messages: [{ role: 'user', content: `hello ${word()}` }] }, news)
}

export function newsOf(name: string): number {
  return allKinds[name]!.news
}

function toolOf(properties: object): object {
  return { type: 'function', function: { name: 'f', parameters: { properties } } }
}
