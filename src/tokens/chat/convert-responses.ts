/** `/v1/responses` as the chat that each engine makes of it: as recorded of vLLM 0.32.0 and SGLang 0.5.23. */
import { inflateSync } from 'node:zlib'
import { dumps } from '../template/spell.js'
import type { Value } from '../template/values.js'
import { isDict } from '../template/values.js'
import type { EngineRules, Message, TemplateHabits } from './converted.js'
import { isText } from './converted.js'
import type { Body } from './request.js'
import { asList, asRecord, asSwitch, LoadOnlyError, malformed } from './request.js'
import { readStrictly } from './strict-json.js'

/** The conversation may lie on the engine, and then nobody else knows its tokens. */
export function refuseStored(body: Body): void {
  if (body['previous_response_id'] ?? body['conversation'] ?? body['prompt']) {
    throw new LoadOnlyError('stored-response', 'the conversation is stored by the engine')
  }
}

export function convertResponses(body: Body, { dialect }: EngineRules, habits: TemplateHabits): Body {
  refuseStored(body)
  const isSglang = dialect === 'sglang'
  const items = itemsOf(body['input'])
  const system: Message[] = isText(body['instructions']) ? [{ role: 'system', content: body['instructions'] }] : []
  const said = isSglang ? joinTurns(sglangMessages(items)) : vllmMessages(items)
  const messages = [...system, ...said]
  const tools = toolsOf(body['tools'], isSglang)
  // To vLLM's templates tools that run on the engine leave an empty list.
  const isShown = isSglang ? tools.length > 0 : listOf(body['tools']).length > 0
  const effort = effortOf(asRecord(body['reasoning']), isSglang)
  const isContinued = !isSglang && isUnfinished(items.at(-1))
  return {
    messages: isSglang ? gatherSystem(messages, habits) : messages,
    ...(isShown ? { tools, tool_choice: choiceOf(body['tool_choice']) } : {}),
    ...(effort === undefined || effort === null ? {} : { reasoning_effort: effort }),
    ...kwargsOf(body, isSglang),
    ...(isContinued ? { continue_final_message: true, add_generation_prompt: false } : {}),
  }
}

/** To SGLang reasoning without an effort is a medium one. */
function effortOf(reasoning: Body | undefined, isSglang: boolean): Value {
  const { effort } = reasoning ?? {}
  return isSglang && reasoning && effort === undefined ? 'medium' : effort
}

function kwargsOf({ reasoning, chat_template_kwargs: given }: Body, isSglang: boolean): Body {
  const { effort, reasoning_effort: other } = asRecord(reasoning) ?? {}
  // By its second name SGLang only switches thinking off.
  if (isSglang && (effort ?? other) === 'none')
    return { chat_template_kwargs: { thinking: false, enable_thinking: false, ...asRecord(given) } }
  return given === undefined ? {} : { chat_template_kwargs: given }
}

function itemsOf(input: Value): readonly Body[] {
  if (typeof input === 'string') return [{ role: 'user', content: input }]
  return asList(input, 'input').map((item) => asRecord(item) ?? malformed('an input item is an object'))
}

function typeOf(item: Body): Value {
  return item['type'] ?? 'message'
}

// ---- vLLM

/** What belongs to one turn of the assistant becomes one message, as far as it has room for it. */
function vllmMessages(items: readonly Body[]): Message[] {
  const messages: Message[] = []
  for (const item of items) {
    const last = messages.at(-1)
    const turn = last?.['role'] === 'assistant' ? last : undefined
    const add = (field: string, value: Value): void => {
      if (turn && (turn[field] === undefined || turn[field] === null)) turn[field] = value
      else messages.push({ role: 'assistant', [field]: value })
    }
    const call = callOf(item)
    if (call && turn) ((turn['tool_calls'] ??= []) as Value[]).push(call)
    else if (call) messages.push({ role: 'assistant', tool_calls: [call] })
    else if (typeOf(item) === 'reasoning') add('reasoning', vllmReasoning(item))
    else if (isOutput(item)) messages.push({ role: 'tool', content: item['output'], tool_call_id: item['call_id'] })
    else if (typeOf(item) !== 'message') malformed('an input item of a type that vLLM refuses')
    else if (item['role'] === 'assistant') add('content', firstText(item))
    else messages.push({ ...item })
  }
  return messages
}

