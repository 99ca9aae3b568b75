import { describe, expect, it, vi } from 'vitest'
import type { BlockHasher } from '../core/hashing/index.js'
import { createBlockHasher, createHashScheme } from '../core/hashing/index.js'
import { sliceIds } from './next-turn.js'
import { RememberedTexts } from './remember/remembered-texts.js'
import type { RememberedText } from './remember/remembered-texts.js'
import type { Kinship, TokensParts } from './tokens.js'
import { Tokens } from './tokens.js'
import { turnsDuring } from './turns.case.js'

const ids = Uint32Array.from({ length: 3 * sliceIds + 77 }, (_, at) => (at * 7919) % 50_000)
const made = (parts: Partial<TokensParts> = {}): Tokens =>
  new Tokens({ ids, source: 'engine', exactness: 'proven', ...parts })

/** How many tokens each call had to hash. */
function watched(): { readonly hasher: BlockHasher; readonly hashed: number[] } {
  const hasher = createBlockHasher()
  const hashed: number[] = []
  const hash = hasher.hash.bind(hasher)
  const extend = hasher.extend.bind(hasher)
  vi.spyOn(hasher, 'hash').mockImplementation((tokens, ...rest) => {
    hashed.push(tokens.length)
    hash(tokens, ...rest)
  })
  vi.spyOn(hasher, 'extend').mockImplementation((known, tokens, scheme, options) => {
    const shared = extend(known, tokens, scheme, options)
    hashed.push(tokens.length - shared * scheme.blockSize)
    return shared
  })
  return { hasher, hashed }
}

function remember(memory: RememberedTexts, of: Uint32Array): RememberedText {
  const bytes = new Uint8Array(of.buffer, of.byteOffset, of.byteLength)
  const parts = { bytes, ids: of, specialsBefore: 0, specialsAfter: 0, cuts: new Uint32Array(0) }
  return memory.add(parts, { marks: [], match: undefined })
}

/** A prompt that shares so many tokens with one whose hashes are known. */
function kinOf(sharedTokens: number): Kinship {
  const memory = new RememberedTexts(64 << 20)
  const near = remember(memory, ids.slice(0, sharedTokens + 5).fill(7, sharedTokens))
  const kinship = { memory, own: near, near: undefined, sharedTokens: 0 }
  for (const scheme of schemes) made({ ids: near.ids, kinship }).blockHashes(scheme, createBlockHasher())
  return { memory, own: remember(memory, ids), near, sharedTokens }
}

const schemes = [createHashScheme({ blockSize: 16 }), createHashScheme({ blockSize: 48, isEagle: true })]
const mediaAt = (from: number): { mmObjects: unknown[] } => ({
  mmObjects: [{ mmHash: 77n, offsets: [[from, from + 60] as const] }],
})
const media = mediaAt(sliceIds - 20)

it.each(
  schemes.flatMap((scheme) => [
    { says: 'ids alone', scheme, parts: (): Partial<TokensParts> => ({}) },
    { says: 'with a picture across two slices', scheme, parts: () => ({ media: media as never }) },
    { says: 'with a picture at its start', scheme, parts: () => ({ media: mediaAt(5) as never }) },
    {
      says: 'with a picture and kin that has none',
      scheme,
      parts: () => ({ media: media as never, kinship: kinOf(2 * sliceIds) }),
    },
    { says: 'with short kin', scheme, parts: () => ({ kinship: kinOf(1003) }) },
    { says: 'with kin of two slices', scheme, parts: () => ({ kinship: kinOf(2 * sliceIds + 9) }) },
  ]),
)('many ids are hashed in slices, $says, $scheme.blockSize tokens in a block', async ({ scheme, parts }) => {
  const { hasher, hashed } = watched()
  const tokens = made(parts())
  const { turns } = await turnsDuring(() => tokens.hashAhead(scheme, hasher))
  expect(Math.max(...hashed)).toBeLessThanOrEqual(sliceIds + 2 * scheme.blockSize)
  expect(turns).toBeGreaterThanOrEqual(hashed.length - 1)
  const calls = hashed.length
  const ahead = tokens.blockHashes(scheme, hasher)
  expect(hashed.length).toBe(calls) // nothing was left to do
  const { media: its } = tokens
  const fresh = made({ media: its }).blockHashes(scheme, createBlockHasher())
  expect(ahead.count).toBe(fresh.count)
  expect(Buffer.from(ahead.localColumn().slice().buffer).equals(Buffer.from(fresh.localColumn().slice().buffer))).toBe(
    true,
  )
  expect(
    Buffer.from(ahead.sequenceColumn().slice().buffer).equals(Buffer.from(fresh.sequenceColumn().slice().buffer)),
  ).toBe(true)
})

// Hashes of the same ids are others for another block size, adapter, namespace or kind of window: none is taken for another.
describe.each(['its own', 'its kin'])('hashes of %s', (whose) => {
  const forms = [{}, { loraName: 'sql' }, { cacheNamespace: 'tenant' }, { isEagle: true }, { blockSize: 4 }]
  const all = forms.map((form) => createHashScheme({ blockSize: 16, ...form }))

  it.each(all.flatMap((asked) => all.map((known) => ({ asked, known }))))(
    'are those that were asked for, whatever is known: case %#',
    ({ asked, known }) => {
      const memory = new RememberedTexts(64 << 20)
      const few = ids.slice(0, 1000)
      const kin = remember(memory, whose === 'its own' ? few : few.slice().fill(7, 900))
      const ofKin = { memory, own: kin, near: undefined, sharedTokens: 0 }
      made({ ids: kin.ids, kinship: ofKin }).blockHashes(known, createBlockHasher())
      const kinship = whose === 'its own' ? ofKin : { memory, own: undefined, near: kin, sharedTokens: 900 }
      const hashes = made({ ids: few, kinship }).blockHashes(asked, createBlockHasher())
      const fresh = made({ ids: few }).blockHashes(asked, createBlockHasher())
      expect([...hashes.localColumn()]).toEqual([...fresh.localColumn()])
      expect([...hashes.sequenceColumn()]).toEqual([...fresh.sequenceColumn()])
    },
  )
})

it('few ids are hashed when they are asked for', async () => {
  const { hasher, hashed } = watched()
  const tokens = made({ ids: ids.slice(0, sliceIds) })
  expect(tokens.isLong).toBe(false)
  await tokens.hashAhead(schemes[0]!, hasher)
  expect(hashed).toEqual([])
})

it('hashes that are made twice at once are kept once, and count', async () => {
  const memory = new RememberedTexts(64 << 20)
  const own = remember(memory, ids)
  const before = memory.byteLength
  const tokens = made({ kinship: { memory, own, near: undefined, sharedTokens: 0 } })
  await Promise.all([1, 2].map(() => tokens.hashAhead(schemes[0]!, createBlockHasher())))
  expect(own.hashes).toHaveLength(1)
  expect(memory.byteLength - before).toBeGreaterThan(16 * own.hashes[0]!.count)
})

it('a batch counts the tokens of all its prompts', () => {
  expect(made({ promptCount: 2, totalCount: 5 })).toMatchObject({ promptCount: 2, totalCount: 5 })
  expect(made()).toMatchObject({ promptCount: 1, totalCount: ids.length })
})
