/** One door from a route and a body to the prompt that an engine of this dialect would build. */
import { buildSglangChat } from './chat-sglang.js'
import { buildVllmChat, isEncodedAsRendered } from './chat-vllm.js'
import { convertMessages } from './convert-messages.js'
import { convertResponses } from './convert-responses.js'
import type { EngineRules, TemplateHabits } from './converted.js'
import { refuseMediaBesideIds } from './media.js'
import type { SpecialsBut } from '../vocabulary/plan.js'
import type { Body, ChatPrompt, ChooseTemplate, Dialect, IdsPrompt, Route, TextPrompt } from './request.js'
import {
  asRecord,
  carriedIds,
  isCutAtLimit,
  LoadOnlyError,
  malformed,
  readCompletion,
  readTruncation,
} from './request.js'

export interface PromptRules extends EngineRules {
  /** Of a model that takes media, with SGLang. */
  readonly encodesAgain?: EncodesAgain | undefined
  /** Engines that put nothing around a text, or other tokens than the model's plan says. */
  readonly specialsBut?: SpecialsBut | undefined
  /** What an SGLang was told of media; undefined: nothing, and it goes by the model. */
  readonly takesMedia?: boolean | undefined
  /** Why an engine builds chats, or texts, by another template than the model's. */
  readonly otherTemplates?: { readonly chats?: string; readonly texts?: string } | undefined
}

/**
 * Of a model that takes media SGLang (0.5.23) makes a text of a rendered chat again, also of one without media, and encodes that as any
 * other: special tokens stand around it although the template wrote them. It hands the ids of chats on where there are none.
 */
export interface EncodesAgain {
  /** Unless it was told not to take media; else only if it was told to. */
  readonly isUsual: boolean
  /** The tokenizer puts special tokens around a text. */
  readonly addsSpecials: boolean
}

export const plainRules: PromptRules = {
  dialect: 'vllm',
}

export function buildPrompt(
  route: Route,
  body: Body,
  rules: PromptRules,
  choose: ChooseTemplate,
): ChatPrompt | TextPrompt | IdsPrompt {
  const prompt = build(route, body, rules, choose)
  const but = rules.specialsBut?.[rules.dialect]
  if (but === undefined || prompt.kind === 'ids' || !prompt.addSpecialTokens) return prompt
  if (but === 'other') throw new LoadOnlyError('engine-settings', 'other special tokens than those of the file')
  return { ...prompt, addSpecialTokens: false }
}

function build(
  route: Route,
  body: Body,
  rules: PromptRules,
  choose: ChooseTemplate,
): ChatPrompt | TextPrompt | IdsPrompt {
  const carried = carriedIds(route, body, rules.dialect)
  if (carried) refuseMediaBesideIds(body)
  const isProven = !isCutAtLimit(body, rules.dialect)
  if (carried) return { kind: 'ids', ids: [carried], truncation: readTruncation(body, rules.dialect), isProven }
  if (route === 'completions') return readCompletionBy(body, rules)
  refuseOther(rules.otherTemplates?.chats)
  if ((body['chat_template'] ?? asRecord(body['chat_template_kwargs'])?.['chat_template'] ?? null) !== null) {
    throw new LoadOnlyError('request-template', 'the request brings its own chat template')
  }
  if (route === 'chat') {
    const { tools } = body
    if (rules.dialect !== 'sglang' && Array.isArray(tools) && tools.length === 0) malformed('tools is empty')
    return encodedAgain(buildChat(body, rules, choose), route, rules)
  }
  const convert = route === 'responses' ? convertResponses : convertMessages
  const chat = buildChat(convert(body, rules, habitsOf(choose, rules.dialect)), rules, choose, route !== 'responses')
  if (rules.dialect === 'sglang') return encodedAgain(chat, route, rules)
  // vLLM encodes a rendered response with special tokens, so BOS stands twice; SGLang does not (Appendix C).
  const addSpecialTokens = route === 'responses' && rules.dialect === 'vllm' && !isEncodedAsRendered(body)
  return { ...chat, addSpecialTokens, isProven: chat.isProven && isProven }
}

function readCompletionBy(body: Body, rules: PromptRules): TextPrompt | IdsPrompt {
  const prompt = readCompletion(body, rules.dialect)
  refuseOtherTexts(body, rules)
  return prompt
}

/** SGLang puts ids into its template of completions, too, spelled as a text; a suffix that is empty, and not missing, keeps it away. */
export function refuseOtherTexts(body: Body, { otherTemplates }: PromptRules): void {
  if (body['is_rendered'] !== true && body['suffix'] !== '') refuseOther(otherTemplates?.texts)
}

function refuseOther(why: string | undefined): void {
  if (why !== undefined) throw new LoadOnlyError('engine-settings', `not by the model's template: ${why}`)
}

function encodedAgain(chat: ChatPrompt, route: Route, rules: PromptRules): ChatPrompt {
  const { dialect, encodesAgain: again, takesMedia } = rules
  if (dialect !== 'sglang' || !again || (!again.addsSpecials && route !== 'responses')) return chat
  return { ...chat, addSpecialTokens: takesMedia ?? again.isUsual, isProven: false } // what was encoded and decoded need not be the same text
}

function habitsOf(choose: ChooseTemplate, engine: Dialect): TemplateHabits {
  const habits = (): TemplateHabits => choose(false, engine).habits
  return {
    takesLateSystem: (dialect) => habits().takesLateSystem(dialect),
    effortOfNone: () => habits().effortOfNone(),
    thinkingSwitch: () => habits().thinkingSwitch(),
    hasLowEffort: () => habits().hasLowEffort(),
    takesThoughts: () => habits().takesThoughts(),
  }
}

function buildChat(body: Body, rules: PromptRules, choose: ChooseTemplate, isParsed = true): ChatPrompt {
  if (rules.dialect === 'sglang') return buildSglangChat(body, choose, isParsed)
  const chat = buildVllmChat(body, choose, isParsed)
  return rules.dialect === 'vllm' ? chat : { ...chat, isProven: false }
}