/** Only the first part counts. */
function firstText(item: Body): Value {
  const { content } = item
  if (typeof content === 'string') return content
  const first = asRecord(asList(content, 'content')[0])
  if (first?.['type'] === 'output_text' && item['type'] !== 'message') malformed('an output that is no message')
  return typeof first?.['text'] === 'string' ? first['text'] : malformed('an assistant says a text')
}

function vllmReasoning(item: Body): Value {
  if (item['encrypted_content']) malformed('vLLM takes no encrypted reasoning')
  const first = firstOf(item['content']) ?? firstOf(asList(item['summary'], 'summary'))
  return first?.['text'] ?? ''
}

function firstOf(parts: Value): Body | undefined {
  return Array.isArray(parts) ? asRecord(parts[0] as Value) : undefined
}

/** The last message is gone on with, where it says that it is not finished. */
function isUnfinished(last: Body | undefined): boolean {
  if (!last || !['message', 'reasoning'].includes(typeOf(last) as string)) return false
  return last['status'] === 'in_progress' || last['status'] === 'incomplete'
}

// ---- SGLang

const developerLabel = 'Developer instructions:'

function sglangMessages(items: readonly Body[]): Message[] {
  let bytesLeft = unsealedBytesMax
  const unseal = (sealed: string): string[] => {
    const text = unsealed(sealed, bytesLeft)
    bytesLeft -= Buffer.byteLength(text)
    return text === '' ? [] : [text]
  }
  return items.flatMap((item) => sglangMessage(item, unseal))
}

type Unseal = (sealed: string) => string[]

function sglangMessage(item: Body, unseal: Unseal): Message[] {
  const call = callOf(item)
  if (call) return [{ role: 'assistant', tool_calls: [sglangCall(call, item)] }]
  if (isOutput(item)) {
    const { output = '' } = item
    const content = Array.isArray(output) ? textsOf(output).join('') : output
    return [{ role: 'tool', tool_call_id: item['call_id'], content }]
  }
  if (typeOf(item) === 'reasoning') {
    const texts = sglangReasoning(item, unseal)
    return texts.length === 0 ? [] : [{ role: 'assistant', reasoning_content: texts.join('\n') }]
  }
  if (typeOf(item) !== 'message') malformed('an input item of a type that SGLang refuses')
  const isDeveloper = item['role'] === 'developer'
  const said = isDeveloper ? labelled(item['content']) : item['content']
  const content = Array.isArray(said) ? said.map(sglangPart) : said
  const kept = Object.entries(item).filter(([name, value]) => !ownFields.has(name) && value !== null)
  return [
    {
      ...Object.fromEntries(kept),
      ...(content === undefined || content === null ? {} : { content }),
      ...(isDeveloper ? { role: 'system' } : {}),
    },
  ]
}

/** Of an item, not of the message that it becomes. */
const ownFields = new Set(['id', 'status', 'type', 'content'])

function sglangPart(value: Value): Value {
  const part = asRecord(value)
  if (part?.['type'] === 'refusal') malformed('SGLang takes no refusals')
  const isSaid = part?.['type'] === 'input_text' || part?.['type'] === 'output_text'
  return isSaid ? { type: 'text', text: part['text'] ?? '' } : value
}

/** A developer becomes a system that says so. */
function labelled(content: Value): Value {
  if (content === undefined || content === null) return content
  if (typeof content === 'string') return `${developerLabel}\n${content}`
  const parts = asList(content, 'content')
  const at = parts.findIndex((part) => typeof asRecord(part)?.['text'] === 'string')
  if (at < 0) return [{ type: 'text', text: developerLabel }, ...parts]
  const part = asRecord(parts[at])!
  return parts.with(at, { ...part, text: `${developerLabel}\n${part['text'] as string}` })
}

