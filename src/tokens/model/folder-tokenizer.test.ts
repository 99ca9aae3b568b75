import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import { FolderTokenizer } from './folder-tokenizer.js'

const folder = mkdtempSync(join(tmpdir(), 'warmroute-folder-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
copyFileSync(join(tinyllamaFolder, 'tokenizer.json.gz'), join(folder, 'tokenizer.json.gz'))
const template = '{% for message in messages %}[{{ message.content }}]{% endfor %}'
const chat_template = [
  { name: 'rag', template: 'rag' },
  { name: 'default', template },
]
writeFileSync(
  join(folder, 'tokenizer_config.json'),
  JSON.stringify({ chat_template, bos_token: '<s>', padding_side: 'left' }),
)
const tokenizer = new FolderTokenizer(folder)

it('shows the default template, wherever it stands among the named ones', () => {
  expect(tokenizer.templateSource).toBe(template)
})

it('has those names for templates that end in _token, and no other entry of the configuration', () => {
  expect(tokenizer.specials).toEqual({ bos_token: '<s>' })
})

it('ends the text of a chat that an SGLang goes on with in what is said already', () => {
  const messages = ['hi', 'well,'].map((content, at) => ({ role: at ? 'assistant' : 'user', content }))
  expect(tokenizer.renderChat({ messages, continue_final_message: true }, 'sglang')).toBe('ragwell,') // it takes the first template
})

it('renders no chat that comes as ids', () => {
  const body = { messages: [], nvext: { token_data: [9, 8, 7] } }
  expect(() => tokenizer.renderChat(body)).toThrow(expect.objectContaining({ reason: 'malformed' }) as Error)
})
