/** Requests at random for every route, of texts and shapes that are hard on tokenizers, templates and conversions. */
import type { randomFrom } from '../../bench/tokens/texts.js'
import type { Route } from './chat/request.js'

// biome-ignore format: a list of texts
const atoms = ['a', 'e\u0301', '\u0301', '\u0315\u0316', '\u1112\u1161', '好', '😀', '👩\u200d', '\u200b', '\u202e', 'ا', '\t', ' ', '\u00a0', '\n', '\r\n', '\u0085', '0', '12', '!', "'s", '"', '\\', '{', '}', '[', '{{', '{%', '_', '▁', '<', '<|', '<|im_start|>', '<|im_end|>\n', '<think>', '</think>', '<think>\n', '<tool_call>', '</tool_call>', '<tool_response>', '</s>', '[INST]', '<unk>', '\u0000', '\ufffd', '\ud83d', 'İ', 'ß', 'the ', 'ing', '====', '    ', '<｜end▁of▁sentence｜>', '<|eot_id|>', '<|start_header_id|>']
const roles = ['user', 'assistant', 'system', 'tool']

export type Random = ReturnType<typeof randomFrom>

/** By their routes; what is too much for the loop is among them. */
export const requestsAtRandom: Readonly<Record<Route, (random: Random) => object>> = {
  chat(random) {
    const { count, bytes } = sizeOf(random)
    return {
      messages: many(count, () => message(random, bytes)),
      ...(random(3) === 0 && {
        tools: many(1 + random(5), () => ({ type: 'function', function: tool(random, 'parameters') })),
      }),
      ...(random(4) === 0 && { continue_final_message: true, add_generation_prompt: false }),
      ...settings(random),
    }
  },
  responses(random) {
    const { count, bytes } = sizeOf(random)
    return {
      input: random(8) === 0 ? text(random, bytes * count) : many(count, () => item(random, bytes)),
      ...(random(3) === 0 && { instructions: text(random, 2000) }),
      ...(random(3) === 0 && {
        tools: many(1 + random(5), () => ({ type: 'function', ...tool(random, 'parameters') })),
      }),
      ...(random(4) === 0 && { reasoning: { effort: random(2) > 0 ? 'none' : 'low' } }),
      ...settings(random),
    }
  },
  messages(random) {
    const { count, bytes } = sizeOf(random)
    return {
      max_tokens: 9,
      messages: many(count, () => turn(random, bytes)),
      ...(random(3) === 0 && { system: many(1 + random(3), () => part(random, 1000)) }),
      ...(random(3) === 0 && { tools: many(1 + random(5), () => tool(random, 'input_schema')) }),
      ...(random(4) === 0 && { thinking: { type: 'disabled' } }),
      ...settings(random),
    }
  },
  completions(random) {
    const { count, bytes } = sizeOf(random)
    const ids = (length: number): number[] => many(length, () => random(1000))
    const prompts = [
      () => text(random, bytes * count),
      () => many(count * 10, () => text(random, bytes / 10)),
      () => ids((bytes * count) / 4),
      () => many(count * 10, () => ids(bytes / 40)),
    ]
    return { prompt: prompts[random(prompts.length)]!() }
  },
}

function sizeOf(random: Random): { readonly count: number; readonly bytes: number } {
  const count = random(3) > 0 ? 1 + random(6) : 20 + random(random(4) > 0 ? 300 : 3000)
  return { count, bytes: (random(4) > 0 ? 30_000 : 400_000) / count }
}

function settings(random: Random): object {
  return {
    ...(random(6) === 0 && { chat_template_kwargs: Object.fromEntries(many(random(900), (at) => [`k${at}`, at])) }),
    ...(random(6) === 0 && { metadata: bulk(random, 20_000) }),
  }
}

function message(random: Random, bytes: number): object {
  const role = roles[random(roles.length)]!
  const content = random(4) > 0 ? text(random, bytes) : many(1 + random(20), () => part(random, bytes / 20))
  if (role === 'tool') return { role, content, tool_call_id: 'c' }
  if (role !== 'assistant' || random(2) === 0) return { role, content }
  const call = (): object => {
    const given = { a: value(random, 0) }
    return {
      id: 'c',
      type: 'function',
      function: { name: 'f', arguments: random(2) > 0 ? JSON.stringify(given) : given },
    }
  }
  return { role, content, reasoning_content: text(random, bytes / 4), tool_calls: many(1 + random(4), call) }
}

