/** Looks for requests that hold the loop: chats at random, of texts that are hard on tokenizers and templates. */
import type { BombedModel } from '../../bench/tokens/bombs.js'
import { bombedModels } from '../../bench/tokens/bombs.js'
import type { LongestStretch } from '../../bench/loop-watch.js'
import { longestTurn, LoopWatch } from '../../bench/loop-watch.js'
import { randomFrom } from '../../bench/tokens/texts.js'
import type { Body } from './chat/request.js'
import { TokenService } from './token-service.js'

// biome-ignore format: a list of texts
const atoms = ['a', 'e\u0301', '\u0301', '\u0315\u0316', '\u1112\u1161', '好', '😀', '👩\u200d', '\u200b', '\u202e', 'ا', '\t', ' ', '\u00a0', '\n', '\r\n', '\u0085', '0', '12', '!', "'s", '"', '\\', '{', '}', '[', '{{', '{%', '_', '▁', '<', '<|', '<|im_start|>', '<|im_end|>\n', '<think>', '</think>', '<think>\n', '<tool_call>', '</tool_call>', '<tool_response>', '</s>', '[INST]', '<unk>', '\u0000', '\ufffd', '\ud83d', 'İ', 'ß', 'the ', 'ing', '====', '    ', '<｜end▁of▁sentence｜>', '<|eot_id|>', '<|start_header_id|>']
const roles = ['user', 'assistant', 'system', 'tool']
/** Not GPT-2, which has no template. */
const models: readonly BombedModel[] = ['qwen3', 'llama3', 'deepseek_v3', 'tinyllama']
/** The compiler needs some. */
const firstCases = 6
const deadlineMs = 20_000

type Random = (limit: number) => number

/** The longest turns of each model, with what made them. */
export async function fuzzStalls(seed: number, cases: number): Promise<string> {
  const random = randomFrom(seed)
  const service = new TokenService({ threads: 1 })
  const watch = new LoopWatch()
  const lines: string[] = []
  for (const model of models) {
    await service.setModel(model, { path: bombedModels[model].folder })
    const turns: { readonly longest: LongestStretch; readonly shown: string }[] = []
    for (let at = 0; at < cases / models.length; at++) {
      const raw = Buffer.from(JSON.stringify(chat(random)))
      const body = raw.length < 512 << 10 ? (JSON.parse(raw.toString()) as Body) : undefined
      const longest = await longestTurn(watch, () => service.tokenizeRequest(model, 'chat', body, { raw, deadlineMs }))
      if (at >= firstCases) turns.push({ longest, shown: `${raw.length} bytes, ${raw.toString('utf8', 0, 80)}` })
    }
    turns.sort((a, b) => b.longest.busyMs - a.longest.busyMs)
    for (const { longest, shown } of turns.slice(0, 3)) {
      const { busyMs, collectedMs, faults } = longest
      lines.push(`${model} ${busyMs.toFixed(1)} ms (collector ${collectedMs.toFixed(1)}, ${faults} pages): ${shown}`)
    }
  }
  await service.close()
  return lines.join('\n')
}

function chat(random: Random): object {
  const count = random(3) > 0 ? 1 + random(6) : 20 + random(300)
  const bytes = (random(4) > 0 ? 30_000 : 400_000) / count
  return {
    messages: many(count, () => message(random, bytes)),
    ...(random(3) === 0 && { tools: many(1 + random(5), () => tool(random)) }),
    ...(random(4) === 0 && { continue_final_message: true, add_generation_prompt: false }),
  }
}

function message(random: Random, bytes: number): object {
  const role = roles[random(roles.length)]!
  const part = (): object => ({ type: 'text', text: text(random, bytes / 20) })
  const content = random(4) > 0 ? text(random, bytes) : many(1 + random(20), part)
  if (role === 'tool') return { role, content, tool_call_id: 'c' }
  if (role !== 'assistant' || random(2) === 0) return { role, content }
  return {
    role,
    content,
    reasoning_content: text(random, bytes / 4),
    tool_calls: many(1 + random(4), () => call(random)),
  }
}

function call(random: Random): object {
  const given = { a: value(random, 0) }
  return {
    id: 'c',
    type: 'function',
    function: { name: 'f', arguments: random(2) > 0 ? JSON.stringify(given) : given },
  }
}

function tool(random: Random): object {
  const [name, description] = [text(random, 6), text(random, 500)]
  return { type: 'function', function: { name, description, parameters: value(random, 0) } }
}

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
  return Array.from({ length: count }, (_, at) => make(at))
}
