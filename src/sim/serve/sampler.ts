/** What a simulated model answers: words that depend only on what it read, so that the same request gets the same answer. */
import type { SimTokenizer } from './tokenizer.js'

export interface SamplingOptions {
  /** Draws a different answer; two choices of one request have different ones. */
  readonly draw: number
  readonly allowedTokens?: readonly number[] | undefined
}

export function sampleToken(tokens: readonly number[], tokenizer: SimTokenizer, options: SamplingOptions): number {
  // The last tokens and the length, not all of them: constant work per token, and loops cannot form.
  let mixed = Math.imul(tokens.length + 1, 0x9e3779b1) ^ Math.imul(options.draw + 1, 0x85ebca6b)
  for (let index = Math.max(0, tokens.length - 4); index < tokens.length; index++)
    mixed = Math.imul(mixed ^ tokens[index]!, 0x2c1b3c6d) ^ (mixed >>> 15)
  mixed = (mixed ^ (mixed >>> 13)) >>> 0
  const { allowedTokens } = options
  if (allowedTokens?.length) return allowedTokens[mixed % allowedTokens.length]!
  const { from, to } = tokenizer.wordIds
  return from + (mixed % (to - from))
}

/** Where an answer ends by itself when the client set no limit: 16 to 271 tokens, by the prompt. */
export function answerTokens(prompt: readonly number[]): number {
  let mixed = prompt.length
  for (let index = Math.max(0, prompt.length - 8); index < prompt.length; index++)
    mixed = Math.imul(mixed ^ prompt[index]!, 0x9e3779b1)
  return 16 + ((mixed >>> 8) & 255)
}
