// Goal: files are not believed where engines build another tokenizer than they describe.
// Method: the files of DeepSeek V3, which calls its byte-level tokenizer Llama's, as those of models of other types.
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { tokenizerFolder } from '../../../bench/tokens/texts.js'
import { loadModel } from '../model/loaded-model.js'
import { whyRebuilt } from './rebuilt-class.js'

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
