// Goal: every boundary that an encoder names is a cut: what follows it, encoded alone, has the ids that it has in the whole text; and it
// is one in every other text, too, that begins alike and shares the encoder's margin behind it.
// Method: texts whose tokens depend on what stands before or far behind a cut, at every place in the stride of boundaries; the rest is
// encoded as the loop does it, with the text before it in memory, and as a thread does it, without.
import { describe, expect, it } from 'vitest'
import type { RealTokenizer } from '../real-tokenizers.case.js'
import { changedTokenizer, patternOfGptOss, patternOfTekken, realTokenizer, splitBy } from '../real-tokenizers.case.js'
import type { AddedTokenEntry } from '../vocabulary/tokenizer-file.js'
import { Boundaries, joinCuts, lastCut } from './boundaries.js'

function added(id: number, content: string, flags: Partial<AddedTokenEntry>): AddedTokenEntry {
  return { id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true, ...flags }
}

const ofGpt2 = (what: string, flags: Partial<AddedTokenEntry>): RealTokenizer =>
  changedTokenizer('gpt2', what, { added_tokens: [added(50256, '<|endoftext|>', flags), added(278, 'ing', flags)] })
/** A token that takes what is before another, which has to stand alone. */
const neighbours = (ing: boolean, qz: boolean): RealTokenizer =>
  changedTokenizer('gpt2', `with neighbours, normalised: ${ing}, ${qz}`, {
    added_tokens: [
      added(50256, '<|endoftext|>', {}),
      added(278, 'ing', { normalized: ing }),
      added(50257, 'qz', { normalized: qz, single_word: true }),
    ],
  })
