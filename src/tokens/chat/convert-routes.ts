/** `/v1/responses` and `/v1/messages` as the chats that the engines turn them into. */
import { dumps } from '../template/spell.js'
import type { Value } from '../template/values.js'
import { contentTexts } from './chat-vllm.js'
import { mediaError } from './media.js'
import type { Body } from './request.js'
import { asList, asRecord, LoadOnlyError, malformed } from './request.js'

export interface Converted {
  readonly body: Body
  /** Whether our recordings show this form; others follow the engine's source as we know it. */
  readonly isProven: boolean
}

/** OpenAI responses. The conversation may lie on the engine, and then nobody else knows its tokens. */
export function convertResponses(body: Body): Converted {
  if (body['previous_response_id'] ?? body['conversation'] ?? body['prompt']) {
    throw new LoadOnlyError('stored-response', 'the conversation is stored by the engine')
  }
  const messages: Value[] = []
  const { instructions, input } = body
  if (typeof instructions === 'string') messages.push({ role: 'system', content: instructions })
  if (typeof input === 'string') messages.push({ role: 'user', content: input })
  else for (const item of asList(input, 'input')) messages.push(convertItem(item))
  const tools =
    Array.isArray(body['tools']) && body['tools'].length > 0 ? body['tools'].map(convertResponseTool) : undefined
  const effort = asRecord(body['reasoning'])?.['effort']
  return {
    body: {
      messages,
      ...(tools ? { tools } : {}),
      ...(effort === undefined || effort === null ? {} : { reasoning_effort: effort }),
      ...(body['chat_template_kwargs'] === undefined ? {} : { chat_template_kwargs: body['chat_template_kwargs'] }),
    },
    isProven: typeof input === 'string' && tools === undefined,
  }
}

function convertItem(value: Value): Value {
  const item = asRecord(value) ?? malformed('an input item is an object')
  switch ((item['type'] ?? 'message') as string) {
    case 'message':
      return { role: item['role'], content: item['content'] }
    case 'function_call':
      return {
        role: 'assistant',
        tool_calls: [
          { id: item['call_id'], type: 'function', function: { name: item['name'], arguments: item['arguments'] } },
        ],
      }
    case 'function_call_output':
      return { role: 'tool', tool_call_id: item['call_id'], content: item['output'] }
    case 'reasoning':
      return { role: 'assistant', reasoning: contentTexts(item['content']).join('\n'), content: '' }
    default:
      throw new LoadOnlyError('stored-response', `input item of type ${String(item['type'] as string)}`)
  }
}

function convertResponseTool(value: Value): Value {
  const tool = asRecord(value) ?? malformed('a tool is an object')
  if (tool['type'] !== 'function') throw new LoadOnlyError('stored-response', 'a built-in tool')
  const { name, description, parameters, strict } = tool
  return { type: 'function', function: { name, description, parameters, strict } }
}

/** Anthropic messages: content blocks become parts, tool calls and tool messages. */
export function convertMessages(body: Body): Converted {
  const messages: Value[] = []
  const system = contentTexts(body['system']).join('')
  if (system !== '') messages.push({ role: 'system', content: system })
  let isProven = true
  for (const entry of asList(body['messages'], 'messages')) {
    const message = asRecord(entry) ?? malformed('a message is an object')
    if (typeof message['content'] === 'string') {
      messages.push({ role: message['role'], content: message['content'] })
      continue
    }
    isProven = false
    messages.push(...convertBlocks(message['role'], asList(message['content'], 'content')))
  }
  const tools = body['tools']
  return {
    body: {
      messages,
      ...(Array.isArray(tools) && tools.length > 0 ? { tools: tools.map(convertAnthropicTool) } : {}),
      ...(body['chat_template_kwargs'] === undefined ? {} : { chat_template_kwargs: body['chat_template_kwargs'] }),
    },
    isProven: isProven && tools === undefined,
  }
}

function convertBlocks(role: Value, blocks: readonly Value[]): Value[] {
  const results: Value[] = []
  const parts: Value[] = []
  const calls: Value[] = []
  for (const entry of blocks) {
    const block = asRecord(entry) ?? malformed('a content block is an object')
    switch (block['type'] as string) {
      case 'text':
        parts.push({ type: 'text', text: block['text'] })
        break
      case 'tool_use':
        calls.push({
          id: block['id'],
          type: 'function',
          function: { name: block['name'], arguments: dumps(block['input'] ?? {}) },
        })
        break
      case 'tool_result':
        results.push({
          role: 'tool',
          tool_call_id: block['tool_use_id'],
          content: contentTexts(block['content']).join('\n'),
        })
        break
      case 'thinking':
      case 'redacted_thinking':
        break
      default:
        throw mediaError(String(block['type'] as string))
    }
  }
  if (parts.length === 0 && calls.length === 0) return results
  const only = parts.length === 1 ? asRecord(parts[0])?.['text'] : undefined
  const content = parts.length === 0 ? null : (only ?? parts)
  return [...results, { role, content, ...(calls.length > 0 ? { tool_calls: calls } : {}) }]
}

function convertAnthropicTool(value: Value): Value {
  const tool = asRecord(value) ?? malformed('a tool is an object')
  return {
    type: 'function',
    function: { name: tool['name'], description: tool['description'], parameters: tool['input_schema'] },
  }
}
