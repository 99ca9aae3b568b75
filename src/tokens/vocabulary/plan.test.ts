// Added tokens that are looked for behind the normaliser: where it changes their spelling, too, only the library finds them as engines do.
import { Tokenizer as LibraryTokenizer } from '@huggingface/tokenizers'
import { Tokenizer as RustTokenizer } from 'tokenizers'
import { expect, it } from 'vitest'
import type { RealName } from '../real-tokenizers.case.js'
import { readTokenizerText } from '../real-tokenizers.case.js'
import type { PlanOptions } from './plan.js'
import { planEncoder } from './plan.js'
import type { TokenizerConfigFile, TokenizerFile } from './tokenizer-file.js'

const replace = { type: 'Replace', pattern: { String: ' ' }, content: '▁' }
const metaspace = { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: false }
const asLlama: TokenizerConfigFile = { tokenizer_class: 'LlamaTokenizer' }

interface Case {
  readonly says: string
  readonly name: RealName
  readonly content: string
  readonly isOwn: boolean
  readonly change?: Partial<TokenizerFile>
  readonly config?: TokenizerConfigFile
  readonly options?: PlanOptions
}

it.each<Case>([
  { says: 'a mark is put before it', name: 'tinyllama', content: '<x>', isOwn: false },
  { says: 'that is so in the file alone', name: 'tinyllama', content: '<x>', config: asLlama, isOwn: true },
  {
    says: 'the file is followed',
    name: 'tinyllama',
    content: '<x>',
    config: asLlama,
    options: { llamaPrefix: 'file' },
    isOwn: false,
  },
  { says: 'spaces become marks', name: 'tinyllama', content: '<x y>', change: { normalizer: replace }, isOwn: false },
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
    const { change = {}, config = {}, options = {} } = more
    const file = { ...(JSON.parse(readTokenizerText(name)) as TokenizerFile), ...change }
    const flags = { single_word: false, lstrip: false, rstrip: false, special: false }
    const id = Math.max(...Object.values(file.model.vocab), ...file.added_tokens!.map((token) => token.id)) + 1
    const added = { ...flags, id, content, normalized: true }
    const plan = planEncoder({ ...file, added_tokens: [...file.added_tokens!, added] }, config, options)
    expect(plan.kind === 'library' ? plan.reason : 'own').toBe(
      isOwn ? 'own' : `added token ${content}, which is normalised`,
    )
    const raw = { ...added, normalized: false }
    expect(planEncoder({ ...file, added_tokens: [...file.added_tokens!, raw] }, config, options).kind).not.toBe(
      'library',
    )
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
