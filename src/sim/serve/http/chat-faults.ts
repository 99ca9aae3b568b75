/** What faults make of a conversation on its way to tokens. */
import type { SimServer } from '../sim-engine.js'
import type { ChatMessage } from '../tokenizer.js'

/** A template of another revision puts a sentence of its own before everything. */
export function templated(server: SimServer, messages: readonly ChatMessage[]): readonly ChatMessage[] {
  return server.faults.strike('template_drift')
    ? [{ role: 'system', content: 'Knowledge ends some day.' }, ...messages]
    : messages
}

/** Another tokenizer: as many tokens, and others. */
export function misread(server: SimServer, tokens: number[]): number[] {
  return server.faults.strike('wrong_tokenizer') ? tokens.map((token) => (token > 258 ? token - 1 : token)) : tokens
}
