// Goal: added tokens are found as the Rust binding finds them, whatever the two files say of them, and however often.
// Method: a small part of a real tokenizer with random tokens, most of them written like another; transformers adds those of
// `tokenizer_config.json` to the others, so to the binding they are more of the same list.
import fc from 'fast-check'
import { Tokenizer as RustTokenizer } from 'tokenizers'
import { expect, it } from 'vitest'
import { Encoder } from '../encode/encoder.js'
import { realTokenizer } from '../real-tokenizers.case.js'
import { numberAddedTokens } from './added-ids.js'
import { buildVocabulary } from './build-vocabulary.js'
import { planEncoder } from './plan.js'
import type { AddedTokenEntry, TokenizerFile } from './tokenizer-file.js'

type Described = Omit<AddedTokenEntry, 'id'>

const { file: whole } = realTokenizer('qwen3')
const kept = 2000 // of its merges
const vocab = Object.fromEntries(Object.entries(whole.model.vocab).filter(([, id]) => id < 256 + kept))
const small: TokenizerFile = {
  ...whole,
  model: { ...whole.model, vocab, merges: whole.model.merges!.slice(0, kept) },
}
const built = buildVocabulary(small.model, 'byte-level')
if (typeof built === 'string') throw new Error(built)

const flag = fc.boolean()
const anyToken: fc.Arbitrary<Described> = fc.record({
  content: fc.constantFrom('qz', 'zé', ' é', 'é', 'qzé', '\n', ''),
  special: flag,
  single_word: flag,
  lstrip: flag,
  rstrip: flag,
  normalized: flag,
})
const anyText = fc.string({ unit: fc.constantFrom('q', 'z', 'é', 'e\u0301', ' ', '\n', 'x', 'qz', '.'), maxLength: 12 })

it('the last of those that are written alike says how a token is found, of whichever file it is', async () => {
  const tokens = fc.array(anyToken, { maxLength: 5 })
  const texts = fc.array(anyText, { minLength: 6, maxLength: 6 })
  await fc.assert(
    fc.asyncProperty(tokens, tokens, texts, async (listed, configured, some) => {
      // The binding ends the process where a token takes all of the white space that another one is.
      const all = [...listed, ...configured]
      fc.pre(!all.some(({ rstrip }) => rstrip) || !all.some(({ content }) => content === '\n'))
      const numbered = (list: readonly Described[]): TokenizerFile => ({
        ...small,
        added_tokens: list.map((token) => ({ ...token, id: 0 })),
      })
      const rust = RustTokenizer.fromString(JSON.stringify(numbered([...listed, ...configured])))
      const plan = planEncoder(numbered(listed), { added_tokens_decoder: Object.fromEntries(configured.entries()) })
      if (plan.kind === 'library') throw new Error(plan.reason)
      const encoder = new Encoder(plan, built)
      for (const text of some) {
        const wanted = (await rust.encode(text, null, { addSpecialTokens: false })).getIds()
        expect({ text, ids: [...encoder.encode(text)] }).toEqual({ text, ids: wanted })
      }
    }),
    { numRuns: 300 },
  )
}, 60_000)

const plain = { special: false, single_word: false, lstrip: false, rstrip: false, normalized: true }
const special = { ...plain, special: true, normalized: false }

it('tokens that tokenizer_config.json alone has are numbered behind the others: by their ids, then those that it names', () => {
  const numbered = numberAddedTokens(
    { ...small, added_tokens: [{ ...special, id: 9000, content: '<s>' }] },
    {
      added_tokens_decoder: {
        10_000: { content: '<later>', lstrip: true },
        9001: { content: '<sooner>', special: true },
        9000: { content: '<s>', special: true, rstrip: true, normalized: false },
        9002: { content: '<pad>', normalized: true },
      },
      bos_token: '<s>',
      eos_token: { content: '</s>', normalized: true },
      pad_token: '<pad>',
      mask_token: null,
      additional_special_tokens: ['<one>', '<sooner>'],
      extra_special_tokens: { image: '<image>' },
    },
  )
  const next = Object.keys(vocab).length
  expect(numbered).toEqual([
    { ...special, id: next, content: '<s>', rstrip: true },
    { ...special, id: next + 1, content: '<sooner>' },
    { ...special, id: next + 2, content: '<pad>', normalized: true },
    { ...plain, id: next + 3, content: '<later>', lstrip: true },
    { ...special, id: next + 4, content: '</s>', normalized: true },
    { ...special, id: next + 5, content: '<image>' },
    { ...special, id: next + 6, content: '<one>' },
  ])
})
