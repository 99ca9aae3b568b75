/** `/v1/responses` as the chat that each engine makes of it: as recorded of vLLM 0.32.0 and SGLang 0.5.23. */
import { inflateSync } from 'node:zlib'
import { entriesOf, filtered, merged } from '../../core/protocol/index.js'
import { dumps } from '../template/spell.js'
import type { Value } from '../template/values.js'
import { isDict } from '../template/values.js'
import type { EngineRules, Message, TemplateHabits } from './converted.js'
import { isText } from './converted.js'
import type { Body } from './request.js'
import { asList, asRecord, asSwitch, asValue, LoadOnlyError, malformed } from './request.js'
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
  const messages: readonly Body[] = [...system, ...said]
  const tools = toolsOf(body['tools'], isSglang)
  // To vLLM's templates tools that run on the engine leave an empty list.
  const isShown = isSglang ? tools.length > 0 : listOf(body['tools']).length > 0
  const effort = effortOf(asRecord(body['reasoning']), isSglang)
  const isContinued = !isSglang && isUnfinished(items.at(-1))
  return {
    messages: (isSglang ? gatherSystem(messages, habits) : messages).map(asValue),
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
    return { chat_template_kwargs: asValue(merged({ thinking: false, enable_thinking: false }, asRecord(given) ?? {})) }
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
function vllmMessages(items: readonly Body[]): Body[] {
  const messages: Body[] = []
  let turn: Message | undefined // of the assistant, who spoke last
  const open = (said: Message): void => {
    turn = { role: 'assistant', ...said }
    messages.push(turn)
  }
  const add = (field: string, value: Value): void => {
    if (turn && (turn[field] === undefined || turn[field] === null)) turn[field] = value
    else open({ [field]: value })
  }
  const addOther = (message: Body): void => {
    turn = undefined
    messages.push(message)
  }
  for (const item of items) {
    const call = callOf(item)
    if (call && turn) ((turn['tool_calls'] ??= []) as Value[]).push(call)
    else if (call) open({ tool_calls: [call] })
    else if (typeOf(item) === 'reasoning') add('reasoning', vllmReasoning(item))
    else if (isOutput(item)) addOther({ role: 'tool', content: item['output'], tool_call_id: item['call_id'] ?? null })
    else if (typeOf(item) !== 'message') malformed('an input item of a type that vLLM refuses')
    else if (item['role'] === 'assistant' && isSilent(item)) messages.push((turn = silentTurn(item)))
    else if (item['role'] === 'assistant') add('content', firstText(item))
    else addOther(item)
  }
  return messages
}

/** It says nothing, and is a message of its own, as it was written. */
function isSilent({ content }: Body): boolean {
  return Array.isArray(content) && content.length === 0
}

function silentTurn(item: Body): Message {
  const given = ['role', 'content', 'name', 'task', 'reasoning', 'tool_calls'].filter(
    (name) => item[name] !== undefined,
  )
  return Object.fromEntries(given.map((name) => [name, item[name]]))
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

function sglangMessages(items: readonly Body[]): Body[] {
  let bytesLeft = unsealedBytesMax
  const unseal = (sealed: string): string[] => {
    const text = unsealed(sealed, bytesLeft)
    bytesLeft -= Buffer.byteLength(text)
    return text === '' ? [] : [text]
  }
  return items.flatMap((item) => sglangMessage(item, unseal))
}

type Unseal = (sealed: string) => string[]

function sglangMessage(item: Body, unseal: Unseal): Body[] {
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
  const kept = filtered(item, (name, value) => !ownFields.has(name) && value !== null)
  return [
    merged(kept, {
      ...(content === undefined || content === null ? {} : { content }),
      ...(isDeveloper ? { role: 'system' } : {}),
    }),
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
  return parts.with(at, asValue(merged(part, { text: `${developerLabel}\n${part['text'] as string}` })))
}

/** Arguments that are neither an object nor the JSON of one count as none. */
function sglangCall(call: Body, { call_id: callId, id }: Body): Body {
  const it = asRecord(call['function'])!
  const { arguments: given } = it
  const isKept = isDict(given) || (isText(given) && isDict(readStrictly(given)))
  const kept = asValue(merged(it, { arguments: isKept ? given : '{}' }))
  return merged(call, { id: isText(callId) ? callId : id, function: kept })
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
function joinTurns(messages: readonly Body[]): Body[] {
  const joined: JoinedTurn[] = []
  for (const message of messages) {
    const last = joined.at(-1)
    if (last?.takes(message)) last.add(message)
    else joined.push(new JoinedTurn(message))
  }
  return joined.map((turn) => turn.message)
}

/** A message and what was joined to it, which is put together once: a turn may have a thousand calls. */
class JoinedTurn {
  readonly #first: Body
  readonly #more: Message = {}
  #calls: Value[] | undefined
  #parts: Value[] | undefined
  #hasOnlyThoughts: boolean | undefined

  constructor(first: Body) {
    this.#first = first
  }

  get message(): Body {
    return this.#calls ? merged(this.#first, this.#more) : this.#first
  }

  takes(next: Body): boolean {
    if (this.#field('role') !== 'assistant' || next['role'] !== 'assistant') return false
    return this.#field('phase') === next['phase'] || this.#isThought
  }

  add(next: Body): void {
    if (next['phase'] !== undefined) this.#more['phase'] = next['phase']
    const content = this.#contentWith(next['content'])
    if (content !== undefined) this.#more['content'] = content
    this.#calls ??= [...listOf(this.#first['tool_calls'])]
    for (const call of listOf(next['tool_calls'])) this.#calls.push(call)
    if (this.#calls.length > 0) this.#more['tool_calls'] = this.#calls
    const [before, after] = [this.#field('reasoning_content'), next['reasoning_content']]
    // No `join`, which would copy the thoughts of a long turn once for each of them.
    const thoughts = isText(before) && isText(after) ? `${before}\n${after}` : isText(before) ? before : after
    if (isText(thoughts)) this.#more['reasoning_content'] = thoughts
  }

  #field(name: string): Value {
    return Object.hasOwn(this.#more, name) ? this.#more[name] : this.#first[name]
  }

  get #isThought(): boolean {
    this.#hasOnlyThoughts ??= isThought(this.#first)
    return this.#hasOnlyThoughts && isThought(this.#more)
  }

  #contentWith(next: Value): Value {
    const last = this.#field('content')
    if (isNone(next)) return last
    if (isNone(last)) return next
    if (typeof last === 'string' && typeof next === 'string') return `${last}\n\n${next}`
    this.#parts ??= [...partsOf(last)]
    for (const part of partsOf(next)) this.#parts.push(part)
    return this.#parts
  }
}

function isThought(message: Body): boolean {
  for (const [name] of entriesOf(message)) if (name !== 'role' && name !== 'reasoning_content') return false
  return true
}

function isNone(content: Value): boolean {
  return content === undefined || content === null || content === ''
}

function partsOf(content: Value): readonly Value[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : listOf(content)
}

function listOf(value: Value): readonly Value[] {
  return Array.isArray(value) ? (value as readonly Value[]) : []
}

/** Where the template takes one system message, at the beginning, all of them become that one. */
function gatherSystem(messages: readonly Body[], habits: TemplateHabits): readonly Body[] {
  const isSystem = (message: Body): boolean => message['role'] === 'system'
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
