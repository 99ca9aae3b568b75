import { describe, expect, it, vi } from 'vitest'
import { prose } from '../../../bench/tokens/texts.js'
import { casedMixtures, corpora, mixtures } from '../corpora.case.js'
import type { RealName, RealTokenizer } from '../real-tokenizers.case.js'
import {
  changedTokenizer,
  patternOfGptOss,
  patternOfTekken,
  realNames,
  realTokenizer,
  splitBy,
} from '../real-tokenizers.case.js'
import type { AddedTokenEntry } from '../vocabulary/tokenizer-file.js'

async function expectParity(tokenizer: RealTokenizer, texts: readonly string[]): Promise<void> {
  const encoder = tokenizer.newEncoder()
  for (const text of texts) {
    const wanted = await tokenizer.oracle(text)
    expect({ text, ids: [...encoder.encode(text)] }).toEqual({ text, ids: wanted })
    expect({ text, again: [...encoder.encode(text)] }).toEqual({ text, again: wanted }) // now from the caches
  }
}

describe.each(realNames)('%s', (name) => {
  it.each(Object.keys(corpora))('gives the ids of the Rust binding: %s', async (corpus) => {
    await expectParity(realTokenizer(name), corpora[corpus]!)
  })

  it('gives the ids of the Rust binding: prose and random mixtures', async () => {
    await expectParity(realTokenizer(name), [prose(30_000, 7), ...mixtures(500, 11), ...mixtures(20, 12, 600)])
  })
})

