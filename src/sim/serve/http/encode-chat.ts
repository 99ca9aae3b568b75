/** A conversation as tokens, and how an engine refuses one that its model's template does not take. */
import type { ChatMessage, ChatOptions, SimTokenizer } from '../tokenizer.js'
import type { Refusal } from './exchange.js'

export interface ChatRefusals {
  readonly refuse: (message: string) => Refusal
  /** The engine's sentence for a model without a template, as base models are. */
  readonly noTemplate: string
}

export function encodeChat(
  tokenizer: SimTokenizer,
  messages: readonly ChatMessage[],
  options: ChatOptions,
  { refuse, noTemplate }: ChatRefusals,
): number[] {
  if (tokenizer.told && tokenizer.told.chatTemplate === undefined) throw refuse(noTemplate)
  try {
    return tokenizer.encodeChat(messages, options)
  } catch (error) {
    throw refuse(error instanceof Error ? error.message : String(error))
  }
}
