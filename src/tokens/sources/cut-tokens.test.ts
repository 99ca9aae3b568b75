import fc from 'fast-check'
import { Tokenizer as RustTokenizer } from 'tokenizers'
import { describe, expect, it } from 'vitest'
import { turnsDuring } from '../turns.case.js'
import { CutTokens, cutCandidates, isFoundEverywhere, probeText } from './cut-tokens.js'
import type { ToldToken } from './tokenizer-info.js'

const named = (...texts: readonly string[]): ToldToken[] => texts.map((text, index) => ({ id: 100 + index, text }))

it.each([
  {
    says: 'brackets around them and no other token inside',
    added: ['<s>', '</s>', '[INST]'],
    cut: ['<s>', '</s>', '[INST]'],
  },
  { says: 'not without brackets', added: ['eos', '<s', 's>', '<>'], cut: [] },
  { says: 'not inside of another', added: ['<a>', '<<a>>'], cut: [] },
  { says: 'not around another', added: ['<a b>', 'a b'], cut: [] },
  { says: 'not where another may begin', added: ['<a>', '>x'], cut: [] },
  { says: 'not where another may end', added: ['<a>', 'x<a'], cut: [] },
  { says: 'not where it may begin inside of itself', added: ['<a]<a]'], cut: [] },
])('tokens that a text may be cut at: $says', async ({ added, cut }) => {
  const candidates = await cutCandidates(named(...added), [added.join('')])
  expect(candidates.map(({ text }) => text)).toEqual(cut)
})

it('only those are asked about that a template or a special token has', async () => {
  const candidates = await cutCandidates(named('<a>', '<b>', '<c>'), ['{{ "<a>" }}', '<c>'])
  expect(candidates.map(({ text }) => text)).toEqual(['<a>', '<c>'])
})

it('an engine is asked about 32 of them at most', async () => {
  const added = named(...Array.from({ length: 40 }, (_, index) => `<token${index}>`))
  const candidates = await cutCandidates(added, [added.map(({ text }) => text).join('')])
  expect(candidates.map(({ id }) => id)).toEqual(added.slice(0, 32).map(({ id }) => id))
})

it('looks through the tokens of Gemma, which are 6,400, while others have their turn of the loop', async () => {
  const unused = Array.from({ length: 6400 }, (_, index) => `<unused${index}>`)
  const turns = '<start_of_turn>{{ role }}<end_of_turn>'
  const template = "{%- if messages[0]['role'] == 'system' and loop.index < 2 -%}".repeat(250) + turns
  const added = named(...unused, '<start_of_turn>', '<end_of_turn>')
  const { result, turns: others } = await turnsDuring(() => cutCandidates(added, [template]))
  expect(result.map(({ text }) => text)).toEqual(['<start_of_turn>', '<end_of_turn>'])
  expect(others).toBeGreaterThan(2)
})

// The flags of an added token are not told; the answer to the probe shows those that matter. The Rust binding is what engines ask.
interface Flags {
  readonly lstrip?: boolean
  readonly rstrip?: boolean
  readonly single_word?: boolean
  readonly normalized?: boolean
}
const tokens = ['<s>', '</s>', '<|im_end|>', '[X]'] as const
type Ask = (text: string) => Promise<Uint32Array>

/** A tokenizer of single characters, a few merges and four added tokens. */
function smallTokenizer(flags: readonly Flags[], steps: object): Ask {
  const characters = Array.from(' ▁ĠabcsxX/|<>[]_imend\u0338\nÌĊ¸')
  const vocab = [...new Set([...tokens, '<unk>', ...characters, 'ab', '▁a', '<s', 's>', 'Ġa', 'Ġab'])]
  const model = {
    type: 'BPE',
    unk_token: '<unk>',
    vocab: Object.fromEntries(vocab.map((text, id) => [text, id])),
    merges: ['a b', '▁ a', '< s', 's >', 'Ġ a', 'Ġa b'],
  }
  const added = tokens.map((content, index) => ({ ...plain, ...flags[index], id: index, content }))
  const file = { version: '1.0', added_tokens: added, normalizer: null, pre_tokenizer: null, ...steps, model }
  const rust = RustTokenizer.fromString(JSON.stringify(file))
  return async (text) => Uint32Array.from((await rust.encode(text, null, { addSpecialTokens: false })).getIds())
}
const plain = { special: true, lstrip: false, rstrip: false, single_word: false, normalized: false }
const steps = {
  none: {},
  metaspace: { pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: false } },
  marks: { pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true } },
  bytes: { pre_tokenizer: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true } },
  prepended: { normalizer: { type: 'Prepend', prepend: '▁' } },
  composed: { normalizer: { type: 'NFC' } },
  lower: { normalizer: { type: 'Lowercase' } },
  stripped: { normalizer: { type: 'Strip', strip_left: true, strip_right: true } },
} as const

const isCutToken = async (ask: Ask, index: number): Promise<boolean> => {
  const token = { id: index, text: tokens[index]! }
  return isFoundEverywhere(token, await ask(probeText(token)))
}

