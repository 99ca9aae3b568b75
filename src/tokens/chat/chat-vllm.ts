/** How vLLM shapes a chat before its template sees it. Follows vLLM 0.32.0; every rule here is in the recorded requests. */
import { filtered, merged } from '../../core/protocol/index.js'
import { JsonError, parsePythonJson } from '../template/python-json.js'
import type { Value } from '../template/values.js'
import { isDict, isTrue } from '../template/values.js'
import type { ContentFormat } from './content-format.js'
import { mediaError } from './media.js'
import type { Body, ChatPrompt, ChooseTemplate } from './request.js'
import { asList, asRecord, asSwitch, asValue, isCutAtLimit, isSwitch, malformed, readTruncation } from './request.js'

/**
 * `/v1/chat/completions`, or a route that was turned into one. What comes as a chat is parsed by a schema, which puts the fields of a
 * call into its own order; responses are turned into messages behind it.
 */
export function buildVllmChat(body: Body, choose: ChooseTemplate, isParsed = true): ChatPrompt {
  const shown = shapeTools(body['tools'])
  const kwargs = kwargsOf(body)
  const tools = toolsArgument(kwargs['tools']) ?? shown
  const chosen = choose(tools !== null, 'vllm')
  const { formats, knowsDeveloper } = chosen
  const continueFinalMessage = switchOf(body, 'continue_final_message') ?? false
  const addGenerationPrompt = switchOf(body, 'add_generation_prompt') ?? true
  if (continueFinalMessage && addGenerationPrompt) {
    malformed('continue_final_message and add_generation_prompt exclude each other')
  }
  return {
    kind: 'chat',
    render: {
      messages: shapeMessages(body['messages'], formats.vllm, knowsDeveloper, isParsed),
      tools,
      documents: body['documents'] ?? kwargs['documents'] ?? null,
      addGenerationPrompt,
      continueFinalMessage,
      kwargs,
    },
    chosen,
    suffix: undefined,
    addSpecialTokens: (switchOf(body, 'add_special_tokens') ?? false) && !isEncodedAsRendered(body),
    truncation: readTruncation(body, 'vllm'),
    isProven: (!isParsed || !hasObjectArguments(body['messages'])) && !isCutAtLimit(body, 'vllm'),
  }
}

function switchOf(body: Body, name: string): boolean | undefined {
  return body[name] === null ? malformed(`${name} is true or false`) : asSwitch(body[name], name)
}

/** Among a template's arguments, `tokenize` has the renderer encode what it rendered, without special tokens and whatever else says otherwise. */
export function isEncodedAsRendered(body: Body): boolean {
  const tokenize = asRecord(body['chat_template_kwargs'])?.['tokenize']
  return tokenize !== 'auto' && isTrue(tokenize)
}

/** transformers makes a list of what it is given for tools, and takes nothing but objects in it. */
function toolsArgument(value: Value): Value {
  if (value === undefined || Array.isArray(value)) return value
  return isTrue(value) ? malformed('tools is a list') : []
}

/** The request's own, then its other fields; what is null or "auto" counts as not given. */
function kwargsOf(body: Body): Body {
  const own = asRecord(body['chat_template_kwargs']) ?? {}
  if (Object.hasOwn(own, 'messages')) malformed('chat_template_kwargs has messages')
  const effort = body['reasoning_effort']
  const implied: Body =
    effort === undefined || effort === null
      ? {}
      : {
          reasoning_effort: effort,
          ...(Object.hasOwn(own, 'enable_thinking') ? {} : { enable_thinking: effort !== 'none' }),
        }
  return filtered(
    merged(own, implied),
    (name, value) => value !== null && value !== 'auto' && !renderingSettings.has(name),
  )
}

/** Arguments of `apply_chat_template` itself: it takes them for its own, and no template sees them. */
const renderingSettings = new Set([
  'continue_final_message',
  'max_length',
  'padding',
  'return_assistant_tokens_mask',
  'return_dict',
  'return_tensors',
  'tokenizer_kwargs',
  'truncation',
])

/** vLLM 0.32.0 refuses calls whose arguments are not spelled as JSON; others are rendered as what they say. */
function hasObjectArguments(messages: Value): boolean {
  return asList(messages, 'messages').some((message) => {
    const calls = asRecord(message)?.['tool_calls']
    return (
      Array.isArray(calls) &&
      calls.some((call) => typeof asRecord(asRecord(call as Value)?.['function'])?.['arguments'] !== 'string')
    )
  })
}

