/**
 * Has the engine the tokens that we make of the same request? Asked once when a tokenizer is loaded, since a folder of another
 * model loads as well as the right one, and a template that is a day older renders as well: nothing else would show it.
 */
import type { Body, Route } from '../chat/request.js'
import type { TokenSource } from '../sources/source.js'

const deadlineMs = 2_000
/** SGLang's tokenize endpoint has the ids of a rendered chat, though it encodes some again before it computes. */
const asToldByTokenize = { encodesAgain: undefined }

export interface Comparison {
  /** Requests of which both sides said the tokens. */
  readonly compared: number
  /** How one of them differs, in words. */
  readonly difference: string | undefined
}

export async function compareWithEngine(
  ours: TokenSource,
  engine: TokenSource,
  model: string,
  signal?: AbortSignal,
): Promise<Comparison> {
  const answers = await Promise.all(
    samplesOf(model).map(async ({ name, route, body }) => {
      const [own, its] = await Promise.all([idsOf(ours, route, body, signal), idsOf(engine, route, body, signal)])
      return own && its && { difference: differenceOf(name, own, its) }
    }),
  )
  signal?.throwIfAborted()
  const compared = answers.filter((it) => it !== undefined)
  return {
    compared: compared.length,
    difference: compared.find(({ difference }) => difference !== undefined)?.difference,
  }
}

/** Nobody's answer is not a difference: many engines cannot say how they tokenize a chat. */
async function idsOf(
  source: TokenSource,
  route: Route,
  body: Body,
  signal: AbortSignal | undefined,
): Promise<Uint32Array | undefined> {
  try {
    return (await source.tokenize(route, body, { deadlineMs, signal, rules: asToldByTokenize })).ids
  } catch {
    return undefined
  }
}

function differenceOf(name: string, own: Uint32Array, its: Uint32Array): string | undefined {
  const shared = Math.min(own.length, its.length)
  let at = 0
  while (at < shared && own[at] === its[at]) at++
  if (at === own.length && at === its.length) return undefined
  return `of ${name} the engine makes ${its.length} tokens and this tokenizer ${own.length}, and token ${at + 1} is the first that differs`
}

function samplesOf(model: string): { readonly name: string; readonly route: Route; readonly body: Body }[] {
  const user = { role: 'user', content: 'Naïve café, 東京 20261105  12:45, ½?\n\tfor (let i = 0; i < 10; i++) {}' }
  const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
  const tool = { type: 'function', function: { name: 'weather', description: 'Weather of a city', parameters } }
  const turns = [
    { role: 'system', content: 'You are brief.' },
    user,
    { role: 'assistant', content: 'Twice a day.' },
    { role: 'user', content: 'And at night?' },
  ]
  return [
    { name: 'a text', route: 'completions', body: { model, prompt: user.content } },
    { name: 'a plain chat', route: 'chat', body: { model, messages: [user] } },
    { name: 'a chat with tools', route: 'chat', body: { model, messages: [user], tools: [tool] } },
    { name: 'a chat of several turns', route: 'chat', body: { model, messages: turns } },
  ]
}
