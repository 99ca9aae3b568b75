/** How vLLM shapes a chat before its template sees it. Follows vLLM 0.32.0; every rule here is in the recorded requests. */
import { JsonError, parsePythonJson } from '../template/python-json.js'
import type { Value } from '../template/values.js'
import { isDict } from '../template/values.js'
import type { ContentFormat } from './content-format.js'
import { mediaError } from './media.js'
import type { Body, ChatPrompt, ChooseTemplate } from './request.js'
import { asList, asRecord, malformed, readTruncation } from './request.js'

/**
 * `/v1/chat/completions`, or a route that was turned into one. What comes as a chat is parsed by a schema, which puts the fields of a
 * call into its own order; responses are turned into messages behind it.
 */
export function buildVllmChat(body: Body, choose: ChooseTemplate, defaults: Body, isParsed = true): ChatPrompt {
  const shown = shapeTools(body['tools'])
  const kwargs = kwargsOf(body, defaults)
  const tools = kwargs['tools'] ?? shown
  const { formats, knowsDeveloper } = choose(tools !== null)
  const continueFinalMessage = body['continue_final_message'] === true
  const { add_generation_prompt: addGenerationPrompt = true } = body
  if (typeof addGenerationPrompt !== 'boolean') malformed('add_generation_prompt is true or false')
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
    suffix: undefined,
    addSpecialTokens: body['add_special_tokens'] === true,
    truncation: readTruncation(body),
    isProven: !isParsed || !hasObjectArguments(body['messages']),
  }
}

/** Model defaults, then the request's own, then its other fields; what is null or "auto" counts as not given. */
function kwargsOf(body: Body, defaults: Body): Body {
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
  const given = Object.entries({ ...own, ...implied }).filter(([, value]) => value !== null && value !== 'auto')
  return { ...defaults, ...Object.fromEntries(given) }
}

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
  if (tools.length === 0) malformed('tools is empty')
  return tools.map((entry) => {
    const tool = asRecord(entry) ?? malformed('a tool is an object')
    const it = asRecord(tool['function']) ?? malformed('a tool has a function')
    const { name, description = null, parameters = null, strict, defer_loading: deferLoading } = it
    return {
      type: tool['type'] ?? 'function',
      function: {
        name,
        description,
        parameters,
        ...(strict === undefined || strict === null ? {} : { strict }),
        ...(deferLoading === undefined || deferLoading === null ? {} : { defer_loading: deferLoading }),
      },
    }
  })
}

function shapeMessages(value: Value, format: ContentFormat, knowsDeveloper: boolean, isParsed: boolean): Body[] {
  const messages = asList(value, 'messages').map((message) => shapeMessage(message, format, isParsed))
  if (knowsDeveloper || !messages.some(({ role }) => role === 'developer')) return messages
  return gatherSystem(messages.map((it) => (it['role'] === 'developer' ? { ...it, role: 'system' } : it)))
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
  const said = role === 'system' ? withoutBilling(message['content']) : message['content']
  const shaped: Record<string, Value> = { role, content: shapeContent(said, role === 'tool' ? 'string' : format) }
  if (role === 'tool' && message['tool_call_id'] !== undefined) shaped['tool_call_id'] = message['tool_call_id']
  if (typeof message['name'] === 'string') shaped['name'] = message['name']
  if (role === 'assistant') {
    const calls = message['tool_calls']
    if (Array.isArray(calls) && calls.length > 0)
      shaped['tool_calls'] = calls.map((call: Value) => (isParsed ? ordered(call) : shapeToolCall(call)))
    const reasoning = message['reasoning'] ?? message['reasoning_content']
    if (reasoning !== undefined && reasoning !== null) {
      shaped['reasoning'] = reasoning
      shaped['reasoning_content'] = reasoning // templates read either name
    }
  }
  return shaped
}

/** As the schema of a call has it, which takes no call without its type or arguments. */
function ordered(value: Value): Body {
  if (asRecord(value)?.['type'] === undefined) malformed('a tool call has a type')
  const { id, function: it, type, ...rest } = shapeToolCall(value)
  const { arguments: given, name, ...more } = it as Body
  return {
    ...(id === undefined ? {} : { id }),
    function: { arguments: given, name, ...more },
    ...(type === undefined ? {} : { type }),
    ...rest,
  }
}

/** Claude Code's line; it changes with every request, and vLLM leaves it out of system texts. */
export const billingHeader = 'x-anthropic-billing-header'

function withoutBilling(content: Value): Value {
  const texts = contentTexts(content)
  if (!texts.some((text) => text.startsWith(billingHeader))) return content
  return texts
    .map((text) => (text.startsWith(billingHeader) ? text.slice(text.indexOf('\n') + 1 || text.length) : text))
    .filter((text) => text !== '')
    .map((text) => ({ type: 'text', text }))
}

function shapeContent(content: Value, format: ContentFormat): Value {
  const parts = contentTexts(content)
  return format === 'openai' ? parts.map((text) => ({ type: 'text', text })) : parts.join('\n')
}

const textTypes = new Set<Value>(['text', 'input_text', 'output_text', 'refusal', 'thinking'])

/** The texts of a content; anything else in it makes the tokens unknowable from outside. */
export function contentTexts(content: Value): string[] {
  if (content === undefined || content === null) return []
  if (typeof content === 'string') return [content]
  return asList(content, 'content').map((part) => {
    if (typeof part === 'string') return part
    const it = asRecord(part) ?? malformed('a content part is an object')
    const { type } = it
    if (type === undefined) malformed('a content part has a type')
    if (!textTypes.has(type)) throw mediaError(String(type as string))
    const text = it[type === 'refusal' ? 'refusal' : type === 'thinking' ? 'thinking' : 'text']
    return typeof text === 'string' ? text : malformed('a text part has text')
  })
}

/** Arguments reach the template as an object, whether the client wrote them as one or as JSON. */
export function shapeToolCall(value: Value): Body {
  const call = asRecord(value) ?? malformed('a tool call is an object')
  const it = asRecord(call['function']) ?? malformed('a tool call has a function')
  const written = it['arguments']
  const read = typeof written === 'string' ? parseArguments(written) : written
  return {
    ...call,
    function: { ...it, arguments: isDict(read) ? read : malformed('the arguments of a call are an object') },
  }
}

/** What is no object counts as an empty one. */
function parseArguments(text: string): Value {
  try {
    const read = parsePythonJson(text)
    return isDict(read) ? read : {}
  } catch (cause) {
    if (cause instanceof JsonError && cause.reason === 'malformed') return {} // a cut-off call of long ago must not end the conversation
    throw cause
  }
}
