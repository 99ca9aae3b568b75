/**
 * Where a body may carry token ids that an engine looks up unchecked: one that its model does not have ends the process (SGLang 0.5.23,
 * docs/decisions/0259). vLLM refuses such ids by itself.
 */
import type { EngineKind } from './engine-facts.js'

export interface IdField {
  readonly name: string
  /** Texts may stand there in place of ids; one text may everywhere. */
  readonly mayBeText: boolean
  /** Objects may, and no texts: a list of them is read as ids. */
  readonly mayBeObject?: boolean
  /** Another field whose ids stand before those of each list here: where it has any, a list may be empty. */
  readonly standsBehind?: string
}

/** By name, whatever the route: each is read by one of them at least, and none of them by another for anything else. */
export const idFields: Readonly<Partial<Record<EngineKind, readonly IdField[]>>> = {
  sglang: [
    { name: 'prompt', mayBeText: true }, // completions
    { name: 'input_ids', mayBeText: false }, // its own routes, and beside the messages of a chat
    { name: 'input', mayBeText: true }, // embeddings, classify
    { name: 'query', mayBeText: false, mayBeObject: true }, // score; rerank has parts with pictures here
    { name: 'items', mayBeText: true, standsBehind: 'query' },
    { name: 'stop_token_ids', mayBeText: false }, // where a request of the same batch has `min_tokens`
  ],
}
