/** How SGLang shapes a chat before its template sees it. Follows SGLang 0.5.23; every rule here is in the recorded requests. */
import type { Value } from '../template/values.js'
import { isDict } from '../template/values.js'
import { contentTexts } from './chat-vllm.js'
import type { ContentFormat } from './content-format.js'
import type { TemplateHabits } from './converted.js'
import type { Body, ChatPrompt, ChooseTemplate } from './request.js'
import { asList, asRecord, asSwitch, malformed } from './request.js'
import { standardTypes } from './schema-types.js'
import { readStrictly } from './strict-json.js'

/** `/v1/chat/completions`, or a route that was turned into one: what comes as a chat is looked through, and its schemas mended. */
export function buildSglangChat(body: Body, choose: ChooseTemplate, isParsed = true): ChatPrompt {
  const tools = shapeTools(body['tools'], body['tool_choice'], isParsed)
  const chosen = choose(tools !== null, 'sglang')
  const { formats, habits } = chosen
  const kwargs = kwargsOf(body, habits, isParsed)
  const messages = asList(body['messages'], 'messages').map((it) => shapeMessage(it, formats.sglang, isParsed))
  const last = messages.at(-1)
  const isOpen = last?.['role'] === 'assistant' && typeof last['content'] === 'string'
  const isContinued = asSwitch(body['continue_final_message'], 'continue_final_message') === true && isOpen
  // A chat that ends with the assistant is either gone on with, or ends with the user all the same.
  const end = isOpen && !isContinued ? [{ role: 'user', content: last['content'] }] : []
  return {
    kind: 'chat',
    render: {
      messages: isOpen ? [...messages.slice(0, -1), ...end] : messages,
      tools,
      documents: kwargs['documents'] ?? null,
      addGenerationPrompt: true,
      continueFinalMessage: false,
      kwargs,
    },
    chosen,
    suffix: isContinued ? (last['content'] as string) : undefined,
    addSpecialTokens: false,
    truncation: undefined,
    isProven: true,
  }
}

/** An effort among the template's arguments of a chat is the request's own, unless it is null. */
function kwargsOf(body: Body, habits: TemplateHabits, isParsed: boolean): Body {
  const reasoning = asRecord(body['reasoning'])
  const effort = reasoning?.['effort'] ?? reasoning?.['reasoning_effort'] ?? body['reasoning_effort'] ?? null
  const isOn = effort === null ? isEnabled(reasoning) || undefined : effort !== 'none'
  const given = asRecord(body['chat_template_kwargs']) ?? {}
  const { reasoning_effort: moved, ...others } = given
  const own = isParsed ? others : given
  const shown = (isParsed ? moved : null) ?? effort
  for (const name of ['messages', 'tools', 'add_generation_prompt'])
    if (Object.hasOwn(own, name)) malformed(`chat_template_kwargs has ${name}`)
  return {
    ...(shown === null ? {} : { reasoning_effort: shown }),
    ...(isOn === undefined ? {} : { thinking: isOn, enable_thinking: isOn }),
    ...(shown === 'low' && habits.hasLowEffort() ? { low_effort: true } : {}),
    ...own,
  }
}

const yes = new Set(['1', 'true', 'yes', 'y', 'on'])

/** Thinking that is asked for without an effort. */
function isEnabled(reasoning: Body | undefined): boolean {
  const enabled = reasoning?.['enabled'] ?? reasoning?.['enable'] ?? false
  return typeof enabled === 'string' ? yes.has(enabled.trim().toLowerCase()) : Boolean(enabled)
}

/** No tools where none may be chosen, and only the one that must be. */
function shapeTools(value: Value, choice: Value, isMended: boolean): Value {
  if (value === undefined || value === null || choice === 'none') return null
  const wanted = asRecord(asRecord(choice)?.['function'])?.['name']
  const tools = asList(value, 'tools').map((entry) => shapeTool(entry, isMended))
  const chosen = wanted === undefined ? tools : tools.filter((tool) => tool.function.name === wanted)
  return chosen.length === 0 ? null : chosen
}

function shapeTool(
  entry: Value,
  isMended: boolean,
): { readonly type: Value; readonly function: Body; readonly defer_loading: Value } {
  const tool = asRecord(entry) ?? malformed('a tool is an object')
  const { type = 'function' } = tool
  const deferLoading = asSwitch(tool['defer_loading'], 'defer_loading') ?? null
  const it = asRecord(tool['function']) ?? malformed('a tool has a function')
  const shaped = shapeFunction(it, deferLoading)
  const mended = isMended ? { ...shaped, parameters: standardTypes(shaped['parameters']) } : shaped
  return { type, function: mended, defer_loading: deferLoading }
}

