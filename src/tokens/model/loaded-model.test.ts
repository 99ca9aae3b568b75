import { copyFileSync, mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { ChatTemplates, renderChat } from '../chat/chat-template.js'
import type { Dialect } from '../chat/request.js'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import { TokenPool } from '../pool/pool.js'
import { loadModel } from './loaded-model.js'
import { ModelTokens } from './model-tokens.js'

const folder = mkdtempSync(join(tmpdir(), 'warmroute-model-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
copyFileSync(join(tinyllamaFolder, 'tokenizer.json.gz'), join(folder, 'tokenizer.json.gz'))

interface Files {
  readonly config?: unknown
  readonly jinja?: string
  readonly json?: unknown
  /** `additional_chat_templates/tool_use.jinja` */
  readonly toolUse?: string
}

/** What a chat of one message renders to, with and without tools. */
function rendered({ config = {}, jinja, json, toolUse }: Files): {
  plain: string | undefined
  tools: string | undefined
  /** With tools, by an SGLang. */
  sglang: string | undefined
  problem: string | undefined
} {
  for (const name of ['chat_template.jinja', 'chat_template.json']) rmSync(join(folder, name), { force: true })
  rmSync(join(folder, 'additional_chat_templates'), { recursive: true, force: true })
  if (toolUse !== undefined) {
    mkdirSync(join(folder, 'additional_chat_templates'))
    writeFileSync(join(folder, 'additional_chat_templates', 'tool_use.jinja'), toolUse)
  }
  writeFileSync(join(folder, 'tokenizer_config.json'), JSON.stringify(config))
  if (jinja !== undefined) writeFileSync(join(folder, 'chat_template.jinja'), jinja)
  if (json !== undefined) writeFileSync(join(folder, 'chat_template.json'), JSON.stringify(json))
  const loaded = loadModel(folder, 'test')
  const templates = new ChatTemplates(loaded.templates, loaded.specials)
  const render = (hasTools: boolean, dialect: Dialect = 'vllm'): string | undefined => {
    const chosen = templates.choose(hasTools, dialect)
    if (!chosen) return undefined
    const input = {
      messages: [{ role: 'user', content: 'x' }],
      tools: hasTools ? [] : null,
      documents: null,
      kwargs: {},
    }
    const limits = { stepsMax: 1000, outputMax: 1000, deadlineMs: 1000 }
    const options = { limits, now: () => 0, date: () => new Date(0) }
    return renderChat(chosen, { ...input, addGenerationPrompt: true, continueFinalMessage: false }, options)
  }
  return { plain: render(false), tools: render(true), sglang: render(true, 'sglang'), problem: loaded.templateProblem }
}

const list = [
  { name: 'default', template: 'D{{ bos_token }}' },
  { name: 'tool_use', template: 'T' },
]

it.each([
  { says: 'no template', files: {}, wanted: { plain: undefined, tools: undefined } },
  { says: 'one in the configuration', files: { config: { chat_template: 'C' } }, wanted: { plain: 'C', tools: 'C' } },
  {
    says: 'a list of named ones, and the one for tools where there are tools',
    files: { config: { chat_template: list, bos_token: { content: '<s>' } } },
    wanted: { plain: 'D<s>', tools: 'T' },
  },
  {
    says: 'chat_template.json before the configuration, but where vLLM has tools',
    files: { config: { chat_template: 'C' }, json: { chat_template: 'J' } },
    wanted: { plain: 'J', tools: 'C', sglang: 'J' },
  },
  {
    says: 'the one for tools of the configuration then',
    files: { config: { chat_template: list }, json: { chat_template: 'J' } },
    wanted: { plain: 'J', tools: 'T', sglang: 'J' },
  },
  {
    says: 'or its default',
    files: { config: { chat_template: list.slice(0, 1), bos_token: '<s>' }, json: { chat_template: 'J' } },
    wanted: { plain: 'J', tools: 'D<s>', sglang: 'J' },
  },
  {
    says: 'chat_template.json alone',
    files: { json: { chat_template: 'J' } },
    wanted: { plain: 'J', tools: 'J', sglang: 'J' },
  },
  {
    says: 'chat_template.jinja before the configuration, and chat_template.json before both where no tokenizer is asked',
    files: { config: { chat_template: 'C' }, json: { chat_template: 'J' }, jinja: 'F' },
    wanted: { plain: 'J', tools: 'F', sglang: 'J' },
  },
  {
    says: 'named ones from the folder beside chat_template.jinja',
    files: { jinja: 'F', toolUse: 'U' },
    wanted: { plain: 'F', tools: 'U' },
  },
])('takes $says', ({ files, wanted }) => {
  expect(rendered(files)).toMatchObject(wanted)
})

it.each([
  { dialect: 'vllm', wanted: 'Own' },
  { dialect: 'sglang', wanted: 'Json' },
] as const)('renders a chat with tools of $dialect so, on the loop and in a thread', async ({ dialect, wanted }) => {
  rendered({ config: { chat_template: 'Own' }, json: { chat_template: 'Json' } })
  const pool = new TokenPool({ threads: 1 })
  try {
    const model = new ModelTokens(loadModel(folder, `tools ${dialect}`), pool, { rules: { dialect } })
    const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }]
    const body = { messages: [{ role: 'user', content: 'x' }], tools }
    const raw = new TextEncoder().encode(JSON.stringify(body))
    const ids = [...(await model.encode(wanted, false))]
    for (const given of [body, undefined]) expect([...(await model.tokenize('chat', given, { raw })).ids]).toEqual(ids)
  } finally {
    await pool.close()
  }
})

it('says what is wrong with a template that cannot be parsed, and keeps the tokenizer', () => {
  const { plain, problem } = rendered({ jinja: '{% if %}' })
  expect(plain).toBeUndefined()
  expect(problem).toBeTruthy()
})

it('says that a chat template is neither a text nor a list of named ones', () => {
  const problem = 'chat_template is neither a text nor a list of named ones'
  for (const template of [5, { default: 'C' }, ['C'], [null], [{ name: 'default' }], [{ template: 'C' }]])
    expect(rendered({ config: { chat_template: template } })).toEqual({
      plain: undefined,
      tools: undefined,
      sglang: undefined,
      problem,
    })
})

it.each(['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja'])('does not read a huge %s', (name) => {
  const other = mkdtempSync(join(tmpdir(), 'warmroute-model-'))
  try {
    copyFileSync(join(tinyllamaFolder, 'tokenizer.json.gz'), join(other, 'tokenizer.json.gz'))
    writeFileSync(join(other, name), '')
    truncateSync(join(other, name), 3 * 2 ** 30) // takes no room: nothing was written
    const reason = `${name} is too large`
    expect(() => loadModel(other, 'test')).toThrow(expect.objectContaining({ details: { reason, folder: other } }))
  } finally {
    rmSync(other, { recursive: true })
  }
})

const words = { type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', vocab: { '[UNK]': 0, a: 1 } }
const spacesToMarks = { type: 'Replace', pattern: { String: ' ' }, content: '▁' }
it.each([
  { says: 'whose model is none that there is', file: { model: { ...words, type: 'Whole' } } },
  { says: 'for one of whose steps it has none', file: { model: words, normalizer: { type: 'Odd' } } },
  ...[1.5, -1, '7', null, 200_000_000].map((id) => ({
    says: `with a token whose id is ${id}`,
    file: { model: { type: 'BPE', byte_fallback: true, vocab: { a: id }, merges: [] }, normalizer: spacesToMarks },
  })),
  { says: 'whose steps are none', file: { model: words, pre_tokenizer: { type: 'Sequence', pretokenizers: 5 } } },
])('refuses a tokenizer $says', ({ file }) => {
  const other = mkdtempSync(join(tmpdir(), 'warmroute-model-'))
  try {
    const steps = { normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null }
    writeFileSync(join(other, 'tokenizer.json'), JSON.stringify({ added_tokens: [], ...steps, ...file }))
    expect(() => loadModel(other, 'test')).toThrow(expect.objectContaining({ code: 'WR_TOKENS_BAD_TOKENIZER' }))
  } finally {
    rmSync(other, { recursive: true })
  }
})

it.each([
  { says: 'the tokenizer alone', config: undefined, idMax: 31_999 },
  { says: 'a longer embedding', config: '{"vocab_size":32064}', idMax: 32_063 },
  { says: 'the tokenizer beside a config.json that is no JSON', config: '{', idMax: 31_999 },
])('knows the highest id by $says', ({ config, idMax }) => {
  if (config !== undefined) writeFileSync(join(folder, 'config.json'), config)
  expect(loadModel(folder, 'test').idMax).toBe(idMax)
})

// As transformers 5.19.0 reads such folders (`special_tokens_map` of the tokenizer).
it.each([
  { says: 'wins', decoder: {}, wanted: { bos_token: '[B]', eos_token: '</s>', image_token: '<img>' } },
  {
    says: 'is not read beside a list of added tokens',
    decoder: { added_tokens_decoder: {} },
    wanted: { bos_token: '<s>', eos_token: '</s>', image_token: '<img>' },
  },
])('what special_tokens_map.json says $says', ({ decoder, wanted }) => {
  const other = mkdtempSync(join(tmpdir(), 'warmroute-special-map-'))
  try {
    const model = { type: 'BPE', vocab: { a: 0 }, merges: [] }
    const file = { added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null, model }
    const config = { bos_token: '<s>', eos_token: '</s>', extra_special_tokens: { image_token: '<img>' }, ...decoder }
    const map = { bos_token: { content: '[B]', lstrip: true, rstrip: false, normalized: false, single_word: false } }
    for (const [name, content] of Object.entries({
      tokenizer: file,
      tokenizer_config: config,
      special_tokens_map: map,
    }))
      writeFileSync(join(other, `${name}.json`), JSON.stringify(content))
    expect(loadModel(other, 'map').specials).toEqual(wanted)
  } finally {
    rmSync(other, { recursive: true })
  }
})

it.each(['special_tokens_map.json', 'added_tokens.json', 'tokenizer_config.json'])(
  '%s that is no object says nothing',
  (name) => {
    const other = mkdtempSync(join(tmpdir(), 'warmroute-null-'))
    try {
      copyFileSync(join(tinyllamaFolder, 'tokenizer.json.gz'), join(other, 'tokenizer.json.gz'))
      const without = loadModel(other, 'without').specials
      for (const content of ['null', '[]', '"text"', '5']) {
        writeFileSync(join(other, name), content)
        expect(loadModel(other, `with ${content}`).specials).toEqual(without)
      }
    } finally {
      rmSync(other, { recursive: true })
    }
  },
)