it.each<{ says: string; flags: Flags; step: keyof typeof steps; isCut: boolean }>([
  { says: 'plain', flags: {}, step: 'none', isCut: true },
  { says: 'taking white space', flags: { lstrip: true, rstrip: true }, step: 'bytes', isCut: true },
  { says: 'only as a word of its own', flags: { single_word: true }, step: 'none', isCut: false },
  {
    says: 'behind a normaliser that puts a mark before it',
    flags: { normalized: true },
    step: 'prepended',
    isCut: false,
  },
  { says: 'behind one that joins marks to it', flags: { normalized: true }, step: 'composed', isCut: false },
])('asks the engine once whether a token is found everywhere: $says', async ({ flags, step, isCut }) => {
  expect(await isCutToken(smallTokenizer([flags], steps[step]), 0)).toBe(isCut)
})

it('cuts change no token, whatever the flags of added tokens and the steps of the tokenizer', async () => {
  const flag = fc.record({
    lstrip: fc.boolean(),
    rstrip: fc.boolean(),
    single_word: fc.boolean(),
    normalized: fc.boolean(),
  })
  const words = [...tokens, 'a', 'b', 'ab', ' ', '  ', '\n', 's', '>', '<', '\u0338', '<|im_', '▁', 'A', '[', 'X'] // prettier-ignore
  const anyText = fc.array(fc.constantFrom(...words), { maxLength: 12 }).map((it) => it.join(''))
  const anySteps = fc.constantFrom(...(Object.keys(steps) as (keyof typeof steps)[]))
  let cuts = 0
  await fc.assert(
    fc.asyncProperty(
      fc.array(flag, { minLength: 4, maxLength: 4 }),
      anySteps,
      fc.array(fc.tuple(anyText, fc.nat(3), anyText), { minLength: 4, maxLength: 4 }),
      async (flags, step, cases) => {
        const ask = smallTokenizer(flags, steps[step])
        for (const [before, index, after] of cases) {
          if (!(await isCutToken(ask, index))) continue
          cuts++
          const token = tokens[index]!
          const [whole, head, tail] = await Promise.all(
            [before + token + after, before + token, token + after].map(ask),
          )
          expect([...head!.slice(0, -1), ...tail!]).toEqual([...whole!])
          expect([head!.at(-1), tail![0]]).toEqual([index, index])
        }
      },
    ),
    { numRuns: 150 },
  )
  expect(cuts).toBeGreaterThan(100)
})

it('finds nothing where text and ids do not have the same tokens', async () => {
  const cuts = new CutTokens(await cutCandidates(named('<s>', '</s>'), ['<s></s>']))
  const bytes = new TextEncoder().encode('<s>hello</s>\nworld</s>')
  const align = (...ids: number[]): number[] | undefined => {
    const pairs = cuts.align(bytes, Uint32Array.from(ids))
    return pairs && [...pairs]
  }
  expect(align(100, 1, 2, 101, 3, 101)).toEqual([8, 3, 18, 5])
  expect(align(1, 100, 2, 101, 3, 101)).toEqual([8, 3, 18, 5])
  expect(align(100, 1, 101)).toBeUndefined() // one is missing
  expect(align(100, 1, 100, 101)).toBeUndefined() // another
  expect(align(100, 1, 101, 3, 101, 101)).toBeUndefined() // one too many
})

it.each([
  { says: 'everywhere', ids: [7, 7, 1, 7, 1, 7, 2, 7, 3, 7], isFound: true },
  { says: 'but behind something', ids: [9, 7, 7, 1, 7, 1, 7, 2, 7, 3, 7], isFound: false },
  { says: 'but apart from its neighbour', ids: [7, 9, 7, 1, 7, 1, 7, 2, 7, 3, 7], isFound: false },
  { says: 'but before something', ids: [7, 7, 1, 7, 1, 7, 2, 7, 3, 7, 9], isFound: false },
  { says: 'but in one place', ids: [7, 7, 1, 7, 1, 7, 2, 4, 3, 7], isFound: false },
])('a token is found $says', ({ ids, isFound }) => {
  expect(isFoundEverywhere({ id: 7, text: '<x>' }, Uint32Array.from(ids))).toBe(isFound)
})

describe('lines a text up with its ids', async () => {
  const cuts = new CutTokens(await cutCandidates(named('<s>', '[X]'), ['<s>[X]']))
  const align = (text: string, ...ids: number[]): number[] => [
    ...cuts.align(new TextEncoder().encode(text), Uint32Array.from(ids))!,
  ]

  it('whichever bracket its tokens have', () => {
    expect(align('<s>a[X]b<s>', 100, 1, 101, 2, 100)).toEqual([4, 2, 8, 4])
  })

  it('and takes no other id for one of them', () => {
    expect(align('<s>a[X]', 100, 101 + 4096, 101)).toEqual([4, 2])
  })

  it('as far as it looks at a long one', () => {
    const far = 'x'.repeat(300_000)
    expect(align(`a<s>${far}<s>[X]`, 1, 100, 2, 100, 101)).toEqual([1, 1])
  })
})
