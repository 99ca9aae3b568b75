/**
 * The reasoning parsers of SGLang 0.5.23 (`--reasoning-parser`), as far as a prompt depends on them: the marks that it writes around the
 * thoughts of earlier turns, and how it switches thinking where the chat template does not show that. Those are absent whose models
 * have an encoder or rules of their own (`deepseek-v4`, `gpt-oss`, `hunyuan`, `inkling`, `iquest_q1`, `k2_horizon`, `kimi_k3`, `minimax-m3`, …).
 */

/** Arguments of the template, an effort in place of one, thinking that cannot be switched off, or none that can be switched on. */
export type ThinkingSwitch = 'enable_thinking' | 'thinking' | 'effort' | 'always' | 'none'

export interface ReasoningParser {
  readonly start: string
  readonly end: string
  readonly thinkingSwitch: ThinkingSwitch
}

const tags = (thinkingSwitch: ThinkingSwitch): ReasoningParser => ({
  start: '<think>',
  end: '</think>',
  thinkingSwitch,
})

const parsers: ReadonlyMap<string, ReasoningParser> = new Map([
  ['apertus2509', { start: '<|inner_prefix|>', end: '<|inner_suffix|>', thinkingSwitch: 'always' }],
  ['cohere_command4', { start: '<|START_THINKING|>', end: '<|END_THINKING|>', thinkingSwitch: 'always' }],
  ['deepseek-r1', tags('always')],
  ['deepseek-v3', tags('thinking')],
  ['dots', tags('enable_thinking')],
  ['gemma4', { start: '<|channel>thought\n', end: '<channel|>', thinkingSwitch: 'enable_thinking' }],
  ['gigachat35', tags('always')],
  ['glm45', tags('enable_thinking')],
  ['granite_thinking_parser', tags('enable_thinking')],
  ['interns1', tags('enable_thinking')],
  ['kimi', { start: '◁think▷', end: '◁/think▷', thinkingSwitch: 'always' }],
  ['kimi_k2', tags('thinking')],
  ['ling3', tags('enable_thinking')],
  ['mimo', tags('enable_thinking')],
  ['minimax', tags('enable_thinking')],
  ['minimax-append-think', tags('always')],
  ['mistral', { start: '[THINK]', end: '[/THINK]', thinkingSwitch: 'effort' }],
  ['nanbeige', tags('enable_thinking')],
  ['nemotron_3', tags('enable_thinking')],
  ['poolside_v1', tags('enable_thinking')],
  ['qwen3', tags('enable_thinking')],
  ['qwen3-thinking', tags('enable_thinking')],
  ['step3', tags('always')],
  ['step3p5', tags('always')],
])

/** Why messages to an SGLang that hold thoughts or switch thinking are routed by load, whatever tells the tokens of others. */
export function whyThoughtsUnknown(name: string | null | undefined): string | undefined {
  if (name === null || reasoningParserOf(name)) return undefined
  if (name === undefined) return 'it does not tell its reasoning parser'
  return `what its reasoning parser ${name} makes of them is not known`
}

/** Undefined: it is not known what this one makes of a prompt. */
export function reasoningParserOf(name: string | null | undefined): ReasoningParser | undefined {
  return parsers.get(name ?? '')
}