/** Arguments that are neither an object nor the JSON of one count as none. */
function sglangCall(call: Body, { call_id: callId, id }: Body): Body {
  const it = asRecord(call['function'])!
  const { arguments: given } = it
  const isKept = isDict(given) || (isText(given) && isDict(readStrictly(given)))
  return { ...call, id: isText(callId) ? callId : id, function: { ...it, arguments: isKept ? given : '{}' } }
}

function sglangReasoning(item: Body, unseal: Unseal): string[] {
  const summary = textsOf(item['summary'])
  const texts = summary.length > 0 ? summary : textsOf(item['content'])
  if (texts.length > 0) return texts
  const sealed = item['encrypted_content']
  return typeof sealed === 'string' && sealed.startsWith(sealedPrefix) ? unseal(sealed) : []
}

const sealedPrefix = 'sglang-reasoning-v1.'
/** Of one request: a few kilobytes of what is packed may be megabytes. */
const unsealedBytesMax = 4 << 20

/** What SGLang gave its client to bring back: packed, not encrypted. */
function unsealed(sealed: string, bytesMax: number): string {
  try {
    const packed = Buffer.from(sealed.slice(sealedPrefix.length), 'base64url')
    return inflateSync(packed, { maxOutputLength: Math.max(1, bytesMax) }).toString('utf8')
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE')
      throw new LoadOnlyError('too-long', 'sealed reasoning', { cause })
    return ''
  }
}

function textsOf(parts: Value): string[] {
  if (!Array.isArray(parts)) return []
  return (parts as readonly Value[]).map((part) => asRecord(part)?.['text']).filter(isText)
}

/** Messages of the assistant in a row are one turn, unless they say that they belong to different phases of it. */
function joinTurns(messages: readonly Message[]): Message[] {
  const joined: Message[] = []
  for (const message of messages) {
    const last = joined.at(-1)
    if (last && mayJoin(last, message)) joined[joined.length - 1] = joinedTurn(last, message)
    else joined.push(message)
  }
  return joined
}

function mayJoin(last: Message, next: Message): boolean {
  if (last['role'] !== 'assistant' || next['role'] !== 'assistant') return false
  const isThought = Object.keys(last).every((name) => name === 'role' || name === 'reasoning_content')
  return last['phase'] === next['phase'] || isThought
}

function joinedTurn(last: Message, next: Message): Message {
  const calls = [...listOf(last['tool_calls']), ...listOf(next['tool_calls'])]
  const [before, after] = [last['reasoning_content'], next['reasoning_content']]
  // No `join`, which would copy the thoughts of a long turn once for each of them.
  const thoughts = isText(before) && isText(after) ? `${before}\n${after}` : isText(before) ? before : after
  const content = joinedContent(last['content'], next['content'])
  return {
    ...last,
    ...(next['phase'] === undefined ? {} : { phase: next['phase'] }),
    ...(content === undefined ? {} : { content }),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
    ...(isText(thoughts) ? { reasoning_content: thoughts } : {}),
  }
}

function joinedContent(last: Value, next: Value): Value {
  const isNone = (content: Value): boolean => content === undefined || content === null || content === ''
  if (isNone(next)) return last
  if (isNone(last)) return next
  if (typeof last === 'string' && typeof next === 'string') return `${last}\n\n${next}`
  const parts = (content: Value): readonly Value[] =>
    typeof content === 'string' ? [{ type: 'text', text: content }] : listOf(content)
  return [...parts(last), ...parts(next)]
}

function listOf(value: Value): readonly Value[] {
  return Array.isArray(value) ? (value as readonly Value[]) : []
}