const tokenizers = [
  neighbours(false, true),
  neighbours(true, true),
  neighbours(false, false),
  // One that does not stand alone hides what is inside of it, also where it is cut into pieces.
  ...[false, true].map((normalized) =>
    changedTokenizer('gpt2', `with a token inside of another, normalised: ${normalized}`, {
      added_tokens: [
        added(50_256, '<|endoftext|>', {}),
        added(50_257, 'qz', { normalized }),
        added(50_258, '!9qz', { single_word: true }),
      ],
    }),
  ),
  // And what begins with its last byte.
  changedTokenizer('gpt2', 'with a token at the end of another', {
    added_tokens: [
      added(50_256, '<|endoftext|>', {}),
      added(50_257, '9~~', {}),
      added(50_258, 'z!9', { single_word: true }),
    ],
  }),
  ofGpt2('with words of their own', { single_word: true }),
  ofGpt2('with words of their own, normalised', { single_word: true, normalized: true }),
  ofGpt2('with words that strip', { lstrip: true, rstrip: true }),
  // One takes white space that another begins with.
  ...[false, true].map((normalized) =>
    changedTokenizer('gpt2', `with a line of its own, normalised: ${normalized}`, {
      added_tokens: [
        added(50_256, '<|endoftext|>', { rstrip: true, normalized }),
        added(50_257, '\nqz', { normalized }),
      ],
    }),
  ),
  changedTokenizer('qwen3', 'with a normalised token', {
    added_tokens: [added(151_643, '<|endoftext|>', {}), added(151_644, '<|im_end|>', { normalized: true })],
  }),
  ...[true, false].map((individual) =>
    changedTokenizer('gpt2', `that cuts out numbers, each: ${individual}`, {
      pre_tokenizer: {
        type: 'Sequence',
        pretokenizers: [
          { type: 'Digits', individual_digits: individual },
          { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
        ],
      },
    }),
  ),
  ...[patternOfGptOss, patternOfTekken].map((Regex, at) =>
    changedTokenizer('gpt2', `that tells large letters from small ones, ${at}`, { pre_tokenizer: splitBy(Regex) }),
  ),
  realTokenizer('deepseek_v3'),
  realTokenizer('tinyllama'),
  // A section takes a word mark that is a piece alone: no merge joins it to a digit.
  changedTokenizer('tinyllama', 'with neighbours', {
    added_tokens: [
      ...realTokenizer('tinyllama').file.added_tokens!,
      added(292, 'ing', {}),
      added(32_000, '7z', { single_word: true }),
    ],
  }),
]
const hards = [
  '5ing 好ing _ing',
  'ingqz qz 5qz',
  '5!9qz !9qz 5!9!9qz!9qz5 !9 5',
  'ing7z 7z 57z',
  'qz!9~~ xz!9~~ z!9 z!9x 9~~',
  'x<|endoftext|>\nqz x<|endoftext|>\n\nqz ',
  'e\u0301 x<|im_end|>好 e\u0301<|im_end|>\u0301 x<|endoftext|>',
  '<|endoftext|>ing<|endoftext|>  ing ',
  '</s>ing</s> ▁x</s>▁',
  '12345 6\n 7x½  8 ²9',
  "日ABC 日ABCd ʰABCDEFGHIJKLMNOPQRSTUVWXYZ fooBar'LL 日本 É\u0301ABC/\n/",
]

describe.each(tokenizers)('$name', (tokenizer) => {
  it.each(hards)('what follows a boundary has the ids that it has in the whole text: %s', async (hard) => {
    const encoder = tokenizer.newEncoder()
    let cuts = 0
    for (let place = 0; place < 48; place++) {
      // A boundary lies at byte 50; the next one may be 48 bytes later.
      const text = `${'ee '.repeat(17)}${'x'.repeat(place)} ${`${hard} then `.repeat(4)}`
      const ids = [...encoder.encode(text)]
      expect({ text, ids }).toEqual({ text, ids: await tokenizer.oracle(text) })
      const bytes = encoder.bytes.slice()
      const pairs = encoder.boundaries.take()
      for (let index = 0; index < pairs.length; index += 2) {
        const [at, before] = [pairs[index]!, pairs[index + 1]!]
        const rest = { text, at, ids: ids.slice(before) }
        encoder.load(text)
        encoder.encodeFrom(at)
        expect({ ...rest, ids: [...encoder.takeIds(false)] }).toEqual(rest)
        encoder.loadBytes(bytes.slice(at), true)
        encoder.encodeFrom(0)
        expect({ ...rest, ids: [...encoder.takeIds(false)] }).toEqual(rest)
      }
      cuts += pairs.length / 2
    }
    expect(cuts).toBeGreaterThan(48)
  })
})

const short = [added(151_643, '<|endoftext|>', {})]
/** A letter and a character without any class; of their four bytes the last one differs. */
const [letter, none] = ['\u{1d7cb}', '\u{1d7cc}']

// What a text has before a cut may depend on what stands behind it, and so on what another text has there.
it.each<{ says: string; tokenizer: RealTokenizer; known: string; other: string }>([
  {
    says: 'a run of white space that a line end takes in',
    tokenizer: changedTokenizer('qwen3', 'with a short token', { added_tokens: short }),
    known: `x\n${' '.repeat(24)}`,
    other: `x\n${' '.repeat(24)}\n`,
  },
  {
    says: 'characters that stand together until a letter follows',
    tokenizer: changedTokenizer('deepseek_v3', 'without added tokens', { added_tokens: [] }),
    known: `\u200d\u200d${letter}`,
    other: `\u200d\u200d${none}`,
  },
  {
    says: 'a letter without a case, which large ones give back until a small one follows',
    // It has a token of such a letter and a large one; the others have none.
    tokenizer: changedTokenizer('deepseek_v3', 'that tells large letters from small ones', {
      pre_tokenizer: splitBy(patternOfGptOss),
      added_tokens: [],
    }),
    known: `!ºC${'QX'.repeat(45)}!`,
    other: `!ºC${'QX'.repeat(45)}y`,
  },
  ...[false, true].flatMap((normalized) => [
    {
      says: `a token that has to stand alone, normalised: ${normalized}`,
      tokenizer: changedTokenizer('gpt2', `with a long word, normalised: ${normalized}`, {
        added_tokens: [added(50_257, '.abcdefghijklmnopqr', { single_word: true, normalized })],
      }),
      known: `!.abcdefghijklmnopqr${letter}`,
      other: `!.abcdefghijklmnopqr${none}`,
    },
    {
      says: `one that takes white space before it, normalised: ${normalized}`,
      tokenizer: changedTokenizer('gpt2', `with a long word that strips, normalised: ${normalized}`, {
        added_tokens: [added(50_257, 'abcdefghijklmnopqr', { lstrip: true, normalized })],
      }),
      known: `\n\n abcdefghijklmnopqx`,
      other: `\n\n abcdefghijklmnopqr`,
    },
    {
      says: `one that does both, normalised: ${normalized}`,
      tokenizer: changedTokenizer('gpt2', `with a long word that strips and stands alone, normalised: ${normalized}`, {
        added_tokens: [added(50_257, 'abcdefghijklmnopqr', { lstrip: true, single_word: true, normalized })],
      }),
      known: `\n\n abcdefghijklmnopqr${letter}`,
      other: `\n\n abcdefghijklmnopqr${none}`,
    },
  ]),
])(
  'a boundary is one in a text that goes on otherwise behind the margin: $says',
  async ({ tokenizer, known, other }) => {
    const encoder = tokenizer.newEncoder()
    for (let place = 0; place < 48; place++) {
      const start = `${'ee '.repeat(33)}${'e'.repeat(place)}` // a boundary lies at byte 98, the next one may be 48 bytes later
      const ids = encoder.encode(start + known)
      const pairs = encoder.boundaries.take()
      const bytes = encoder.bytes.slice()
      const common = bytes.findIndex((byte, at) => byte !== encoder.load(start + other)[at])
      const cut = lastCut(pairs, (common < 0 ? bytes.length : common) - encoder.cutMargin)
      expect(cut).toBeGreaterThan(0)
      encoder.load(start + other)
      encoder.encodeFrom(pairs[cut * 2]!)
      const joined = [...encoder.takeIds(false, ids.subarray(0, pairs[cut * 2 + 1]))]
      expect({ place, ids: joined }).toEqual({ place, ids: await tokenizer.oracle(start + other) })
    }
  },
)

it('a word mark costs the sections before it no boundary', () => {
  const encoder = realTokenizer('tinyllama').newEncoder()
  const words = 'ee! '.repeat(100)
  encoder.encode(`${words}</s>x`)
  const wanted = [...encoder.boundaries.take()]
  encoder.encode(`${words}</s>▁`)
  expect([...encoder.boundaries.take()]).toEqual(wanted)
  expect(wanted.length).toBeGreaterThan(0)
})

it('finds the last cut that is not behind a limit', () => {
  const cuts = Uint32Array.of(10, 3, 60, 9)
  expect([9, 10, 59, 60, 61].map((limit) => lastCut(cuts, limit))).toEqual([-1, 0, 0, 1, 1])
})

it('moves the cuts of a rest behind those that are kept', () => {
  const [known, rest] = [Uint32Array.of(10, 3, 60, 9), Uint32Array.of(5, 2, 7, 4, 9, 9)]
  expect([...joinCuts(known, 0, rest, 2, 10)]).toEqual([10, 3, 15, 5, 17, 7])
  expect([...joinCuts(known, -1, rest, 2, 0)]).toEqual([5, 2, 7, 4])
})

it('keeps any number of boundaries, and none that lies close behind another', () => {
  const boundaries = new Boundaries()
  for (let at = 0; at < 40_000; at += 24) boundaries.add(at, at / 24)
  const pairs = [...boundaries.take()]
  const offsets = pairs.filter((_, index) => index % 2 === 0)
  expect([offsets.length, offsets[0], offsets.at(-1)]).toEqual([272, 24, 39_816])
  expect(pairs.filter((_, index) => index % 2 === 1)).toEqual(offsets.map((at) => at / 24))
})
