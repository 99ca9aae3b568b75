// Goal: where the library encodes, added tokens are found and numbered as engines do it, whichever of the two files names them.
// Method: a small WordPiece tokenizer, which is not ours to encode, with random tokens; the Rust binding gets them as one list, as
// transformers hands them to it.
import fc from 'fast-check'
import { Tokenizer as RustTokenizer } from 'tokenizers'
import { expect, it } from 'vitest'
import { numberAddedTokens } from '../vocabulary/added-ids.js'
import type { AddedTokenEntry, TokenizerConfigFile, TokenizerFile } from '../vocabulary/tokenizer-file.js'
import { LibraryTokenizer } from './library-tokenizer.js'

const pieces = ['[UNK]', 'q', 'z', 'x', '##q', '##z', '##x', 'qz', '##qz', 'the', '##ing', '.', 'e']
const wordPiece = {
  added_tokens: [],
  normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null },
  pre_tokenizer: { type: 'BertPreTokenizer' },
  post_processor: null,
  decoder: null,
  model: {
    type: 'WordPiece',
    unk_token: '[UNK]',
    continuing_subword_prefix: '##',
    max_input_chars_per_word: 100,
    vocab: Object.fromEntries(pieces.map((piece, id) => [piece, id])),
  },
}

function fileWith(added: readonly AddedTokenEntry[], lowercase: boolean): TokenizerFile {
  const normalizer = { ...wordPiece.normalizer, lowercase }
  return { ...wordPiece, normalizer, added_tokens: added } as unknown as TokenizerFile
}

const names = ['<a>', '<b>', 'qz', '<q z>', '<é>', '[UNK]', '<c>']
const anyName = fc.constantFrom(...names)
const flag = fc.boolean()
const anyToken: fc.Arbitrary<AddedTokenEntry> = fc.record({
  id: fc.nat(40),
  content: anyName,
  special: flag,
  single_word: fc.constant(false),
  lstrip: flag,
  rstrip: flag,
  normalized: flag,
})
const anyConfig: fc.Arbitrary<TokenizerConfigFile> = fc.record(
  {
    added_tokens_decoder: fc.dictionary(fc.constantFrom('13', '15', '40'), anyToken),
    bos_token: anyName,
    eos_token: fc.record({ content: anyName, lstrip: flag }),
    additional_special_tokens: fc.array(anyName, { maxLength: 2 }),
  },
  { requiredKeys: [] },
)
const anyText = fc
  .array(fc.constantFrom('q', 'Q', 'é', 'z', ' ', 'the', 'x', '.', ...names), { maxLength: 8 })
  .map((parts) => parts.join(''))

it('finds the tokens of both files, by the ids that engines give them', async () => {
  let named = 0
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyToken, { maxLength: 3 }),
      anyConfig,
      flag,
      fc.array(anyText, { minLength: 6, maxLength: 6 }),
      async (listed, config, lowercase, texts) => {
        const file = fileWith(listed, lowercase)
        const all = numberAddedTokens(file, config)
        const rust = RustTokenizer.fromString(JSON.stringify({ version: '1.0', ...fileWith(all, lowercase) }))
        const library = new LibraryTokenizer(file, config)
        for (const text of texts) {
          const ids = (await rust.encode(text, null, { addSpecialTokens: false })).getIds()
          expect({ text, ids: [...library.encode(text)] }).toEqual({ text, ids })
          if (all.some(({ id }) => id >= pieces.length && ids.includes(id))) named++
        }
      },
    ),
    { numRuns: 300 },
  )
  expect(named).toBeGreaterThan(300)
}, 60_000)

it('is refused where a token must stand alone, which the library finds inside of words, too', () => {
  const token: AddedTokenEntry = {
    id: 13,
    content: '<a>',
    special: false,
    single_word: true,
    lstrip: false,
    rstrip: false,
    normalized: false,
  }
  expect(() => new LibraryTokenizer(fileWith([token], false), {})).toThrow('<a>, which must stand alone')
  const config = { added_tokens_decoder: { 13: token } }
  expect(() => new LibraryTokenizer(fileWith([], false), config)).toThrow('<a>, which must stand alone')
})

it('the library cuts out numbers of every kind', async () => {
  const pieces = ['[UNK]', 'x', '1', '2', '12', '½', '²', 'Ⅷ', 'x½']
  for (const individual of [true, false]) {
    const digits = { type: 'Digits', individual_digits: individual }
    const file = {
      ...wordPiece,
      normalizer: null,
      pre_tokenizer: { type: 'Sequence', pretokenizers: [digits] },
      model: { ...wordPiece.model, vocab: Object.fromEntries(pieces.map((piece, id) => [piece, id])) },
    }
    const rust = RustTokenizer.fromString(JSON.stringify(file))
    const library = new LibraryTokenizer(file as unknown as TokenizerFile, {})
    for (const text of ['x12', 'x½', '12', '²Ⅷ', 'xⅧ½']) {
      const ids = (await rust.encode(text, null, { addSpecialTokens: false })).getIds()
      expect({ text, ids: [...library.encode(text)] }).toEqual({ text, ids })
    }
  }
})
