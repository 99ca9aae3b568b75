/** Every route of a simulated vLLM. */
import type { SimServer } from '../sim-engine.js'
import { answerMessages, vllmMessages } from './anthropic-messages.js'
import { chatOf } from './converted-chat.js'
import { isTokens, numberOf } from './body.js'
import type { Exchange, Routes } from './exchange.js'
import { sendJson, sendText } from './exchange.js'
import { vllmChat } from './vllm-chat.js'
import { vllmCompletions } from './vllm-completions.js'
import { devRoutes } from './vllm-dev-routes.js'
import { badRequest, checkSampling, invalid, outputLimit, vllmBody, vllmModel, vllmRank } from './vllm-errors.js'
import { vllmMetrics } from './vllm-metrics.js'
import { vllmPoolingRoutes } from './vllm-pooling.js'
import { vllmResponses } from './vllm-responses.js'
import { generate, renderChat, renderCompletions, renderMessages, renderResponses, scaleOut } from './vllm-scale-out.js'
import { eventSources, modelCards } from './vllm-shapes.js'
import { chatPrompt, requestId, toSpec } from './vllm-spec.js'
import { vllmStoredRoutes } from './vllm-stored.js'
import { versionNumber } from '../engine-name.js'

/** Versions before it keep their event ports to themselves. */
const saysSources = versionNumber('0.29.0')

export function vllmRoutes(server: SimServer): Routes {
  const { isDevMode, isTokenizerInfo, task } = server.options
  const empty = (exchange: Exchange): void => sendText(exchange, 200, '')
  return {
    'GET /health': empty,
    'GET /ping': empty,
    'POST /ping': empty,
    'GET /version': (exchange) => sendJson(exchange, 200, { version: server.options.version }),
    'GET /v1/models': (exchange) => sendJson(exchange, 200, modelCards(server)),
    'GET /load': (exchange) => sendJson(exchange, 200, { server_load: server.inFlight }),
    'GET /metrics': (exchange) =>
      sendText(exchange, 200, vllmMetrics(server), { 'content-type': 'text/plain; version=1.0.0; charset=utf-8' }),
    ...(versionNumber(server.options.version) < saysSources
      ? {}
      : { 'GET /kv_event_sources': (exchange: Exchange) => sendJson(exchange, 200, eventSources(server)) }),
    'POST /tokenize': tokenize,
    'POST /detokenize': detokenize,
    ...(isTokenizerInfo
      ? { 'GET /tokenizer_info': (exchange: Exchange) => sendJson(exchange, 200, tokenizerInfo(server)) }
      : {}),
    ...(task === 'generate' ? generatingRoutes : vllmPoolingRoutes(server)),
    ...(isDevMode ? devRoutes : {}),
  }
}

const generatingRoutes: Routes = {
  'POST /v1/chat/completions': vllmChat,
  'POST /v1/completions': vllmCompletions,
  'POST /v1/messages': messages,
  'POST /v1/responses': vllmResponses,
  ...vllmStoredRoutes,
  'POST /v1/messages/count_tokens': countTokens,
  'POST /v1/chat/completions/render': scaleOut(renderChat),
  'POST /v1/completions/render': scaleOut(renderCompletions),
  'POST /v1/messages/render': scaleOut(renderMessages),
  'POST /v1/responses/render': scaleOut(renderResponses),
  'POST /inference/v1/generate': scaleOut(generate),
}

async function tokenize(exchange: Exchange): Promise<void> {
  const { tokenizer, modelTokensMax } = exchange.server.options
  const body = await vllmBody(exchange)
  vllmModel(exchange.server, body)
  const prompt = body['prompt']
  const tokens =
    typeof prompt === 'string'
      ? tokenizer.encode(prompt, { isBosAdded: body['add_special_tokens'] !== false })
      : [...tokenizer.encode('', { isBosAdded: body['add_special_tokens'] === true }), ...chatPrompt(exchange, body)]
  sendJson(exchange, 200, {
    count: tokens.length,
    max_model_len: modelTokensMax,
    tokens,
    token_strs: body['return_token_strs'] === true ? tokens.map((token) => tokenizer.pieceOf(token)) : null,
  })
}

async function detokenize(exchange: Exchange): Promise<void> {
  const body = await vllmBody(exchange)
  const tokens = body['tokens']
  if (!isTokens(tokens))
    throw invalid("{'type': 'list_type', 'loc': 'body.tokens', 'msg': 'Input should be a valid list'}", 'body.tokens')
  sendJson(exchange, 200, { prompt: exchange.server.options.tokenizer.decode(tokens) })
}

async function messages(exchange: Exchange): Promise<void> {
  const { server } = exchange
  const body = await vllmBody(exchange)
  const { name, adapter } = vllmModel(server, body)
  const prompt = chatPrompt(exchange, chatOf('messages', body, 'vllm', badRequest))
  checkSampling(body)
  const outputTokensMax = outputLimit(server, numberOf(body, 'max_tokens'), prompt.length)
  const spec = toSpec(exchange, body, [prompt], { outputTokensMax, adapter })
  const head = { id: `chatcmpl-${requestId(exchange, body)}`, model: name, shapes: vllmMessages }
  answerMessages(exchange, body, head, vllmRank(exchange), { ...spec, choices: 1 })
}

async function countTokens(exchange: Exchange): Promise<void> {
  const body = await vllmBody(exchange)
  vllmModel(exchange.server, body)
  const { length } = chatPrompt(exchange, chatOf('messages', body, 'vllm', badRequest))
  sendJson(exchange, 200, { input_tokens: length, context_management: { original_input_tokens: length } })
}

/** The keys of a Llama tokenizer, in their order; nothing of it where the tokenizer tells nothing, as of one that is not Hugging Face's. */
function tokenizerInfo({ options }: SimServer): Record<string, unknown> {
  const { tokenizer, modelTokensMax, root } = options
  const named = { tokenizer_class: 'TokenizerPoolCachedSimTokenizer' }
  if (!tokenizer.told) return named
  const { specials, chatTemplate, added } = tokenizer.told
  return {
    ...named,
    clean_up_tokenization_spaces: false,
    ...specials,
    use_default_system_prompt: false,
    add_prefix_space: null,
    model_max_length: modelTokensMax,
    pad_token: specials['pad_token'] ?? null,
    padding_side: 'right',
    sp_model_kwargs: {},
    ...(chatTemplate === undefined ? {} : { chat_template: chatTemplate }),
    truncation_side: 'left',
    name_or_path: root,
    is_local: true,
    local_files_only: true,
    added_tokens_decoder: added,
    backend: 'tokenizers',
  }
}
