/** How SGLang shapes a chat before its template sees it. Follows SGLang 0.5.23; plain texts are recorded, tools are not. */
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
  const isContinued = body['continue_final_message'] === true && last?.['role'] === 'assistant'
  return {
    kind: 'chat',
    render: {
      messages: isContinued ? messages.slice(0, -1) : messages,
      tools,
      documents: null,
      addGenerationPrompt: true,
      continueFinalMessage: false,
      kwargs: kwargsOf(body, defaults),
    },
    suffix: isContinued ? contentTexts(last['content']).join(' ') : undefined,
    addSpecialTokens: false,
    truncation: undefined,
    isProven: tools === null && !isContinued && messages.every((message) => message['tool_calls'] === undefined),
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
    const it = asRecord(tool['function']) ?? malformed('a tool has a function')
    const { name, description = null, parameters = null, strict = false } = it
    return { type: tool['type'] ?? 'function', function: { description, name, parameters, strict } }
  })
  const chosen = wanted === undefined ? tools : tools.filter((tool) => tool.function.name === wanted)
  return chosen.length === 0 ? null : chosen
}

function shapeMessage(value: Value, format: ContentFormat): Body {
  const message = asRecord(value) ?? malformed('a message is an object')
  const shaped: Record<string, Value> = { ...message, content: shapeContent(message['content'], format) }
  if (Array.isArray(message['tool_calls'])) shaped['tool_calls'] = message['tool_calls'].map(shapeToolCall)
  return shaped
}

function shapeContent(content: Value, format: ContentFormat): Value {
  if (!Array.isArray(content)) return contentTexts(content).join('')
  const texts = contentTexts(content)
  return format === 'openai' ? texts.map((text) => ({ type: 'text', text })) : texts.join(' ')
}
