/** One door from a route and a body to the prompt that an engine of this dialect would build. */
import { buildSglangChat } from './chat-sglang.js'
import { buildVllmChat } from './chat-vllm.js'
import { convertMessages, convertResponses } from './convert-routes.js'
import { refuseMediaBesideIds } from './media.js'
import type { Body, ChatPrompt, ChooseTemplate, Dialect, IdsPrompt, Route, TextPrompt } from './request.js'
import { carriedIds, LoadOnlyError, readCompletion, readTruncation } from './request.js'

export interface PromptRules {
  readonly dialect: Dialect
  /** `--default-chat-template-kwargs` of the engine. */
  readonly defaultKwargs: Body
  /** `--exclude-tools-when-tool-choice-none` of the engine. */
  readonly excludesUnchosenTools: boolean
}

export const plainRules: PromptRules = {
  dialect: 'vllm',
  defaultKwargs: {},
  excludesUnchosenTools: false,
}

export function buildPrompt(
  route: Route,
  body: Body,
  rules: PromptRules,
  choose: ChooseTemplate,
): ChatPrompt | TextPrompt | IdsPrompt {
  const carried = carriedIds(body)
  if (carried) refuseMediaBesideIds(body)
  if (carried) return { kind: 'ids', ids: [carried], truncation: readTruncation(body) }
  if (route === 'completions') return readCompletion(body)
  if (body['chat_template'] !== undefined && body['chat_template'] !== null) {
    throw new LoadOnlyError('request-template', 'the request brings its own chat template')
  }
  if (route === 'chat') return buildChat(body, rules, choose)
  const converted = route === 'responses' ? convertResponses(body) : convertMessages(body)
  const chat = buildChat(converted.body, rules, choose)
  // vLLM encodes a rendered response with special tokens, so BOS stands twice; SGLang does not (Appendix C).
  const addSpecialTokens = route === 'responses' && rules.dialect === 'vllm'
  return { ...chat, addSpecialTokens, isProven: chat.isProven && converted.isProven }
}

function buildChat(body: Body, rules: PromptRules, choose: ChooseTemplate): ChatPrompt {
  if (rules.dialect === 'sglang') return buildSglangChat(body, choose, rules.defaultKwargs)
  const isUnchosen = rules.excludesUnchosenTools && body['tool_choice'] === 'none'
  const chat = buildVllmChat(isUnchosen ? { ...body, tools: null } : body, choose, rules.defaultKwargs)
  return rules.dialect === 'vllm' ? chat : { ...chat, isProven: false }
}
