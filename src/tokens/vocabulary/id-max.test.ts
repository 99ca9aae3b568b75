import { expect, it } from 'vitest'
import { idMaxOf } from './id-max.js'
import type { AddedTokenEntry, TokenizerFile } from './tokenizer-file.js'

const added = (id: number): AddedTokenEntry => ({ id, content: `<${id}>` }) as AddedTokenEntry

function idMax(vocab: unknown, ids: readonly number[], config?: unknown): number | undefined {
  return idMaxOf(fileOf(vocab, ids), {}, config)
}

function fileOf(vocab: unknown, ids: readonly number[]): TokenizerFile {
  return { model: { vocab }, added_tokens: ids.map(added) } as unknown as TokenizerFile
}

it.each([
  { says: 'the vocabulary', vocab: { a: 0, b: 7, c: 3 }, ids: [], max: 7 },
  {
    says: 'the list of a unigram model',
    vocab: [
      ['a', -1],
      ['b', -2],
    ],
    ids: [],
    max: 1,
  },
  { says: 'an added token', vocab: { a: 0, b: 7 }, ids: [5, 9], max: 9 },
  { says: 'the model, whose embedding is longer', vocab: { a: 0 }, ids: [9], config: { vocab_size: 64 }, max: 63 },
  {
    says: 'the part of the model that reads text',
    vocab: { a: 0 },
    ids: [],
    config: { text_config: { vocab_size: 32 } },
    max: 31,
  },
  {
    says: 'the tokenizer, though the embedding is shorter',
    vocab: { a: 0 },
    ids: [99],
    config: { vocab_size: 64 },
    max: 99,
  },
  {
    says: 'the tokenizer beside a model that says nonsense',
    vocab: { a: 4 },
    ids: [],
    config: { vocab_size: '64', text_config: null },
    max: 4,
  },
  { says: 'nobody', vocab: {}, ids: [], config: [], max: undefined },
])('the highest id is that of $says', ({ vocab, ids, config, max }) => {
  expect(idMax(vocab, ids, config)).toBe(max)
})

it('counts tokens that only tokenizer_config.json has', () => {
  const config = { added_tokens_decoder: { 5: { content: '<new>' } }, eos_token: '<end>' }
  expect(idMaxOf(fileOf({ a: 0, b: 1 }, []), config, undefined)).toBe(3)
})
