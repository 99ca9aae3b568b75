/** What an engine's tokenize endpoint is asked for: the chat that the engine itself makes of a request, as far as it can be asked for. */
import { merged } from '../../core/protocol/index.js'
import type { PromptRules } from '../chat/build-prompt.js'
import { contentTexts } from '../chat/chat-vllm.js'
import { convertMessages } from '../chat/convert-messages.js'
import { convertResponses } from '../chat/convert-responses.js'
import type { TemplateHabits } from '../chat/converted.js'
import type { Body, Dialect, Route } from '../chat/request.js'
import { asList, asRecord, asValue, LoadOnlyError, readTruncation } from '../chat/request.js'
import type { Value } from '../template/values.js'

export type ChatRoute = Exclude<Route, 'completions'>

/** The tokens of the chat that the engine makes of a request differ from those of any chat that it can be asked for. */
export class UnaskableError extends LoadOnlyError {}

/** Fields of a request that its tokenize endpoint does not know, although they change tokens. */
export function refuseUnasked(body: Body, dialect: Dialect): void {
  if (readTruncation(body, dialect)) throw new LoadOnlyError('engine-settings', 'a prompt that is cut short')
  if (dialect !== 'sglang' && (body['suffix'] ?? null) !== null)
    throw new LoadOnlyError('engine-settings', 'a text with a suffix')
}

/** What the tokenize endpoint is asked for. */
export function askOf(route: ChatRoute, body: Body, rules: PromptRules, habits: TemplateHabits): Body {
  const chat = chatOf(route, body, rules, habits)
  for (const message of asList(chat['messages'], 'messages')) refuseMedia(message)
  return { ...pick(body, ['model']), ...pick(chat, chatFields) }
}

/** The body of the chat that the engine makes of a request. */
function chatOf(route: ChatRoute, body: Body, rules: PromptRules, habits: TemplateHabits): Body {
  if (route === 'chat') return body
  const chat = (route === 'responses' ? convertResponses : convertMessages)(body, rules, habits)
  if (rules.dialect === 'sglang') {
    refuseBareTools(chat['tools'])
    return chat
  }
  if (route === 'responses') refuseCalls(chat['messages'])
  const { reasoning_effort: effort, chat_template_kwargs: kwargs, messages, ...rest } = chat
  // vLLM puts a token of its own before a response; and where it tokenizes for others it takes an effort among the template's arguments alone.
  return {
    ...rest,
    messages: asList(messages, 'messages').map(asChatMessage),
    ...(route === 'responses' ? { add_special_tokens: true } : {}),
    ...(effort === undefined
      ? kwargs === undefined
        ? {}
        : { chat_template_kwargs: kwargs }
      : {
          chat_template_kwargs: asValue(
            merged({ reasoning_effort: effort, enable_thinking: effort !== 'none' }, asRecord(kwargs) ?? {}),
          ),
        }),
  }
}

/** A chat knows the parts of a response by other names. */
function asChatMessage(value: Value): Value {
  const message = asRecord(value)
  if (!message || !Array.isArray(message['content'])) return value
  const parts = contentTexts(message['content'] as Value).map((text) => ({ type: 'text', text }))
  return asValue(merged(message, { content: parts }))
}

/** vLLM names a call's arguments before its name where it reads a chat, and behind it where it makes one of a response. */
function refuseCalls(messages: Value): void {
  if (asList(messages, 'messages').some((message) => asRecord(message)?.['tool_calls'] !== undefined))
    throw new UnaskableError('engine-settings', 'vLLM orders the calls of a response otherwise when it is asked')
}

/** What a tool leaves out stands elsewhere in a chat that SGLang tokenizes than in one that it serves. */
function refuseBareTools(tools: Value): void {
  if (tools === undefined) return
  for (const tool of asList(tools, 'tools')) {
    const it = asRecord(asRecord(tool)?.['function'])
    if (typeof it?.['description'] !== 'string' || asRecord(it['parameters']) === undefined)
      throw new LoadOnlyError(
        'no-tokenizer',
        'SGLang orders a tool without description or parameters otherwise when it is asked',
      )
  }
}

const chatFields = [
  'messages',
  'tools',
  'tool_choice',
  'add_generation_prompt',
  'continue_final_message',
  'add_special_tokens',
  'chat_template_kwargs',
  'reasoning_effort',
] // prettier-ignore

export function pick(body: Body, names: readonly string[]): Body {
  return Object.fromEntries(names.filter((name) => body[name] !== undefined).map((name) => [name, body[name]]))
}

function refuseMedia(message: Value): void {
  contentTexts(asRecord(message)?.['content'])
}