/** Of a response. */
function item(random: Random, bytes: number): object {
  const said = (): unknown => {
    const type = random(2) > 0 ? 'input_text' : 'output_text'
    return random(3) > 0 ? text(random, bytes) : many(1 + random(20), () => ({ ...part(random, bytes / 20), type }))
  }
  switch (random(8)) {
    case 0:
      return { type: 'function_call', call_id: 'c', name: 'f', arguments: JSON.stringify({ a: value(random, 0) }) }
    case 1:
      return { type: 'function_call_output', call_id: 'c', output: text(random, bytes) }
    case 2:
      return {
        type: 'reasoning',
        summary: many(random(3), () => ({ type: 'summary_text', text: text(random, bytes / 3) })),
      }
    case 3:
      return { role: 'developer', content: said() }
    case 4:
    case 5:
      return {
        type: 'message',
        role: 'assistant',
        content: said(),
        ...(random(4) === 0 && { more: bulk(random, bytes) }),
      }
    default:
      return { role: 'user', content: said(), ...(random(4) === 0 && { more: bulk(random, bytes) }) }
  }
}

/** Of Anthropic's messages. */
function turn(random: Random, bytes: number): object {
  const role = random(8) === 0 ? 'system' : random(2) > 0 ? 'user' : 'assistant'
  if (random(2) > 0) return { role, content: text(random, bytes) }
  const block = (): object => {
    const kind = random(4)
    if (role === 'system' || kind > 1) return part(random, bytes / 10)
    if (role === 'user')
      return {
        type: 'tool_result',
        tool_use_id: 'c',
        content: kind > 0 ? text(random, bytes / 10) : [part(random, bytes / 10)],
      }
    if (kind > 0) return { type: 'thinking', thinking: text(random, bytes / 10), signature: '' }
    return {
      type: 'tool_use',
      id: 'c',
      name: 'f',
      input: { a: random(3) > 0 ? value(random, 0) : bulk(random, bytes) },
    }
  }
  return { role, content: many(1 + random(10), block) }
}

function part(random: Random, bytes: number): object {
  return { type: 'text', text: text(random, bytes), ...(random(20) === 0 && { more: bulk(random, bytes) }) }
}

function tool(random: Random, schema: string): object {
  const parameters =
    random(4) > 0 ? { type: 'object', properties: value(random, 0) } : { type: 'object', all: bulk(random, 10_000) }
  return { name: text(random, 6), description: text(random, 500), [schema]: parameters }
}

/** Much of little: lists, objects, numbers as Python has them; or one in the other. */
function bulk(random: Random, bytes: number): unknown {
  const [made, size] = bulks[random(bulks.length)]!
  if (random(6) > 0) return many(bytes / size, made)
  let deep: unknown = 1
  for (let at = 0; at < Math.min(120, bytes / 2); at++) deep = random(2) > 0 ? [deep] : { a: deep }
  return deep
}

const bulks: readonly (readonly [make: (at: number) => unknown, bytes: number])[] = [
  [() => [], 3],
  [() => ({}), 3],
  [() => 1.5, 4],
  [(at) => `a${at}`, 8],
  [(at) => ({ [`n${at}`]: at }), 14],
  [() => [[{}]], 7],
  [() => null, 5],
]

function value(random: Random, depth: number): unknown {
  const kind = depth > 4 ? 0 : random(5)
  if (kind === 0) return text(random, 20 + random(200))
  if (kind === 1) return random(2) > 0 ? random(1e9) : 1.5
  if (kind === 2) return many(random(8), () => value(random, depth + 1))
  return Object.fromEntries(many(random(8), (at) => [`${text(random, 4)}${at}`, value(random, depth + 1)]))
}

/** A few atoms, over and over or in any order. */
function text(random: Random, bytes: number): string {
  const parts = many(1 + random(5), () => atoms[random(atoms.length)]!.repeat(random(4) > 0 ? 1 : 1 + random(60)))
  const period = parts.join('')
  if (random(2) > 0) return period.repeat(Math.ceil(bytes / Buffer.byteLength(period)))
  let all = ''
  while (all.length < bytes / 2) all += parts[random(parts.length)]!
  return all
}

function many<T>(count: number, make: (at: number) => T): T[] {
  return Array.from({ length: Math.floor(count) }, (_, at) => make(at))
}
