/** An engine that tells what its texts are made of, from a model's own files. Shared by the tests of what is learnt from it. */
import type { PromptRules } from '../chat/build-prompt.js'
import { buildPrompt, plainRules } from '../chat/build-prompt.js'
import { ChatTemplates, renderChat } from '../chat/chat-template.js'
import type { Body, Route } from '../chat/request.js'
import { Encoder } from '../encode/encoder.js'
import type { LoadedModel } from '../model/loaded-model.js'
import { readShared } from '../model/loaded-model.js'
import type { EncoderPlan } from '../vocabulary/plan.js'
import { viewVocabulary } from '../vocabulary/vocabulary.js'

export interface ToldEngine {
  /** The answer to `/tokenizer_info`, in the form of vLLM 0.32.0: added tokens by their text alone. */
  readonly info: Readonly<Record<string, unknown>>
  /** As `/tokenize` does. */
  encode(text: string, addSpecialTokens: boolean): Uint32Array
  /** As a render endpoint does. */
  render(route: Route, body: Body): Uint32Array
}

export function toldEngine(loaded: LoadedModel, rules: Partial<PromptRules> = {}): ToldEngine {
  const plan = JSON.parse(readShared(loaded.plan)) as EncoderPlan
  const encoder = new Encoder(plan, viewVocabulary(loaded.vocabulary!))
  const templates = new ChatTemplates(loaded.templates, loaded.specials)
  const encode = (text: string, addSpecialTokens: boolean): Uint32Array => {
    encoder.clearCaches()
    return encoder.encode(text, addSpecialTokens)
  }
  const limits = { stepsMax: Infinity, outputMax: 1 << 24, deadlineMs: 10_000 }
  const options = { limits, now: () => performance.now(), date: () => new Date(0) }
  return {
    encode,
    info: {
      tokenizer_class: 'TokenizerPoolCachedLlamaTokenizer',
      ...loaded.specials,
      chat_template: loaded.templates[0]?.source,
      added_tokens_decoder: Object.fromEntries(plan.addedTokens.map(({ id, content }) => [String(id), content])),
      backend: 'tokenizers',
    },
    render(route, body) {
      const prompt = buildPrompt(route, body, { ...plainRules, ...rules }, (hasTools) => templates.choose(hasTools)!)
      if (prompt.kind === 'ids') throw new Error('no text')
      const text = prompt.kind === 'text' ? prompt.texts[0]! : renderChat(prompt.chosen, prompt.render, options)
      return encode(text, prompt.addSpecialTokens)
    },
  }
}
