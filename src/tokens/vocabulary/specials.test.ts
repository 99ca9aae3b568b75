// What stands around a text of a Llama tokenizer: its file and the switches of its configuration disagree, and engines believe one or the
// other. The ids of vLLM are those that `vllm launch render` (0.32.0, transformers 5.19.0) answered with DeepSeek V3's files and type.
import { afterAll, describe, expect, it } from 'vitest'
import { tokenizerFolder } from '../../../bench/tokens/texts.js'
import type { Body, Dialect, Route } from '../chat/request.js'
import { loadModel } from '../model/loaded-model.js'
import { ModelTokens } from '../model/model-tokens.js'
import { TokenPool } from '../pool/pool.js'
import { planEncoder } from './plan.js'
import type { TokenizerConfigFile, TokenizerFile } from './tokenizer-file.js'

const pool = new TokenPool({ threads: 1 })
afterAll(() => pool.close())
const deepseek = loadModel(tokenizerFolder('deepseek_v3'), 'specials')

interface Case {
  readonly route: Route
  readonly body: Body
  readonly vllm: readonly number[]
  readonly sglang: readonly number[]
}

const hello = { role: 'user', content: 'Hello' }
const cases: readonly Case[] = [
  { route: 'completions', body: { prompt: 'Hello world' }, vllm: [19_923, 2058], sglang: [0, 19_923, 2058] },
  { route: 'responses', body: { input: 'Hello' }, vllm: [0, 128_803, 19_923, 128_804], sglang: [0, 128_803, 19_923, 128_804] }, // biome-ignore format: a row
  { route: 'chat', body: { messages: [hello], add_special_tokens: true }, vllm: [0, 128_803, 19_923, 128_804], sglang: [0, 128_803, 19_923, 128_804] }, // biome-ignore format: a row
]

describe.each(['vllm', 'sglang'] as const)('DeepSeek V3, %s', (dialect) => {
  const model = new ModelTokens(deepseek, pool, { rules: { dialect } })

  it.each(cases)('$route', async ({ route, body, ...wanted }) => {
    const raw = new TextEncoder().encode(JSON.stringify(body))
    for (const given of [body, undefined]) {
      const { ids } = await model.tokenize(route, given, { raw })
      expect([...ids]).toEqual(wanted[dialect])
    }
  })
})

const template = (...parts: readonly string[]): TokenizerFile['post_processor'] => ({
  type: 'TemplateProcessing',
  single: parts.map((id) => (id === 'A' ? { Sequence: { id } } : { SpecialToken: { id } })),
  special_tokens: { '<s>': { ids: [1] }, '</s>': { ids: [2] } },
})

const file = (postProcessor: TokenizerFile['post_processor']): TokenizerFile => ({
  model: { type: 'BPE', vocab: { a: 0, '<s>': 1, '</s>': 2 }, merges: [] },
  added_tokens: [],
  normalizer: null,
  pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, use_regex: true },
  post_processor: postProcessor,
})
const named = { bos_token: '<s>', eos_token: '</s>' }
const llama = (more: TokenizerConfigFile = {}): TokenizerConfigFile => ({
  tokenizer_class: 'LlamaTokenizerFast',
  ...named,
  ...more,
})

it.each([
  {
    says: 'the file has none, the switch is on',
    post: null,
    config: llama({ add_bos_token: true }),
    around: [[1], []],
    but: { vllm: 'none' },
  },
  {
    says: 'the file has none, the switch is missing',
    post: null,
    config: llama(),
    around: [[1], []],
    but: { vllm: 'none' },
  },
  {
    says: 'the file has none, the switch is off',
    post: null,
    config: llama({ add_bos_token: false }),
    around: [[], []],
  },
  { says: 'both have one', post: template('<s>', 'A'), config: llama({ add_bos_token: true }), around: [[1], []] },
  {
    says: 'the file has one, the switch is off',
    post: template('<s>', 'A'),
    config: llama({ add_bos_token: false }),
    around: [[1], []],
  },
  {
    says: 'the file has two',
    post: template('<s>', 'A', '</s>'),
    config: llama({ add_bos_token: true, add_eos_token: true }),
    around: [[1], [2]],
    but: { sglang: 'other' },
  },
  {
    says: 'it is no class with such a switch',
    post: null,
    config: { tokenizer_class: 'Qwen2Tokenizer', ...named, add_bos_token: true },
    around: [[], []],
  },
  {
    says: 'transformers 4 goes by the switches',
    post: null,
    config: llama({ add_bos_token: true, add_eos_token: true }),
    isOld: true,
    around: [[1], [2]],
  },
])('special tokens: $says', ({ post, config, around, but, isOld }) => {
  // biome-ignore format: a table
  const plan = planEncoder(file(post), config, isOld ? { goesBySwitches: true } : {})
  expect([plan.specialsBefore, plan.specialsAfter]).toEqual(around)
  expect(plan.specialsBut).toEqual(but)
})

const isVllm = (dialect: Dialect): boolean => dialect === 'vllm'

it('what stands around a text is unknown where SGLang puts others there than the file says', async () => {
  const rules = { specialsBut: { sglang: 'other' } } as const
  for (const dialect of ['vllm', 'sglang'] as const) {
    const model = new ModelTokens(deepseek, pool, { rules: { dialect, ...rules } })
    const said = model.tokenize('completions', { prompt: 'Hello' })
    if (isVllm(dialect)) expect([...(await said).ids]).toEqual([0, 19_923])
    else await expect(said).rejects.toMatchObject({ reason: 'engine-settings' })
  }
})
