// Goal: where engines build a tokenizer of their own from a file's vocabulary, ours is that one.
// Method: 200 small folders made at random (`classes_at_random.py`, seed 7), and the ids that transformers 5.19.0 made of 14 texts with each.
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { afterAll, expect, it } from 'vitest'
import { tokenizerFolder } from '../../../bench/tokens/texts.js'
import { Encoder } from '../encode/encoder.js'
import type { LoadedModel } from '../model/loaded-model.js'
import { loadModel, readShared } from '../model/loaded-model.js'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import type { EncoderPlan, LibraryPlan } from './plan.js'
import { viewVocabulary } from './vocabulary.js'

interface Folder {
  readonly files: Readonly<Record<string, unknown>>
  readonly class: string
  /** Of each text without and with special tokens; null: it raised. */
  readonly ids: readonly (readonly (readonly number[])[])[] | null
}

const fixture = new URL('../../../test/fixtures/transformers/built-classes.json.gz', import.meta.url)
const { texts, folders } = JSON.parse(gunzipSync(readFileSync(fixture)).toString('utf8')) as {
  readonly texts: readonly string[]
  readonly folders: readonly Folder[]
}
const root = mkdtempSync(join(tmpdir(), 'warmroute-built-'))
afterAll(() => rmSync(root, { recursive: true }))

function load(name: string, files: Readonly<Record<string, unknown>>): LoadedModel {
  const folder = join(root, name)
  mkdirSync(folder, { recursive: true })
  for (const [file, content] of Object.entries(files)) writeFileSync(join(folder, file), JSON.stringify(content))
  return loadModel(folder, folder)
}

/** Undefined where our own paths do not encode. */
function encoderOf({ plan, vocabulary }: LoadedModel): Encoder | undefined {
  const read = JSON.parse(readShared(plan)) as EncoderPlan | LibraryPlan
  return read.kind === 'library' ? undefined : new Encoder(read, viewVocabulary(vocabulary!))
}

it('the ids are those of the engine, or are not called proven', () => {
  const encoded = new Map<string, number>()
  for (const [index, { files, class: name, ids }] of folders.entries()) {
    let loaded: LoadedModel
    try {
      loaded = load(`folder ${index}`, files)
    } catch {
      continue // the engine is asked
    }
    const encoder = encoderOf(loaded)
    if (loaded.unsure !== undefined || !encoder || !ids) continue
    const { specialsBut } = encoder.plan
    const own = texts.map((text) =>
      [false, true].map((special) => [...encoder.encode(text, special && specialsBut?.vllm !== 'none')]),
    )
    expect({ index, ids: own }).toEqual({ index, ids })
    encoded.set(name, (encoded.get(name) ?? 0) + 1)
  }
  const classes = 'TokenizersBackend Llama Gemma Qwen2 Qwen3_5 GPT2 Cohere GPTNeoX CodeGen'.split(' ')
  for (const name of classes)
    expect({ name, count: encoded.get(name) ?? encoded.get(`${name}Tokenizer`) ?? 0 }).toEqual({
      name,
      count: expect.toSatisfy((count: number) => count >= 3),
    })
})

const deepseek = Object.fromEntries(
  ['tokenizer.json', 'tokenizer_config.json'].map((file) => [
    file,
    JSON.parse(readFileSync(join(tokenizerFolder('deepseek_v3'), file), 'utf8')) as unknown,
  ]),
)

it.each([
  { says: 'its own type', config: { model_type: 'deepseek_v3' }, is: 'sure' },
  { says: 'no type', config: {}, is: 'unsure' },
  { says: 'a type with a tokenizer that cuts otherwise', config: { model_type: 'qwen2' }, is: 'sure' },
  { says: "Llama's type", config: { model_type: 'llama' }, is: 'refused' },
  { says: 'one more of those', config: { model_type: 'qwen3' }, is: 'refused' },
])("DeepSeek V3's files, which call their tokenizer Llama's, are $is with $says", ({ config, is }) => {
  const read = (): LoadedModel => load('deepseek', { ...deepseek, 'config.json': config })
  if (is === 'refused') expect(read).toThrow("engines take it for Llama's, which is sentencepiece, and it is not")
  else expect(read().unsure === undefined ? 'sure' : 'unsure').toBe(is)
})

it('numbers are cut as Qwen does where the type of the model says so', () => {
  const ids = (type: string): number[] => [
    ...encoderOf(load('deepseek', { ...deepseek, 'config.json': { model_type: type } }))!.encode('12345 67'),
  ]
  expect(ids('deepseek_v3')).toEqual([6895, 1883, 223, 3186])
  expect(ids('qwen2')).toEqual([19, 20, 21, 22, 23, 223, 24, 25])
})

// As transformers 5.19.0 encodes with TinyLlama's files, whose class is Llama's, beside a `config.json` of each type.
const marked = ['hello', '<s>hello', '</s> hi<s>hello', 'a</s>b', '<s>[INST] hi [/INST]', '  two', '\n<s>x', '</s>▁y']
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
  const name = `tiny ${type}`
  mkdirSync(join(root, name))
  for (const file of ['tokenizer.json.gz', 'tokenizer_config.json'])
    copyFileSync(join(tinyllamaFolder, file), join(root, name, file))
  const loaded = load(name, { 'config.json': { model_type: type } })
  expect(loaded.unsure === undefined).toBe(type !== undefined)
  expect(marked.map((text) => [...encoderOf(loaded)!.encode(text, false)])).toEqual(wanted)
})
