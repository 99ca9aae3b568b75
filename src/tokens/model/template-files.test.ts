// Goal: the template that an engine finds in a model's folder, whatever files lie in it.
// Method: 96 folders and what vLLM 0.32.0 and SGLang 0.5.23 found in them by transformers (test/fixtures/transformers).
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { ChatTemplates } from '../chat/chat-template.js'
import type { Dialect } from '../chat/request.js'
import { readTemplates } from './template-files.js'

interface Row {
  readonly processor: boolean
  readonly P: boolean
  readonly J: boolean
  readonly X: boolean
  readonly A: boolean
  readonly T: '' | 'T' | 'L' | 'M'
  readonly vllm: unknown
  readonly vllm_tools: unknown
  readonly sglang: unknown
}

const file = new URL('../../../test/fixtures/transformers/template-files.json', import.meta.url)
const { rows } = JSON.parse(readFileSync(file, 'utf8')) as { readonly rows: readonly Row[] }
const folders = mkdtempSync(join(tmpdir(), 'warmroute-template-files-'))
afterAll(() => rmSync(folders, { recursive: true, force: true }))

const lists = {
  L: [
    { name: 'default', template: 'Ld' },
    { name: 'tool_use', template: 'Lt' },
  ],
  M: [
    { name: 'rag', template: 'Mr' },
    { name: 'tool_use', template: 'Mt' },
    { name: 'default', template: 'Md' },
  ],
}

let made = 0

function found(row: Row, others: readonly string[] = ['model.safetensors']): (has: boolean, of: Dialect) => unknown {
  const folder = join(folders, String(made++))
  mkdirSync(join(folder, 'additional_chat_templates'), { recursive: true })
  const write = (name: string, text: string): void => writeFileSync(join(folder, name), text)
  if (row.processor) write('preprocessor_config.json', '{}')
  if (row.processor) write('processor_config.json', JSON.stringify(row.P ? { chat_template: 'P' } : {}))
  if (row.J) write('chat_template.json', '{"chat_template":"J"}')
  if (row.X) write('chat_template.jinja', 'X')
  if (row.A) write('additional_chat_templates/tool_use.jinja', 'A')
  const config = row.T === '' ? {} : { chat_template: row.T === 'T' ? 'T' : lists[row.T] }
  const { templates } = readTemplates(folder, [...readdirSync(folder), ...others], config)
  const chats = new ChatTemplates(templates, {})
  return (hasTools, dialect) => {
    const chosen = chats.choose(hasTools, dialect)
    const limits = { stepsMax: 100, outputMax: 100, deadlineMs: 1000 }
    return chosen?.template.render({}, { limits, now: () => 0, date: () => new Date(0) }) ?? null
  }
}

describe.each(rows)('processor $processor, P $P, J $J, X $X, A $A, T $T', (row) => {
  it.each([
    ['vllm', false, row.vllm],
    ['vllm', true, row.vllm_tools],
    ['sglang', false, row.sglang],
    ['sglang', true, row.sglang],
  ] as const)('%s, with tools: %s', (dialect, hasTools, wanted) => {
    // Where it finds none, or several for one, it refuses the request or does not start.
    if (wanted === null || typeof wanted === 'object' || wanted === 'start fails') return
    expect(found(row)(hasTools, dialect)).toBe(wanted)
  })
})

it('takes a template that only processors read for the sign of one, where the folder has nothing but a tokenizer', () => {
  const row: Row = {
    processor: false,
    P: false,
    J: true,
    X: true,
    A: false,
    T: 'T',
    vllm: '',
    vllm_tools: '',
    sglang: '',
  }
  const choose = found(row, [])
  expect([choose(false, 'vllm'), choose(true, 'vllm'), choose(true, 'sglang')]).toEqual(['J', 'X', 'J'])
})

describe('a folder by itself', () => {
  const files = (contents: Readonly<Record<string, string>>): string => {
    const folder = join(folders, String(made++))
    mkdirSync(join(folder, 'additional_chat_templates'), { recursive: true })
    for (const [name, text] of Object.entries(contents)) writeFileSync(join(folder, name), text)
    return folder
  }
  const named = (folder: string, names: readonly string[], config = {}): readonly (readonly [string, string])[] =>
    readTemplates(folder, names, config).templates.map(({ name, source }) => [name, source])

  it.each(['processor_config.json', 'preprocessor_config.json'])('has a processor where it has %s', (name) => {
    const folder = files({ 'chat_template.json': '{"chat_template":"J"}', 'chat_template.jinja': 'X' })
    expect(named(folder, [name, 'model.safetensors'])[0]).toEqual(['default', 'J'])
    expect(named(folder, ['model.safetensors'])[0]).toEqual(['default', 'X'])
  })

  it('of two templates of one name the last is beside that of a processor', () => {
    const folder = files({ 'chat_template.json': '{"chat_template":"J"}' })
    const chat_template = ['1', '2'].map((template) => ({ name: 'default', template }))
    expect(named(folder, ['processor_config.json'], { chat_template })[1]?.[1]).toBe('2')
  })

  it('may have other files beside its named templates', () => {
    const folder = files({ 'additional_chat_templates/rag.jinja': 'R', 'additional_chat_templates/notes.txt': 'N' })
    expect(named(folder, [])).toEqual([['rag', 'R']])
  })

  it.each(['chat_template.jinja', 'additional_chat_templates/rag.jinja'])(
    'has no template of more than 4 MB: %s',
    (name) => {
      expect(named(files({ [name]: 'x'.repeat(4 << 20) }), [])).toHaveLength(1)
      expect(() => named(files({ [name]: 'x'.repeat((4 << 20) + 1) }), [])).toThrow(
        expect.objectContaining({ code: 'WR_TOKENS_BAD_TOKENIZER' }) as Error,
      )
    },
  )
})
