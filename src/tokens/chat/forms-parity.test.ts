// Goal: the tokens that the engines make of chats in every form: calls with object and with string arguments, floats, empty objects and
// unicode in calls and schemas, thoughts, parts, continued messages, template arguments, named templates.
// Method: 90 bodies under seven templates and four tokenizers, as vLLM 0.32.0 rendered them and the code of SGLang 0.5.23 did.
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { afterAll, describe, expect, it } from 'vitest'
import { tokenizerFolder } from '../../../bench/tokens/texts.js'
import type { LoadedModel } from '../model/loaded-model.js'
import { loadModel } from '../model/loaded-model.js'
import { ModelTokens } from '../model/model-tokens.js'
import { TokenPool } from '../pool/pool.js'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import { parseTemplate } from '../template/parse.js'
import type { Body, Dialect } from './request.js'

interface Form {
  readonly template: string
  /** Of the line that begins a template; those of the model itself where there are none. */
  readonly tokenizer?: 'tinyllama' | 'qwen3' | 'llama3' | 'deepseek_v3'
  readonly templates?: readonly { readonly name: string; readonly template: string }[]
  readonly name: string
  /** As it was sent: `1.0` is not `1`. */
  readonly request_text: string
  /** Absent where the engine refused it. */
  readonly token_ids?: readonly number[]
}

const pool = new TokenPool({ threads: 1 })
afterAll(() => pool.close())

const loaded = new Map<string, LoadedModel>()
function load(tokenizer: NonNullable<Form['tokenizer']>): LoadedModel {
  const folder = tokenizer === 'tinyllama' ? tinyllamaFolder : tokenizerFolder(tokenizer)
  // Beside DeepSeek's files lies no `config.json` that says whose they are.
  const reading = tokenizer === 'deepseek_v3' ? 'written' : 'built'
  const model = loaded.get(tokenizer) ?? loadModel(folder, `forms ${tokenizer}`, reading)
  loaded.set(tokenizer, model)
  return model
}

function formsOf(dialect: Dialect): readonly Form[] {
  const bytes = readFileSync(new URL(`../../../test/fixtures/${dialect}/chat-forms.jsonl.gz`, import.meta.url))
  return gunzipSync(bytes)
    .toString('utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Form)
}

function modelOf({ template, tokenizer, templates }: Form, dialect: Dialect): ModelTokens {
  const model = load(tokenizer!)
  const named = templates?.map(({ name, template: source }) => ({ name, source, parsed: parseTemplate(source) }))
  const key = `${dialect} ${template}`
  return new ModelTokens(named ? { ...model, key, templates: named } : model, pool, { rules: { dialect } })
}

describe.each(['vllm', 'sglang'] as const)('%s', (dialect) => {
  const lines = formsOf(dialect)
  const models = new Map(lines.flatMap((it) => (it.tokenizer ? [[it.template, modelOf(it, dialect)]] : [])))
  const forms = lines.filter(({ tokenizer }) => !tokenizer)
  const tokenize = ({ template, request_text: text }: Form) =>
    models.get(template)!.tokenize('chat', JSON.parse(text) as Body, { raw: new TextEncoder().encode(text) })

  it('has seven templates and every form', () => {
    expect(models.size).toBe(7)
    expect(forms).toHaveLength(7 * 90)
    expect(forms.filter(({ token_ids: ids }) => ids).length).toBeGreaterThan(7 * 65)
  })

  it.each([...models.keys()])('%s: as the engine has them', async (template) => {
    for (const form of forms.filter((it) => it.template === template)) {
      const { name, token_ids: wanted } = form
      if (wanted) {
        const { ids, exactness } = await tokenize(form)
        expect({ name, exactness, ids: [...ids] }).toEqual({ name, exactness: 'proven', ids: wanted })
      } else if (dialect === 'vllm' && name.startsWith('object arguments')) continue
      else await expect(tokenize(form), name).rejects.toThrow()
    }
  })
})

// vLLM 0.32.0 takes arguments as JSON only. Where another version takes objects, it renders what transformers renders, and SGLang does that.
describe('object arguments under the rules of vLLM', () => {
  const forms = formsOf('vllm')
  const models = new Map(forms.flatMap((it) => (it.tokenizer ? [[it.template, modelOf(it, 'vllm')]] : [])))
  const objects = forms.filter(({ name }) => name?.startsWith('object arguments'))
  const idsOf = async (template: string, text: string) =>
    models.get(template)!.tokenize('chat', JSON.parse(text) as Body, { raw: new TextEncoder().encode(text) })

  it('are refused by vLLM 0.32.0', () => {
    expect(objects.length).toBeGreaterThan(60)
    expect(objects.filter(({ token_ids: ids }) => ids)).toEqual([])
  })

  it('have the tokens of the same arguments as JSON, and do not count as proven', async () => {
    let compared = 0
    for (const { template, name, request_text: text } of objects) {
      const twin = forms.find((it) => it.template === template && it.name === name.replace('object', 'string'))
      if (!twin?.token_ids) continue
      const { ids, exactness } = await idsOf(template, text)
      expect({ template, name, exactness, ids: [...ids] }).toEqual({
        template,
        name,
        exactness: 'expected',
        ids: twin.token_ids,
      })
      compared++
    }
    expect(compared).toBeGreaterThan(40)
  })
})
