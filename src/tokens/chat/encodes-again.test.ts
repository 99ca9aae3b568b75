// Goal: the tokens of chats without media of a model that takes media, behind SGLang, which makes a text of them again.
// Method: what the code of SGLang 0.5.23 (`_convert_to_internal_request`, `_make_request`) hands on with `is_multimodal` on and off, encoded by
// the tokenizer in test/fixtures/tinyllama, which puts `<s>` before every text.
import { afterAll, describe, expect, it } from 'vitest'
import { loadModel } from '../model/loaded-model.js'
import { ModelTokens } from '../model/model-tokens.js'
import { compareWithEngine } from '../parity/compare-with-engine.js'
import { TokenPool } from '../pool/pool.js'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import { isUsuallyEncodedAgain } from '../sources/own-renderers.js'
import { parseTemplate } from '../template/parse.js'

const pool = new TokenPool({ threads: 1 })
const loaded = loadModel(tinyllamaFolder, 'again')
afterAll(() => pool.close())

const source = '{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}</s>{% endfor %}'
const templates = [{ name: 'default', source, parsed: parseTemplate(source) }]

function modelOf(isEncodedAgain: boolean | undefined, dialect: 'vllm' | 'sglang' = 'sglang'): ModelTokens {
  const key = `again ${isEncodedAgain} ${dialect}`
  return new ModelTokens({ ...loaded, key, templates, isEncodedAgain }, pool, { rules: { dialect } })
}

const messages = [{ role: 'user', content: 'Hello  world é' }]
const once = [1, 29966, 29989, 1792, 29989, 29958, 13, 10994, 29871, 3186, 904, 2]

describe.each([
  { route: 'chat', body: { messages }, off: once, on: [1, ...once] },
  { route: 'messages', body: { messages, max_tokens: 5 }, off: once, on: [1, ...once] },
  { route: 'responses', body: { input: 'Hello  world é' }, off: once, on: [1, ...once] },
  {
    route: 'chat',
    body: { messages: [...messages, { role: 'assistant', content: ' so' }], continue_final_message: true },
    off: [...once, 577],
    on: [1, ...once, 577],
  },
] as const)('$route', ({ route, body, off, on }) => {
  const tokensOf = async (model: ModelTokens): Promise<object> => {
    const { ids, exactness } = await model.tokenize(route, body)
    const inThread = await model.tokenize(route, undefined, { raw: new TextEncoder().encode(JSON.stringify(body)) })
    expect([...inThread.ids]).toEqual([...ids])
    expect(inThread.exactness).toBe(exactness)
    return { ids: [...ids], exactness }
  }

  it('has its special tokens twice where the model takes media', async () => {
    expect(await tokensOf(modelOf(true))).toEqual({ ids: on, exactness: 'expected' })
  })

  it('has them once where it takes media only if SGLang was told so, which is not known', async () => {
    expect(await tokensOf(modelOf(false))).toEqual({ ids: off, exactness: 'expected' })
  })

  it('has them once where it takes none', async () => {
    expect(await tokensOf(modelOf(undefined))).toEqual({ ids: off, exactness: 'proven' })
  })
})

it('is proven of a model that takes media where the tokenizer adds nothing, but for responses', async () => {
  const plan = JSON.parse(new TextDecoder().decode(new Uint8Array(loaded.plan).slice())) as object
  const bytes = new TextEncoder().encode(JSON.stringify({ ...plan, specialsBefore: [], specialsAfter: [] }))
  const shared = new SharedArrayBuffer(bytes.length)
  new Uint8Array(shared).set(bytes)
  const bare = { ...loaded, key: 'again bare', plan: shared, templates, isEncodedAgain: true }
  const model = new ModelTokens(bare, pool, { rules: { dialect: 'sglang' } })
  expect(await model.tokenize('chat', { messages })).toMatchObject({ exactness: 'proven' })
  expect(await model.tokenize('responses', { input: 'Hello' })).toMatchObject({ exactness: 'expected' })
})

it.each([
  { isUsual: true, takesMedia: false, wanted: once },
  { isUsual: false, takesMedia: true, wanted: [1, ...once] },
])('goes by what SGLang was told of media: $takesMedia', async ({ isUsual, takesMedia, wanted }) => {
  const { ids } = await modelOf(isUsual).tokenize('chat', { messages }, { rules: { dialect: 'sglang', takesMedia } })
  expect([...ids]).toEqual(wanted)
})

it('leaves vLLM and texts as they are', async () => {
  const { ids, exactness } = await modelOf(true, 'vllm').tokenize('chat', { messages })
  expect({ ids: [...ids], exactness }).toEqual({ ids: once, exactness: 'proven' })
  expect(await modelOf(true).tokenize('completions', { prompt: 'Hello' })).toMatchObject({ exactness: 'proven' })
})

it('is no difference from what the tokenize endpoint answers, which does not encode again', async () => {
  const [model, engine] = [modelOf(true), modelOf(undefined)]
  expect(await compareWithEngine(model, engine, 'm')).toEqual({ compared: 4, difference: undefined })
})

it.each([
  { config: { architectures: ['Mistral3ForConditionalGeneration'], text_config: {}, vision_config: {} }, wanted: true },
  { config: { architectures: ['Gemma3ForConditionalGeneration'], text_config: {} }, wanted: false },
  { config: { architectures: ['LlamaForCausalLM'] }, wanted: undefined },
  { config: undefined, wanted: undefined },
  { config: { text_config: {}, architectures: 'odd' }, wanted: true },
])('$config.architectures is encoded again: $wanted', ({ config, wanted }) => {
  expect(isUsuallyEncodedAgain(config)).toBe(wanted)
})
