/** What the two engines say alike of a response. */
import type { Json } from './exchange.js'

export interface ResponseHead {
  readonly id: string
  readonly messageId: string
  readonly created: number
  readonly model: string
}

export function textPart(text: string): Json {
  return { annotations: [], text, type: 'output_text', logprobs: null }
}
