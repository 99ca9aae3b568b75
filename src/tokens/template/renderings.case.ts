/** What tests of remembered renderings share. */
import type { Rendering } from './rendered-prefixes.js'
import { wholeText } from './rendered-prefixes.js'
import { newConstants } from './template.js'
import type { Value } from './values.js'

export interface Kept {
  readonly bytes: Uint8Array
}
export type Variables = Readonly<Record<string, Value>>

export const roomy = { stepsMax: Infinity, outputMax: 1 << 20, deadlineMs: 10_000 }
export const options = { limits: roomy, now: () => 0, date: () => new Date(2026, 10, 5) }
export const constants = newConstants({ bos_token: '<s>', eos_token: '</s>' })

export function keep(rendering: Rendering<Kept>): string {
  const text = wholeText(rendering)
  rendering.keep?.({ bytes: new TextEncoder().encode(text) })
  return text
}

export function conversation(length: number): Variables[] {
  return Array.from({ length }, (_, index) => ({ role: index % 2 ? 'assistant' : 'user', content: `turn ${index}` }))
}
