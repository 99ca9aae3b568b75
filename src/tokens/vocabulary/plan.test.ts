// Added tokens that are looked for behind the normaliser: where it changes their spelling, too, only the library finds them as engines do.
import { Tokenizer as LibraryTokenizer } from '@huggingface/tokenizers'
import { Tokenizer as RustTokenizer } from 'tokenizers'
import { expect, it } from 'vitest'
import type { RealName } from '../real-tokenizers.case.js'
import { readTokenizerText } from '../real-tokenizers.case.js'
import { planEncoder } from './plan.js'
import type { AddedTokenEntry, TokenizerFile } from './tokenizer-file.js'

const replace = { type: 'Replace', pattern: { String: ' ' }, content: '▁' }
const metaspace = { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: false }

interface Case {
  readonly says: string
  readonly name: RealName
  readonly content: string
  readonly isOwn: boolean
  readonly change?: Partial<TokenizerFile>
  readonly flags?: Partial<AddedTokenEntry>
}

it.each<Case>([
  { says: 'a mark is put before it', name: 'tinyllama', content: '<x>', isOwn: false },
  { says: 'spaces become marks', name: 'tinyllama', content: '<x y>', change: { normalizer: replace }, isOwn: false },
  ...(['lstrip', 'rstrip'] as const).flatMap<Case>((strip) => [
    {
      says: `spaces that it would take with ${strip} become marks`,
      name: 'tinyllama',
      content: '<x>',
      change: { normalizer: replace },
      flags: { [strip]: true },
      isOwn: false,
    },
    {
      says: `spaces that it takes with ${strip} stay spaces`,
      name: 'tinyllama',
      content: '<x>',
      change: { normalizer: null, pre_tokenizer: metaspace },
      flags: { [strip]: true },
      isOwn: true,
    },
  ]),
  { says: 'it has no spaces', name: 'tinyllama', content: '<x>', change: { normalizer: replace }, isOwn: true },
  {
    says: 'nothing is normalised',
    name: 'tinyllama',
    content: '<x y>',
    change: { normalizer: null, pre_tokenizer: metaspace },
    isOwn: true,
  },
  { says: 'its accent is composed', name: 'qwen3', content: '<e\u0301>', isOwn: false },
  { says: 'its accent is one already', name: 'qwen3', content: '<\u00e9>', isOwn: true },
  { says: 'nothing composes it', name: 'gpt2', content: '<e\u0301>', isOwn: true },
])(
  'our own paths take $name with a normalised token where $says: $isOwn',
  async ({ name, content, isOwn, ...more }) => {
    const { change = {}, flags: its = {} } = more
    const file = { ...(JSON.parse(readTokenizerText(name)) as TokenizerFile), ...change }
    const flags = { single_word: false, lstrip: false, rstrip: false, special: false }
    const id = Math.max(...Object.values(file.model.vocab), ...file.added_tokens!.map((token) => token.id)) + 1
    const added = { ...flags, ...its, id, content, normalized: true }
    const plan = planEncoder({ ...file, added_tokens: [...file.added_tokens!, added] }, {})
    expect(plan.kind === 'library' ? plan.reason : 'own').toBe(
      isOwn ? 'own' : `added token ${content}, which is normalised`,
    )
    const raw = { ...added, normalized: false }
    expect(planEncoder({ ...file, added_tokens: [...file.added_tokens!, raw] }, {}).kind).not.toBe('library')
  },
)

// Not between two of them: there the library takes `<x>` for the token, too, and the engine does not.
it('the library finds such a token where the Rust binding does', async () => {
  const file = JSON.parse(readTokenizerText('tinyllama')) as TokenizerFile
  const token = { id: 32_000, content: '<x>', single_word: false, lstrip: false, rstrip: false, special: false }
  const changed = { ...file, added_tokens: [...file.added_tokens!, { ...token, normalized: true }] }
  const rust = RustTokenizer.fromString(JSON.stringify(changed))
  const library = new LibraryTokenizer(changed as never, {} as never)
  const found: boolean[] = []
  for (const text of ['<x>', 'a<x>b', 'a <x>b', 'a  <x> b<x>', '</s><x>a', '</s> <x>', '7<x>7 <x>7']) {
    const ids = (await rust.encode(text, null, { addSpecialTokens: false })).getIds()
    expect({ text, ids: library.encode(text, { add_special_tokens: false }).ids }).toEqual({ text, ids })
    found.push(ids.includes(32_000))
  }
  expect(found).toContain(false)
})

const unflagged = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true }
const token = (id: number, content: string): AddedTokenEntry => ({ ...unflagged, id, content })

// Engines number them when they load the file, whatever it says; of the five files each says what they come to.
it.each<{ says: string; listed: (size: number) => readonly AddedTokenEntry[]; vocab?: Record<string, number> }>([
  { says: 'a gap', listed: (size) => [token(size + 1, '<x>'), token(size + 5, '<y>')] },
  { says: 'another order', listed: (size) => [token(size + 1, '<x>'), token(size, '<y>')] },
  {
    says: 'one that the vocabulary has',
    listed: (size) => [token(size, ' the'), token(size + 1, 'ing'), token(5, '<x>')],
  },
  { says: 'one twice', listed: (size) => [token(size, '<x>'), token(size + 1, '<x>'), token(size + 2, '<y>')] },
  { says: 'an empty one', listed: (size) => [token(size, ''), token(size + 1, '<x>')] },
  {
    says: 'a name that every object has',
    listed: (size) => [token(size, 'constructor'), token(size + 1, '__proto__')],
  },
  {
    says: 'a gap in the vocabulary',
    listed: (size) => [token(size + 51, '<x>'), token(size + 50, 'qzqz')],
    vocab: { qzqz: 60_000 },
  },
  {
    says: 'one behind that gap',
    listed: () => [token(60_000, 'qzqz'), token(60_001, '<x>'), token(60_002, '<y>')],
    vocab: { qzqz: 60_000 },
  },
])('added tokens have the ids that the Rust binding gives them: $says', async ({ listed, vocab = {} }) => {
  const file = JSON.parse(readTokenizerText('gpt2')) as TokenizerFile
  const model = { ...file.model, vocab: { ...file.model.vocab, ...vocab } }
  const changed = { ...file, model, added_tokens: listed(Object.keys(model.vocab).length) }
  const rust = RustTokenizer.fromString(JSON.stringify(changed))
  const plan = planEncoder(changed, {})
  if (plan.kind === 'library') throw new Error(plan.reason)
  expect(plan.addedTokens.length).toBeGreaterThan(0)
  for (const { content, id } of plan.addedTokens)
    expect({ content, ids: [id] }).toEqual({
      content,
      ids: (await rust.encode(content, null, { addSpecialTokens: false })).getIds(),
    })
})