/** As the client wrote it, in its order; what it left out follows as null, and two flags are there only where they are set. */
function shapeFunction(it: Body, deferLoading: Value): Body {
  const all: Body = {
    description: it['description'] ?? null,
    name: it['name'],
    parameters: it['parameters'] ?? null,
    strict: asSwitch(it['strict'], 'strict'),
    defer_loading: asSwitch(it['defer_loading'], 'defer_loading') ?? deferLoading ?? undefined,
  }
  const names = new Set([...Object.keys(it).filter((name) => Object.hasOwn(all, name)), ...Object.keys(all)])
  return Object.fromEntries([...names].filter((name) => all[name] !== undefined).map((name) => [name, all[name]]))
}

/** Of messages other than the user's; what is null is left out. */
const messageFields = ['tool_call_id', 'name', 'phase', 'reasoning_content', 'tool_calls', 'tools', 'prefix'] as const
const roles = new Set(['system', 'assistant', 'tool', 'function', 'developer', 'latest_reminder', 'root'])

/** Whose tools the model may call. */
const bringers = new Set(['root', 'system', 'developer'])

/** As its schema has it: the fields that it knows, in its order; parts that are handed on as such come last. */
function shapeMessage(value: Value, format: ContentFormat, isParsed: boolean): Body {
  const message = asRecord(value) ?? malformed('a message is an object')
  const given = message['role']
  if (typeof given !== 'string') malformed('a message has a role')
  const content = message['content']
  if (given === 'user') return { role: given, content: shapeContent(content, format) }
  const role = given.toLowerCase()
  if (!roles.has(role)) malformed(`no such role: ${role}`)
  const said = shapeContent(content, format, role === 'tool')
  const isLast = Array.isArray(content) && format === 'openai'
  const shaped: Record<string, Value> = isLast ? { role } : { role, content: said }
  for (const name of messageFields) {
    const field = message[name]
    if (field === undefined || field === null) continue
    if (name === 'tool_calls') shaped[name] = shapeCalls(field)
    else if (name === 'tools')
      shaped[name] = asList(field, 'tools').map((it) => shapeTool(it, isParsed && bringers.has(role)))
    else shaped[name] = field
  }
  return isLast ? { ...shaped, content: said } : shaped
}

function shapeCalls(value: Value): Value {
  return asList(value, 'tool_calls').map((entry) => {
    const { id = null, index = null, function: called } = asRecord(entry) ?? malformed('a tool call is an object')
    const { name = null, arguments: written = null } = asRecord(called) ?? malformed('a tool call has a function')
    return { id, index, type: 'function', function: { name, arguments: readArguments(written) } }
  })
}

/** An object, or the JSON of one. */
function readArguments(written: Value): Value {
  if (written === null) return null
  const read = typeof written === 'string' ? readStrictly(written) : written
  return isDict(read) ? read : malformed('the arguments of a call are an object')
}

function shapeContent(content: Value, format: ContentFormat, isResult = false): Value {
  if (!Array.isArray(content)) return contentTexts(content).join('')
  const parts = (content as readonly Value[]).filter((part) => !isThought(part))
  if (parts.some((part) => typeof part === 'string' || asRecord(part)?.['type'] === 'refusal'))
    malformed('a content part is a text')
  const shaped = parts.map(shapePart)
  const texts = shaped.flatMap(({ text }) => (typeof text === 'string' ? [text] : []))
  // What a tool says is a text to every template, but for references.
  const isText = format === 'string' || (isResult && texts.length === shaped.length)
  return isText ? texts.join(' ') : shaped
}

function shapePart(part: Value): Body {
  const it = asRecord(part)
  if (it?.['type'] !== 'tool_reference') return { type: 'text', text: contentTexts([part])[0] }
  return {
    type: 'tool_reference',
    name: typeof it['name'] === 'string' ? it['name'] : malformed('a reference has a name'),
  }
}

/** They are left out of what was said. */
function isThought(part: Value): boolean {
  const type = asRecord(part)?.['type']
  return type === 'thinking' || type === 'reasoning'
}
