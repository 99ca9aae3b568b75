/** From a vLLM request body to a generation: what both chat and completions read of it. */
import type { GenerationSpec } from '../generation.js'
import type { ChatMessage } from '../tokenizer.js'
import { isSet, isTokens, numberOf, objectOf, stopsOf, textOf } from './body.js'
import { misread, templated } from './chat-faults.js'
import type { ChatRefusals } from './encode-chat.js'
import { encodeChat } from './encode-chat.js'
import type { Exchange, Json } from './exchange.js'
import { header } from './exchange.js'
import { badRequest, checkTokens, invalid } from './vllm-errors.js'

/** The tokens of a conversation, or those that the router sent in its place (`kv_transfer_params.prompt_token_ids`). */
export function chatPrompt(exchange: Exchange, body: Json): number[] {
  const { server } = exchange
  checkChat(body)
  const given = objectOf(body, 'kv_transfer_params')?.['prompt_token_ids']
  const { tokenizer } = server.options
  const tokens = isTokens(given)
    ? given
    : encodeChat(tokenizer, templated(server, messagesOf(body)), chatOptions(body), refusals)
  checkTokens(server, tokens)
  return misread(server, tokens)
}

export function chatText(exchange: Exchange, body: Json): string {
  return exchange.server.options.tokenizer.applyTemplate(messagesOf(body), chatOptions(body))
}

const refusals: ChatRefusals = {
  refuse: badRequest,
  noTemplate:
    'As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template if the tokenizer does not define one.',
}

export function messagesOf(body: Json): ChatMessage[] {
  return body['messages'] as ChatMessage[]
}

export function chatOptions(body: Json) {
  const tools = body['tools']
  return {
    tools: Array.isArray(tools) ? tools : undefined,
    isGenerationPromptAdded: body['add_generation_prompt'] !== false && body['continue_final_message'] !== true,
  }
}

export function toSpec(
  exchange: Exchange,
  body: Json,
  prompts: readonly (readonly number[])[],
  fields: {
    readonly outputTokensMax: number | undefined
    readonly adapter: string | undefined
  },
): GenerationSpec {
  const allowed = body['allowed_token_ids']
  return {
    prompts,
    choices: Math.max(1, Math.min(128, numberOf(body, 'n') ?? 1)),
    outputTokensMax: fields.outputTokensMax,
    stop: stopsOf(body),
    isEosIgnored: isSet(body, 'ignore_eos'),
    draw: (numberOf(body, 'temperature') ?? 1) === 0 ? 0 : (numberOf(body, 'seed') ?? 0),
    allowedTokens: isTokens(allowed) ? allowed : undefined,
    salt: textOf(body, 'cache_salt'),
    loraName: fields.adapter,
    sessionId: textOf(body, 'session_id') ?? header(exchange, 'x-session-id'),
    skipsCacheRead: body['prompt_logprobs'] !== undefined && body['prompt_logprobs'] !== null,
    isFullReport: objectOf(body, 'vllm_xargs')?.['kv_cache_report_mode'] === 'full',
  }
}

/** The id of an answer: the header's, the body's, or a new one. */
export function requestId(exchange: Exchange, body: Json): string {
  return header(exchange, 'x-request-id') ?? textOf(body, 'request_id') ?? exchange.server.newId()
}

function checkChat(body: Json): void {
  const messages = body['messages']
  if (!Array.isArray(messages))
    throw invalid(
      `{'type': 'list_type', 'loc': 'body.messages', 'msg': 'Input should be a valid list', 'input': '${String(messages)}'}`,
      'body.messages',
    )
  if (messages.length === 0)
    throw badRequest('Cannot apply chat template to an empty conversation. Provide at least one message.')
  if (Array.isArray(body['tools']) && body['tools'].length === 0)
    throw badRequest(
      '`tools` must not be an empty array. Either provide at least one tool or omit the field entirely. (parameter=tools)',
      'tools',
    )
  if (isSet(body, 'continue_final_message') && isSet(body, 'add_generation_prompt'))
    throw badRequest('Cannot set both `continue_final_message` and `add_generation_prompt` to True.')
  if (typeof body['chat_template'] === 'string')
    throw badRequest(
      'Chat template is passed with request, but --trust-request-chat-template is not set. Refused request with untrusted chat template.',
    )
}
