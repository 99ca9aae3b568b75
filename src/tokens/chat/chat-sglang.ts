/** How SGLang shapes a chat before its template sees it. Follows SGLang 0.5.23; every rule but how a message is gone on with is in the recorded requests. */
import type { Value } from '../template/values.js'
import { contentTexts, shapeToolCall } from './chat-vllm.js'
import type { ContentFormat } from './content-format.js'
import type { Body, ChatPrompt, ChooseTemplate } from './request.js'
import { asList, asRecord, malformed } from './request.js'

export function buildSglangChat(body: Body, choose: ChooseTemplate, defaults: Body): ChatPrompt {
  const tools = shapeTools(body['tools'], body['tool_choice'])
  const { format } = choose(tools !== null)
  const messages = asList(body['messages'], 'messages').map((message) => shapeMessage(message, format))
  const last = messages.at(-1)
  const isOpen = last?.['role'] === 'assistant' && typeof last['content'] === 'string'
  const isContinued = body['continue_final_message'] === true && isOpen
  // A chat that ends with the assistant is either gone on with, or ends with the user all the same.
  const end = isOpen && !isContinued ? [{ role: 'user', content: last['content'] }] : []
  return {
    kind: 'chat',
    render: {
      messages: isOpen ? [...messages.slice(0, -1), ...end] : messages,
      tools,
      documents: null,
      addGenerationPrompt: true,
      continueFinalMessage: false,
      kwargs: kwargsOf(body, defaults),
    },
    suffix: isContinued ? (last['content'] as string) : undefined,
    addSpecialTokens: false,
    truncation: undefined,
    isProven: !isContinued,
  }
}

function kwargsOf(body: Body, defaults: Body): Body {
  const effort = body['reasoning_effort'] ?? asRecord(body['reasoning'])?.['effort']
  const implied =
    effort === undefined || effort === null
      ? {}
      : { reasoning_effort: effort, thinking: effort !== 'none', enable_thinking: effort !== 'none' }
  return { ...defaults, ...implied, ...asRecord(body['chat_template_kwargs']) }
}

/** No tools where none may be chosen, and only the one that must be. */
function shapeTools(value: Value, choice: Value): Value {
  if (value === undefined || value === null || choice === 'none') return null
  const wanted = asRecord(asRecord(choice)?.['function'])?.['name']
  const tools = asList(value, 'tools').map((entry) => {
    const tool = asRecord(entry) ?? malformed('a tool is an object')
    const { type = 'function', defer_loading: deferLoading = null } = tool
    const it = asRecord(tool['function']) ?? malformed('a tool has a function')
    return { type, function: shapeFunction(it, deferLoading), defer_loading: deferLoading }
  })
  const chosen = wanted === undefined ? tools : tools.filter((tool) => tool.function.name === wanted)
  return chosen.length === 0 ? null : chosen
}

/** As the client wrote it, in its order; what it left out follows as null, and two flags are there only where they are set. */
function shapeFunction(it: Body, deferLoading: Value): Body {
  const all: Body = {
    description: it['description'] ?? null,
    name: it['name'],
    parameters: it['parameters'] ?? null,
    strict: it['strict'] ?? undefined,
    defer_loading: it['defer_loading'] ?? deferLoading ?? undefined,
  }
  const names = new Set([...Object.keys(it).filter((name) => Object.hasOwn(all, name)), ...Object.keys(all)])
  return Object.fromEntries([...names].filter((name) => all[name] !== undefined).map((name) => [name, all[name]]))
}

function shapeMessage(value: Value, format: ContentFormat): Body {
  const message = asRecord(value) ?? malformed('a message is an object')
  const isTool = message['role'] === 'tool'
  const content = shapeContent(message['content'], isTool ? 'string' : format)
  const shaped: Record<string, Value> = { ...message, content }
  if (Array.isArray(message['tool_calls'])) shaped['tool_calls'] = message['tool_calls'].map(shapeToolCall)
  return shaped
}

function shapeContent(content: Value, format: ContentFormat): Value {
  if (!Array.isArray(content)) return contentTexts(content).join('')
  const texts = contentTexts(content)
  return format === 'openai' ? texts.map((text) => ({ type: 'text', text })) : texts.join(' ')
}
