/**
 * The five real tokenizers as loaded models, TinyLlama in both ways that engines mark its words, and GPT-2 with steps that none of them has;
 * with an encoder that forgets beside each.
 */
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { tokenizerFolder } from '../../../bench/tokens/texts.js'
import { Encoder } from '../encode/encoder.js'
import { patternOfGptOss, readTokenizerText, splitBy, tinyllamaFolder } from '../real-tokenizers.case.js'
import type { EncoderPlan } from '../vocabulary/plan.js'
import type { TokenizerFile } from '../vocabulary/tokenizer-file.js'
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
    of('GPT-2, cut as gpt-oss', loadChanged(`${purpose} cased`, { pre_tokenizer: splitBy(patternOfGptOss) })),
    of('GPT-2, numbers cut out', loadChanged(`${purpose} digits`, { pre_tokenizer: digits })),
    of('TinyLlama, marked once', loadModel(tinyllamaFolder, `${purpose} tiny`)),
    of('TinyLlama, marked at sections', loadModel(tinyllamaFolder, `${purpose} marks`, 'switched')),
  ]
}

const digits = {
  type: 'Sequence',
  pretokenizers: [
    { type: 'Digits', individual_digits: false },
    { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
  ],
}

/** GPT-2's files with other steps, as a model of a type that has them read as they are. */
function loadChanged(key: string, change: Partial<TokenizerFile>): LoadedModel {
  const folder = mkdtempSync(join(tmpdir(), 'warmroute-changed-'))
  try {
    const file = JSON.parse(readTokenizerText('gpt2')) as TokenizerFile
    writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify({ ...file, ...change }))
    writeFileSync(join(folder, 'config.json'), JSON.stringify({ model_type: 'granite' }))
    copyFileSync(join(tokenizerFolder('gpt2'), 'tokenizer_config.json'), join(folder, 'tokenizer_config.json'))
    return loadModel(folder, key)
  } finally {
    rmSync(folder, { recursive: true })
  }
}