const numbers = ['½ ²x1½2', 'Ⅷ1 १२३a  12\n 3', '一二1', '  1', ' 1 2  3', "'1's", '\u{1d7d8}x\u{10107} 5']
const metaspace = { type: 'Metaspace', replacement: '▁', split: false }
const regexOfO200k = String.raw`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: true }

describe('steps that none of the five files has', () => {
  const variants = [
    changedTokenizer('tinyllama', 'with a mark at the start', {
      normalizer: null,
      pre_tokenizer: { ...metaspace, prepend_scheme: 'first' },
    }),
    changedTokenizer('tinyllama', 'with a mark at every section', {
      normalizer: null,
      pre_tokenizer: { ...metaspace, prepend_scheme: 'always' },
    }),
    changedTokenizer('tinyllama', 'without marks', {
      normalizer: null,
      pre_tokenizer: { ...metaspace, prepend_scheme: 'never' },
    }),
    changedTokenizer('tinyllama', 'that splits at marks', {
      normalizer: null,
      pre_tokenizer: { ...metaspace, prepend_scheme: 'always', split: true },
    }),
    changedTokenizer('tinyllama', 'that only replaces spaces', {
      normalizer: { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
    }),
    changedTokenizer('gpt2', 'with words that hold marks', {
      pre_tokenizer: splitBy(
        String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
      ),
    }),
    changedTokenizer('gpt2', 'with the pattern of gpt-oss', { pre_tokenizer: splitBy(patternOfGptOss) }),
    changedTokenizer('gpt2', "with the pattern of Mistral's Tekken", { pre_tokenizer: splitBy(patternOfTekken) }),
    changedTokenizer('gpt2', 'with a pattern we do not know', { pre_tokenizer: splitBy(regexOfO200k) }),
    ...[true, false].flatMap((individual) => [
      changedTokenizer('gpt2', `that cuts out numbers, each: ${individual}`, {
        pre_tokenizer: {
          type: 'Sequence',
          pretokenizers: [{ type: 'Digits', individual_digits: individual }, byteLevel],
        },
      }),
      changedTokenizer('gpt2', `that cuts out numbers and has another pattern, each: ${individual}`, {
        pre_tokenizer: {
          type: 'Sequence',
          pretokenizers: [{ type: 'Digits', individual_digits: individual }, splitBy(regexOfO200k)],
        },
      }),
    ]),
    changedTokenizer('gpt2', 'that strips around an added token', {
      added_tokens: [
        {
          id: 50256,
          content: '<|endoftext|>',
          single_word: false,
          lstrip: true,
          rstrip: true,
          normalized: false,
          special: true,
        },
        { id: 278, content: 'ing', single_word: true, lstrip: false, rstrip: false, normalized: true, special: false },
      ],
    }),
  ]

  it.each(variants)('gives the ids of the Rust binding: $name', async (tokenizer) => {
    const texts = [...Object.values(corpora).flat(), ...numbers, ...mixtures(300, 13), ...casedMixtures(600, 14)]
    await expectParity(tokenizer, texts)
  })
})

it('finds no token inside of one that does not stand alone, and of two that are written alike the first', async () => {
  const [plain] = realTokenizer('gpt2').file.added_tokens!
  const token = (id: number, content: string, single_word = false): AddedTokenEntry => ({
    ...plain!,
    id,
    content,
    single_word,
  })
  const inside = changedTokenizer('gpt2', 'with a token inside of another', {
    added_tokens: [plain!, token(278, 'ing'), token(50_257, 'qzing', true)],
  })
  await expectParity(inside, ['xqzing ing', ' qzing', 'qzingx qzing ing', 'qzinging'])
  const twice = changedTokenizer('gpt2', 'with a token twice', {
    added_tokens: [plain!, token(50_257, 'qz'), token(50_258, 'qz')],
  })
  await expectParity(twice, ['xqz qz'])
})

it('finds no token that takes white space where the one before took all of it', async () => {
  const [plain] = realTokenizer('gpt2').file.added_tokens!
  const token = (id: number, content: string, lstrip: boolean, rstrip: boolean): AddedTokenEntry => ({
    ...plain!,
    id,
    content,
    lstrip,
    rstrip,
  })
  for (const normalized of [false, true]) {
    const tokenizer = changedTokenizer('gpt2', `with tokens that take white space, normalised: ${normalized}`, {
      added_tokens: [
        plain!,
        token(50_257, '<12', true, true),
        token(50_258, '\t', true, false),
        token(50_259, '  ', true, true),
        token(50_260, '\tq', true, false),
        token(50_261, '\n', false, false),
      ].map((it) => ({ ...it, normalized })),
    })
    const texts = ['a<12\t.', 'a    b', '<12\tq', '<12\n'] // the library itself fails where a token would end before it begins
    await expectParity(tokenizer, texts)
  }
})

// There are more ids than bytes, and what comes last must not be lost for want of room.
describe('a text of fewer bytes than tokens', () => {
  const digits = '1'.repeat(12_000)
  const { added_tokens: tokens = [], model } = realTokenizer('tinyllama').file
  it.each([
    {
      says: 'that grows when it is normalised, before one that does not',
      tokenizer: realTokenizer('qwen3'),
      texts: [`${'\u{1d160}'.repeat(1000)}<|im_end|>${digits}`, `${'\ufb2c'.repeat(2000)}<|im_end|>${digits}`],
    },
    {
      says: 'of short sections that take a mark',
      tokenizer: changedTokenizer('tinyllama', 'with a token of one byte', {
        added_tokens: [...tokens, { ...tokens[0]!, id: model.vocab['!']!, content: '!' }],
      }),
      texts: ['!7'.repeat(6000), '7'.repeat(4096)], // the second fills the first room and has a mark
    },
  ])('$says', async ({ tokenizer, texts }) => {
    for (const text of texts) await expectParity(tokenizer, [text])
  })
})

// Llama 3 has tokens that its merges do not lead to.
it.each([true, false])(
  'takes a word for its token where merges do not lead there only if they are ignored: %s',
  async (ignore_merges) => {
    const { model } = realTokenizer('llama3').file
    const tokenizer = changedTokenizer('llama3', `ignoring merges: ${ignore_merges}`, {
      model: { ...model, ignore_merges },
    })
    const words = ' việc hợp nhiều điều jeho Việt ایران ngoài nhiên'
    await expectParity(tokenizer, [words, words.repeat(20), 'ektedir', 'mektedir', 'ıldı'])
    expect(tokenizer.newEncoder().encode(words).length === words.split(' ').length - 1).toBe(ignore_merges)
  },
)

// Goal: nothing behind the end of a text or of a section is read as part of it. Method: what was there before is what would go on with it,
// be it in the memory of an earlier text or an added token that begins like the rest of a word.
describe('where a text or a section ends, its last piece ends', () => {
  const tails = [
    "it's",
    "it're",
    "it'll",
    "it'ſ",
    '<|endoftext|>',
    '</s>',
    ' ing',
    'qz',
    '1234',
    '!a',
    '!\n\n',
    ' \n\n',
    '  x',
    'x 好好',
    '\u200da',
    '▁▁x',
    'e\u0301',
    '\u00a0\u00a0x',
  ] // prettier-ignore
  const rests = ['s', 're', 'll', 'ing', '4', 'a', '!', '\n', ' ', 'x', '好', '\u0301', '▁', 'qz']
  const unflagged = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true }
  const token = (id: number, content: string, flags: object): AddedTokenEntry => ({
    ...unflagged,
    ...flags,
    id,
    content,
  })
  const crowded = (name: RealName, what: string, flags: object): RealTokenizer => {
    const { vocab } = realTokenizer(name).file.model
    const first = Math.max(...Object.values(vocab)) + 1
    const added = rests.map((content, index) => token(first + index, `${content}qq`, flags))
    return changedTokenizer(name, what, {
      added_tokens: [...added, token(first + rests.length, 'qz', { ...flags, single_word: true })],
    })
  }
  const names = ['qwen3', 'deepseek_v3', 'gpt2', 'tinyllama', 'llama3'] as const
  const tokenizers = [
    ...realNames.map(realTokenizer),
    ...names.map((name) => crowded(name, 'with many tokens', {})),
    ...names.slice(0, 3).map((name) => crowded(name, 'with many normalised tokens', { normalized: true })),
    crowded('gpt2', 'with many tokens that strip', { lstrip: true, rstrip: true }),
  ]

  it.each(tokenizers)('$name', async (tokenizer) => {
    const encoder = tokenizer.newEncoder()
    for (const tail of tails) {
      for (let length = 1; length <= tail.length; length++) {
        for (const rest of ['', ...rests.map((it) => `${it}qq`)]) {
          const text = `so ${tail.slice(0, length)}${rest}`
          encoder.encode(`so ${tail}${rest}ingxxxx`) // stays in memory behind the other
          expect({ text, ids: [...encoder.encode(text)] }).toEqual({ text, ids: await tokenizer.oracle(text) })
        }
      }
    }
  })
})

it.each([
  realTokenizer('tinyllama'),
  ...['RobertaProcessing', 'BertProcessing'].map((type) =>
    changedTokenizer('gpt2', `with ${type}`, {
      post_processor: { type, sep: ['b', 65], cls: ['a', 64], trim_offsets: true, add_prefix_space: false },
    }),
  ),
])('puts around a text what the tokenizer says: $name', async (tokenizer) => {
  const encoder = tokenizer.newEncoder()
  expect([...encoder.encode('Hello world', true)]).toEqual(await tokenizer.oracle('Hello world', true))
})

it.each(['qwen3', 'tinyllama', 'deepseek_v3'] as const)(
  'stops wherever it is told to, and leaves nothing behind: %s',
  (name) => {
    const encoder = realTokenizer(name).newEncoder()
    const token = encoder.plan.addedTokens[0]!.content
    for (const text of [prose(20_000, 1), token.repeat(2000), `${token} ${prose(60, 2)}`.repeat(200)]) {
      const wanted = [...realTokenizer(name).newEncoder().encode(text)]
      let looks = 0
      encoder.clearCaches()
      encoder.load(text)
      expect(encoder.encodeFrom(0, Infinity, () => ++looks < 0)).toBe(true)
      expect(looks).toBeGreaterThan(5)
      for (let stopAt = 1; stopAt <= looks; stopAt++) {
        let look = 0
        encoder.clearCaches() // what is known takes fewer looks
        encoder.load(text)
        expect(encoder.encodeFrom(0, Infinity, () => ++look === stopAt)).toBe(false)
        expect(look).toBe(stopAt)
        expect([...encoder.encode(text)]).toEqual(wanted)
      }
    }
  },
)

it('stops at a piece that would hold the thread, and encodes it when allowed to', () => {
  const encoder = realTokenizer('qwen3').newEncoder()
  encoder.load('a'.repeat(10_000))
  expect(encoder.encodeFrom(0, 2048)).toBe(false)
  expect(encoder.encodeFrom(0)).toBe(true)
  expect(encoder.count).toBeGreaterThan(0)
})

it('answers within seconds for a megabyte without a single cut point', async () => {
  const tokenizer = realTokenizer('tinyllama')
  const text = 'a'.repeat(1_000_000)
  expect(tokenizer.newEncoder().encode(text).length).toBeGreaterThan(10_000)
  const short = 'a'.repeat(20_000)
  expect([...tokenizer.newEncoder().encode(short)]).toEqual(await tokenizer.oracle(short))
})

it.each([
  ['qwen3', '<|im_start|>'],
  ['llama3', '<|eot_id|>'],
  ['deepseek_v3', '<｜User｜>'],
  ['gpt2', '<|endoftext|>'],
  ['tinyllama', '</s>'],
] as const)('%s: keeps its caches within their bytes, and stays exact under eviction', async (name, special) => {
  const tokenizer = realTokenizer(name)
  const encoder = tokenizer.newEncoder({ pieceCacheBytes: 4096, segmentCacheBytes: 8192 })
  for (let seed = 0; seed < 12; seed++) {
    const said = prose(600, seed % 5)
    const text = [said, said, said, prose(2000, seed), mixtures(20, seed).join('')].join(special)
    expect([...encoder.encode(text)]).toEqual(await tokenizer.oracle(text))
    expect(encoder.cacheBytes).toBeLessThanOrEqual(4096 + 8192)
  }
  const { pieces, segments } = encoder.counts
  expect(Math.min(pieces.hits, pieces.evictions, segments.hits, segments.evictions)).toBeGreaterThan(0)
})

// A search that goes on behind its section takes quadratic time where there are many: 15 s for 512 KB. Counted in bytes, as time tells nothing.
it.each(realNames)('%s: searches each byte a few times, however many added tokens there are', (name) => {
  const real = realTokenizer(name)
  const token = real.file.added_tokens!.at(-1)!.content
  const text = `a${token}`.repeat(3000)
  let searched = 0
  const searches = vi.spyOn(Uint8Array.prototype, 'indexOf')
  real.newEncoder().encode(text)
  for (const [at, { value }] of searches.mock.results.entries()) {
    const [bytes, from = 0] = [searches.mock.contexts[at] as Uint8Array, searches.mock.calls[at]![1]]
    searched += ((value as number) < 0 ? bytes.length : (value as number)) - from
  }
  searches.mockRestore()
  expect(searched).toBeLessThan(10 * Buffer.byteLength(text))
})
