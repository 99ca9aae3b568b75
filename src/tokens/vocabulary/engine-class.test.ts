// Goal: a tokenizer is taken for the class that engines take it for, whatever its files call it.
// Method: what `AutoTokenizer` of transformers 5.19.0 took for every type of model that it knows and for 25 ways to call the class.
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { isBuiltClass } from './built-classes.js'
import { engineClassOf } from './engine-class.js'

interface Row {
  readonly types: readonly string[]
  /** By what `tokenizer_config.json` says; nothing: no class. Null: no tokenizer comes of it. */
  readonly taken: Readonly<Record<string, string | null>>
}

const recorded = new URL('../../../test/fixtures/transformers/tokenizer-classes.json.gz', import.meta.url)
const { rows } = JSON.parse(gunzipSync(readFileSync(recorded)).toString('utf8')) as { readonly rows: readonly Row[] }

it('the class is the one that engines take', () => {
  let compared = 0
  for (const { types, taken } of rows)
    for (const [said, name] of Object.entries(taken)) {
      if (name === null) continue
      const wanted = name === 'TokenizersBackend' ? 'file' : name.replace(/Tokenizer$/, '')
      if (said === '' && wanted !== 'file' && !isBuiltClass(wanted)) continue // models that write no texts
      for (const type of types) {
        const own = engineClassOf(said === '' ? {} : { tokenizer_class: said }, { model_type: type })
        const isKnown = wanted === 'file' || isBuiltClass(wanted)
        expect({ type, said, name: own.name, isKnown: own.unsure === undefined || own.name === 'CodeLlama' }).toEqual({
          type,
          said,
          name: isKnown ? wanted : 'file',
          isKnown,
        })
        compared++
      }
    }
  expect(compared).toBeGreaterThan(15_000)
})

it.each([
  { says: 'a tokenizer with code of its own', config: { auto_map: { AutoTokenizer: ['a.B', null] } } },
  { says: 'the older form of that', config: { auto_map: ['a.B', null] } },
  { says: 'a class that nobody compared', config: { tokenizer_class: 'WhisperTokenizerFast' } },
  { says: 'one that puts some texts together anew', config: { tokenizer_class: 'CodeLlamaTokenizer' } },
])('nobody knows what an engine has: $says', ({ config }) => {
  expect(engineClassOf(config, { model_type: 'made_up' }).unsure).toBeDefined()
})

it.each([
  { says: 'code of the model alone', config: { auto_map: { AutoModel: 'a.B' } } },
  { says: 'nothing at all', config: {} },
])('$says says nothing of the tokenizer', ({ config }) => {
  for (const modelConfig of [undefined, null, [], 'text', { model_type: 5 }, {}])
    expect(engineClassOf(config, modelConfig)).toEqual({ name: 'file' })
})

it('the class is also read where only the model names it', () => {
  expect(engineClassOf({}, { model_type: 'llama', tokenizer_class: 'LlamaTokenizer' })).toEqual({ name: 'Llama' })
  expect(engineClassOf({ tokenizer_class: 'GPT2Tokenizer' }, { tokenizer_class: 'LlamaTokenizer' })).toEqual({
    name: 'GPT2',
  })
})