/** Where the template takes one system message, at the beginning, all of them become that one. */
function gatherSystem(messages: readonly Message[], habits: TemplateHabits): readonly Message[] {
  const isSystem = (message: Message): boolean => message['role'] === 'system'
  const isGathered = messages.every((it, at) => !isSystem(it) || (at === 0 && typeof it['content'] === 'string'))
  if (isGathered || habits.takesLateSystem('sglang')) return messages
  const texts = messages
    .filter(isSystem)
    .flatMap(({ content }) => (typeof content === 'string' ? [content] : listOf(content).map(textOfPart)))
    .filter((text) => text !== undefined)
  const others = messages.filter((message) => !isSystem(message))
  return texts.length === 0 ? others : [{ role: 'system', content: texts.join('\n\n') }, ...others]
}

function textOfPart(part: Value): string | undefined {
  const text = asRecord(part)?.['text']
  return typeof text === 'string' ? text : undefined
}

// ---- both

function isOutput(item: Body): boolean {
  return item['type'] === 'function_call_output' || item['type'] === 'custom_tool_call_output'
}

/** A call as a chat has it. */
function callOf(item: Body): Body | undefined {
  const { type, name, arguments: given, input, namespace } = item
  if (type !== 'function_call' && type !== 'custom_tool_call') return undefined
  if (namespace) throw new LoadOnlyError('engine-settings', 'a call inside a namespace of tools')
  const id = item['call_id'] ?? item['id']
  const called = type === 'function_call' ? given : dumps({ [customInput]: input ?? '' })
  return { id, function: { name, arguments: called }, type: 'function' }
}

/** Tools that the template gets to see: functions, and custom tools dressed as such. What runs on the engine is none of them. */
function toolsOf(value: Value, isSglang: boolean): Value[] {
  return listOf(value).flatMap((entry) => {
    const tool = asRecord(entry) ?? malformed('a tool is an object')
    const { type, name, description = null, parameters = null, strict } = tool
    if (type === 'namespace') throw new LoadOnlyError('engine-settings', 'a namespace of tools')
    if (type !== 'function' && type !== 'custom') return []
    const isCustom = type === 'custom'
    if (isSglang && isCustom && !isText(name)) return []
    const isStrict = asSwitch(strict, 'strict')
    const isDeferred = isSglang || isCustom ? undefined : asSwitch(tool['defer_loading'], 'defer_loading')
    const kept = isSglang ? (isStrict ?? false) : isCustom ? null : (isStrict ?? null)
    return [
      {
        type: 'function',
        function: {
          name,
          description: isCustom && isSglang ? sglangCustom(description, tool['format']) : description,
          parameters: isCustom ? customParameters : parameters,
          strict: kept,
          ...(isDeferred === undefined ? {} : { defer_loading: isDeferred }),
        },
      },
    ]
  })
}

/** A grammar is told to the model, not enforced. */
function sglangCustom(description: Value, format: Value): Value {
  const it = asRecord(format)
  const parts = isText(description) ? [description] : []
  if (it?.['type'] === 'grammar') {
    const [syntax, definition] = [it['syntax'], it['definition']].map((text) => (isText(text) ? text : undefined))
    parts.push(`The payload must conform to this ${syntax ?? 'lark'} grammar:\n${definition ?? ''}`)
  }
  return parts.length === 0 ? null : parts.join('\n\n')
}

const customInput = 'input'
const customParameters: Value = {
  type: 'object',
  properties: { [customInput]: { type: 'string', description: 'The freeform text payload for this tool.' } },
  required: [customInput],
  additionalProperties: false,
}

/** As a chat says it. A built-in tool cannot be forced. */
function choiceOf(value: Value): Value {
  const choice = asRecord(value)
  if (!choice) return value ?? 'auto'
  const name = choice['name'] ?? asRecord(choice['function'])?.['name']
  const isNamed = (choice['type'] === 'function' || choice['type'] === 'custom') && isText(name)
  return isNamed ? { type: 'function', function: { name } } : 'auto'
}