/** Tools go through the engine's schema: its keys, in its order, with nulls for what is missing. */
export function shapeTools(value: Value): Value {
  if (value === undefined || value === null) return null
  const tools = asList(value, 'tools')
  return tools.map((entry) => {
    const tool = asRecord(entry) ?? malformed('a tool is an object')
    const it = asRecord(tool['function']) ?? malformed('a tool has a function')
    const { name, description = null, parameters = null } = it
    const isDeferred = asSwitch(tool['defer_loading'], 'defer_loading') ?? null
    return {
      type: tool['type'] ?? 'function',
      function: {
        name,
        description,
        parameters,
        ...unlessNull('strict', asSwitch(it['strict'], 'strict') ?? null),
        ...unlessNull('defer_loading', asSwitch(it['defer_loading'], 'defer_loading') ?? isDeferred),
      },
      ...unlessNull('defer_loading', isDeferred),
    }
  })
}

/**
 * Tools that a developer brings: in the order of another schema, and with nothing for what is missing. Where that schema takes one of them
 * for none, and in a response, which has no such field, all of them reach the template as they were written.
 */
function shapeOwnTools(value: Value, isParsed: boolean): Value {
  if (value === undefined || value === null) return null
  const tools = Array.isArray(value) && isParsed ? (value as readonly Value[]).map(shapeOwnTool) : []
  return tools.length === 0 || tools.includes(undefined) ? value : tools
}

/** Undefined: it is none. */
function shapeOwnTool(entry: Value): Value {
  const tool = asRecord(entry)
  const it = asRecord(tool?.['function'])
  if (!tool || !it || tool['type'] !== 'function') return undefined
  const { name, description = '', parameters = {}, strict } = it
  const isKnown = typeof name === 'string' && typeof description === 'string' && asRecord(parameters) !== undefined
  if (!isKnown || !isSwitch(strict)) return undefined
  const names = ['name', 'description', 'parameters', 'strict'].filter((field) => it[field] !== undefined)
  const shown = (field: string): Value => (field === 'strict' ? (asSwitch(strict, 'strict') ?? null) : it[field])
  const called = asValue(merged(Object.fromEntries(names.map((field) => [field, shown(field)])), without(it, ...names)))
  return asValue(merged({ function: called, type: 'function' }, without(tool, 'function', 'type')))
}

function unlessNull(name: string, value: Value): Body {
  return value === null ? {} : { [name]: value }
}

function shapeMessages(value: Value, format: ContentFormat, knowsDeveloper: boolean, isParsed: boolean): Body[] {
  const messages = asList(value, 'messages').map((message) => shapeMessage(message, format, isParsed))
  if (knowsDeveloper || !messages.some(({ role }) => role === 'developer')) return messages
  return gatherSystem(messages.map((it) => (it['role'] === 'developer' ? asSystem(it) : it)))
}

function asSystem(message: Body): Body {
  return merged(without(message, 'tools'), { role: 'system' })
}

/** Where a developer became a system, several of them become one, at the beginning. */
function gatherSystem(messages: readonly Body[]): Body[] {
  if (messages.every(({ role }, at) => role !== 'system' || at === 0)) return [...messages]
  const texts = messages
    .filter(({ role }) => role === 'system')
    .map(({ content }) => contentTexts(content).join('\n'))
    .filter((text) => text !== '')
  return [{ role: 'system', content: texts.join('\n\n') }, ...messages.filter(({ role }) => role !== 'system')]
}

function shapeMessage(value: Value, format: ContentFormat, isParsed: boolean): Body {
  const message = asRecord(value) ?? malformed('a message is an object')
  const role = message['role']
  if (typeof role !== 'string') malformed('a message has a role')
  if (role === 'tool' && (message['content'] ?? null) === null) malformed('a result has content')
  const shaped: Record<string, Value> = { role, content: shapeContent(message['content'], role, format) }
  if (role === 'tool' && message['tool_call_id'] !== undefined) shaped['tool_call_id'] = message['tool_call_id']
  if (role === 'assistant') {
    const calls = message['tool_calls']
    if (Array.isArray(calls) && calls.length > 0)
      shaped['tool_calls'] = calls.map((call: Value) => (isParsed ? asValue(ordered(call)) : shapeToolCall(call)))
    const reasoning = message['reasoning'] ?? message['reasoning_content']
    if (reasoning !== undefined && reasoning !== null) {
      shaped['reasoning'] = reasoning
      shaped['reasoning_content'] = reasoning // templates read either name
    }
  }
  for (const field of ['name', 'task']) if (typeof message[field] === 'string') shaped[field] = message[field]
  if (role === 'developer') shaped['tools'] = shapeOwnTools(message['tools'], isParsed)
  return shaped
}

/** As the schema of a call has it, which takes no call without its type or arguments. */
function ordered(value: Value): Body {
  if (asRecord(value)?.['type'] === undefined) malformed('a tool call has a type')
  const call = shapeCall(value)
  const { id, type } = call
  const it = call['function'] as Body
  const called = merged({ arguments: it['arguments'], name: it['name'] }, it)
  const first = {
    ...(id === undefined ? {} : { id }),
    function: asValue(called),
    ...(type === undefined ? {} : { type }),
  }
  return merged(first, without(call, 'id', 'function', 'type'))
}

