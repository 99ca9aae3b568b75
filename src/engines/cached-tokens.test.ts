import { expect, it } from 'vitest'
import { reusableTokens } from './cached-tokens.js'

it.each([
  ['everything of a prompt that ends inside a block', 64, 70, 64],
  ['one block less of a prompt of exactly so many blocks', 64, 64, 48],
  ['nothing of a prompt of one block', 16, 16, 0],
  ['whole blocks only, where tiers were weighed', 52, 200, 48],
  ['nothing without credit', 0, 100, 0],
])('an engine reuses %s', (_says, credited, prompt, expected) => {
  expect(reusableTokens(credited, prompt, 16)).toBe(expected)
})

it.each([
  ['the last block that it holds', 64, 70, 48],
  ['one block besides that of the last token', 64, 64, 32],
  ['the only block', 16, 40, 0],
  ['nothing of nothing', 0, 100, 0],
])('vLLM gives up %s with EAGLE or MTP', (_says, credited, prompt, expected) => {
  expect(reusableTokens(credited, prompt, 16, true)).toBe(expected)
})
