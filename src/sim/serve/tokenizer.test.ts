import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createSimTokenizer } from './tokenizer.js'

const tokenizer = createSimTokenizer()

it('gives back every text', () => {
  const text = fc.oneof(fc.string({ unit: 'grapheme' }), fc.string(), fc.stringMatching(/^[a-z ]{0,40}$/))
  fc.assert(
    fc.property(text, (it) => {
      const tokens = tokenizer.encode(it, { isBosAdded: false })
      expect(tokenizer.decode(tokens)).toBe(it)
      for (const token of tokens) expect(token).toBeLessThan(tokenizer.vocabularySize)
    }),
  )
})

it('gives the turns of a conversation the same tokens when it goes on', () => {
  const turn = fc.record({ role: fc.constantFrom('user', 'assistant'), content: fc.string() })
  fc.assert(
    fc.property(fc.array(turn, { minLength: 1, maxLength: 5 }), turn, (messages, next) => {
      const before = tokenizer.encodeChat(messages, { isGenerationPromptAdded: false })
      const after = tokenizer.encodeChat([...messages, next], { isGenerationPromptAdded: true })
      expect(after.slice(0, before.length - 1)).toEqual(before.slice(0, -1)) // the line feed may join the next turn
    }),
  )
})

it('encodes a conversation as it encodes the rendered text', () => {
  const messages = [
    { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
    { role: 'tool', content: 'x' },
  ]
  const options = { isGenerationPromptAdded: true, tools: [{ name: 'f' }] }
  expect(tokenizer.decode(tokenizer.encodeChat(messages, options))).toBe(tokenizer.applyTemplate(messages, options))
  expect(tokenizer.encode('a', { isBosAdded: true })).toEqual([1, 100])
})