function without(body: Body, ...names: readonly string[]): Body {
  return filtered(body, (name) => !names.includes(name))
}

/** Claude Code's line; it changes with every request, and vLLM leaves it out of system texts. */
export const billingHeader = 'x-anthropic-billing-header'

/** What is left of a system's part; undefined: nothing. */
function withoutBilling(part: Value): Value {
  const it = typeof part === 'string' ? undefined : asRecord(part)
  const text = typeof part === 'string' ? part : it?.['type'] === 'text' ? it['text'] : undefined
  if (typeof text !== 'string' || !text.startsWith(billingHeader)) return part
  const end = text.indexOf('\n')
  const rest = end < 0 ? '' : text.slice(end + 1)
  return rest === '' ? undefined : it ? asValue(merged(it, { text: rest })) : rest
}

/** As the template wants it; what a tool says is a text for every template, but for references. */
function shapeContent(content: Value, role: string, format: ContentFormat): Value {
  if (typeof content === 'string' && format === 'string' && role !== 'system') return content // nearly always
  const given = content ?? []
  const listed = typeof given === 'string' ? [given] : asList(given, 'content')
  const kept = role === 'system' ? listed.map(withoutBilling).filter((part) => part !== undefined) : listed
  const parts = kept.map(shapePart).filter((part) => part !== undefined)
  // Among parts an empty one counts; where texts are joined it does not.
  if (format === 'string')
    return parts
      .map(textOf)
      .filter((text) => text !== '')
      .join('\n')
  if (role === 'tool' && parts.every(({ type }) => type === 'text')) return parts.map(textOf).join('\n')
  return parts.map(asValue)
}

function textOf(part: Body): string {
  return (part['type'] === 'text' ? part['text'] : part['name']) as string
}

/** One part as templates see it, with what nobody knows of it; undefined: it is left out. Media make the tokens unknowable from outside. */
function shapePart(part: Value): Body | undefined {
  if (typeof part === 'string') return { type: 'text', text: part }
  const it = asRecord(part) ?? malformed('a content part is an object')
  if (it['type'] === 'tool_reference')
    return {
      type: 'tool_reference',
      name: typeof it['name'] === 'string' ? it['name'] : malformed('a reference has a name'),
    }
  const said = saidBy(it)
  if (said === undefined) return undefined
  return merged(
    { type: 'text', text: said },
    filtered(it, (name) => !partFields.has(name)),
  )
}

/** The text of a part; undefined where it is null. */
function saidBy(it: Body): string | undefined {
  const { type } = it
  if (type === undefined) malformed('a content part has a type')
  if (!textTypes.has(type)) throw mediaError(type)
  if ((it['uuid'] ?? null) !== null) malformed('a text has no uuid')
  const text = it[type === 'refusal' ? 'refusal' : type === 'thinking' ? 'thinking' : 'text'] ?? null
  if (text === null && (type === 'text' || type === 'refusal')) return undefined
  return typeof text === 'string' ? text : malformed('a text part has text')
}

/** Fields of the schemas of all parts; what else a part has reaches the template. */
const partFields = new Set([
  'audio_embeds',
  'audio_url',
  'closed',
  'data',
  'file',
  'image_embeds',
  'image_pil',
  'image_url',
  'input_audio',
  'name',
  'prompt_cache_breakpoint',
  'refusal',
  'text',
  'thinking',
  'type',
  'uuid',
  'video_embeds',
  'video_url',
])

const textTypes = new Set<Value>(['text', 'input_text', 'output_text', 'refusal', 'thinking'])

/** The texts of a content; anything else in it makes the tokens unknowable from outside. */
export function contentTexts(content: Value): string[] {
  if (content === undefined || content === null) return []
  if (typeof content === 'string') return [content]
  return asList(content, 'content').map((part) => {
    if (typeof part === 'string') return part
    return saidBy(asRecord(part) ?? malformed('a content part is an object')) ?? malformed('a text part has text')
  })
}

/** Arguments reach the template as an object, whether the client wrote them as one or as JSON. */
function shapeToolCall(value: Value): Value {
  const call = shapeCall(value)
  return asValue(merged(call, { function: asValue(call['function'] as Body) }))
}

function shapeCall(value: Value): Body {
  const call = asRecord(value) ?? malformed('a tool call is an object')
  const it = asRecord(call['function']) ?? malformed('a tool call has a function')
  const written = it['arguments']
  const read = typeof written === 'string' ? parseArguments(written) : written
  const given = isDict(read) ? read : malformed('the arguments of a call are an object')
  return merged(call, { function: merged(it, { arguments: given }) })
}

/** What is no object counts as an empty one. */
function parseArguments(text: string): Value {
  try {
    const read = parsePythonJson(text, { isUnkept: true })
    return isDict(read) ? read : {}
  } catch (cause) {
    if (cause instanceof JsonError && cause.reason === 'malformed') return {} // a cut-off call of long ago must not end the conversation
    throw cause
  }
}
