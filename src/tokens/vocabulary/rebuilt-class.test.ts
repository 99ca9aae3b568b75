// Goal: files are not believed where engines build another tokenizer than they describe.
// Method: the files of DeepSeek V3, which calls its byte-level tokenizer Llama's, as those of models of other types.
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { tokenizerFolder } from '../../../bench/tokens/texts.js'
import { Encoder } from '../encode/encoder.js'
import { loadModel, readShared } from '../model/loaded-model.js'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import type { EncoderPlan } from './plan.js'
import { whyRebuilt } from './rebuilt-class.js'
import { viewVocabulary } from './vocabulary.js'

const folder = mkdtempSync(join(tmpdir(), 'warmroute-rebuilt-'))
for (const file of ['tokenizer.json', 'tokenizer_config.json'])
  copyFileSync(join(tokenizerFolder('deepseek_v3'), file), join(folder, file))
afterAll(() => rmSync(folder, { recursive: true }))

it.each([
  { says: 'its own type', config: { model_type: 'deepseek_v3' }, isBelieved: true },
  { says: 'another that has its file read', config: { model_type: 'qwen2' }, isBelieved: true },
  { says: 'no type', config: {}, isBelieved: true },
  { says: "Llama's type", config: { model_type: 'llama' }, isBelieved: false },
  { says: 'one more that has not', config: { model_type: 'qwen3' }, isBelieved: false },
])('a byte-level tokenizer that is called that of Llama is believed with $says: $isBelieved', (row) => {
  writeFileSync(join(folder, 'config.json'), JSON.stringify(row.config))
  if (row.isBelieved) expect(loadModel(folder, 'believed').vocabulary).toBeDefined()
  else expect(() => loadModel(folder, 'rebuilt')).toThrow(`model_type ${row.config.model_type}`)
})

it('others are not asked for their type', () => {
  for (const name of ['PreTrainedTokenizerFast', 'Qwen2Tokenizer', undefined])
    expect(whyRebuilt(name === undefined ? {} : { tokenizer_class: name }, { model_type: 'llama' })).toBeUndefined()
  const llama = { tokenizer_class: 'LlamaTokenizer' }
  for (const broken of [undefined, null, [], 'text', { model_type: 5 }])
    expect(whyRebuilt(llama, broken)).toBeUndefined()
})

// As transformers 5.19.0 encodes with TinyLlama's files, whose class is Llama's, beside a `config.json` of each type.
const texts = ['hello', '<s>hello', '</s> hi<s>hello', 'a</s>b', '<s>[INST] hi [/INST]', '  two', '\n<s>x', '</s>▁y']
const asLlama = [
  [22_172],
  [1, 12_199],
  [2, 7251, 1, 12_199],
  [263, 2, 29_890],
  [1, 29_961, 25_580, 29_962, 7251, 518, 29_914, 25_580, 29_962],
  [29_871, 1023],
  [29_871, 13, 1, 29_916],
  [2, 343],
] // prettier-ignore
const asWritten = [
  [22_172],
  [1, 22_172],
  [2, 29_871, 7251, 1, 22_172],
  [263, 2, 289],
  [1, 518, 25_580, 29_962, 7251, 518, 29_914, 25_580, 29_962],
  [259, 1023],
  [29_871, 13, 1, 921],
  [2, 29_871, 343],
] // prettier-ignore

it.each([
  { type: 'llama', wanted: asLlama },
  { type: 'mistral', wanted: asWritten },
  { type: 'mixtral', wanted: asWritten },
  { type: 'phi3', wanted: asWritten },
  { type: undefined, wanted: asLlama },
])('a sentencepiece tokenizer that is called that of Llama has the steps of its type: $type', ({ type, wanted }) => {
  const tiny = mkdtempSync(join(tmpdir(), 'warmroute-rebuilt-'))
  try {
    for (const file of ['tokenizer.json.gz', 'tokenizer_config.json'])
      copyFileSync(join(tinyllamaFolder, file), join(tiny, file))
    writeFileSync(join(tiny, 'config.json'), JSON.stringify({ model_type: type }))
    const { plan, vocabulary } = loadModel(tiny, `rebuilt ${type}`)
    const encoder = new Encoder(JSON.parse(readShared(plan)) as EncoderPlan, viewVocabulary(vocabulary!))
    expect(texts.map((text) => [...encoder.encode(text, false)])).toEqual(wanted)
  } finally {
    rmSync(tiny, { recursive: true })
  }
})
