import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { ChatTemplates, renderChat } from '../chat/chat-template.js'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import { loadModel } from './loaded-model.js'

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
  const render = (hasTools: boolean): string | undefined => {
    const chosen = templates.choose(hasTools)
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
  return { plain: render(false), tools: render(true), problem: loaded.templateProblem }
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
    says: 'chat_template.json before the configuration',
    files: { config: { chat_template: 'C' }, json: { chat_template: 'J' } },
    wanted: { plain: 'J', tools: 'J' },
  },
  {
    says: 'chat_template.jinja before both',
    files: { config: { chat_template: 'C' }, json: { chat_template: 'J' }, jinja: 'F' },
    wanted: { plain: 'F', tools: 'F' },
  },
  {
    says: 'named ones from the folder beside chat_template.jinja',
    files: { jinja: 'F', toolUse: 'U' },
    wanted: { plain: 'F', tools: 'U' },
  },
])('takes $says', ({ files, wanted }) => {
  expect(rendered(files)).toMatchObject(wanted)
})

it('says what is wrong with a template that cannot be parsed, and keeps the tokenizer', () => {
  const { plain, problem } = rendered({ jinja: '{% if %}' })
  expect(plain).toBeUndefined()
  expect(problem).toBeTruthy()
})

it.each([
  { says: 'the tokenizer alone', config: undefined, idMax: 31_999 },
  { says: 'a longer embedding', config: '{"vocab_size":32064}', idMax: 32_063 },
  { says: 'the tokenizer beside a config.json that is no JSON', config: '{', idMax: 31_999 },
])('knows the highest id by $says', ({ config, idMax }) => {
  if (config !== undefined) writeFileSync(join(folder, 'config.json'), config)
  expect(loadModel(folder, 'test').idMax).toBe(idMax)
})
