/** The five real tokenizers as loaded models, TinyLlama in both ways that engines mark its words; with an encoder that forgets beside each. */
import { tokenizerFolder } from '../../../bench/tokens/texts.js'
import { Encoder } from '../encode/encoder.js'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import type { EncoderPlan } from '../vocabulary/plan.js'
import { viewVocabulary } from '../vocabulary/vocabulary.js'
import type { LoadedModel } from './loaded-model.js'
import { loadModel, readShared } from './loaded-model.js'

export interface ModelCase {
  readonly name: string
  readonly loaded: LoadedModel
  /** What the text has, for vLLM, when nothing is remembered of any other. */
  readonly uncached: (text: string, addSpecialTokens: boolean) => Uint32Array
  /** The same, with the special tokens of its files where they are asked for, whatever engines do. */
  readonly uncachedAsAsked: (text: string, addSpecialTokens: boolean) => Uint32Array
}

/** `purpose` keeps the encoders that a thread has for these models apart from those of others. */
export function everyModel(purpose: string): readonly ModelCase[] {
  const of = (name: string, loaded: LoadedModel): ModelCase => {
    const plan = JSON.parse(readShared(loaded.plan)) as EncoderPlan
    const forgetful = new Encoder(plan, viewVocabulary(loaded.vocabulary!))
    const uncachedAsAsked = (text: string, addSpecialTokens: boolean): Uint32Array => {
      forgetful.clearCaches()
      return forgetful.encode(text, addSpecialTokens)
    }
    const uncached = (text: string, addSpecialTokens: boolean): Uint32Array =>
      uncachedAsAsked(text, addSpecialTokens && plan.specialsBut?.vllm !== 'none')
    return { name, loaded, uncached, uncachedAsAsked }
  }
  return [
    of('Qwen3', loadModel(tokenizerFolder('qwen3'), `${purpose} qwen3`)),
    of('Llama 3', loadModel(tokenizerFolder('llama3'), `${purpose} llama3`)),
    of('DeepSeek V3', loadModel(tokenizerFolder('deepseek_v3'), `${purpose} deepseek`)),
    of('GPT-2', loadModel(tokenizerFolder('gpt2'), `${purpose} gpt2`)),
    of('TinyLlama, marked once', loadModel(tinyllamaFolder, `${purpose} tiny`)),
    of('TinyLlama, marked at sections', loadModel(tinyllamaFolder, `${purpose} marks`, { llamaPrefix: 'file' })),
  ]
}
