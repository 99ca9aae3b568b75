import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { toBigInts } from '../protocol/index.js'
import type { BlockHasher, HashScheme } from './index.js'
import { BlockHashes, createHashScheme, toBlockMedia } from './index.js'
import { hashers } from './vectors.case.js'

const upTo = (count: number) => Uint32Array.from({ length: count }, (_, token) => token)

describe.each(hashers)('$backend', (hasher) => {
  it.each([11, 32, 64])('cuts complete blocks of %d tokens and leaves the tail', (blockSize) => {
    const scheme = createHashScheme({ blockSize })
    const counts = [blockSize - 1, blockSize, blockSize + 1, 2 * blockSize + 1].map(
      (tokens) => hashed(hasher, upTo(tokens), scheme).local.length,
    )
    expect(counts).toEqual([0, 1, 1, 2])
  })

  it('hashes nothing with a block size of 0', () => {
    expect(hashed(hasher, upTo(64), createHashScheme({ blockSize: 0 })).local).toEqual([])
  })

  it('overlaps eagle windows by one token', () => {
    const eagle = hashed(hasher, upTo(6), createHashScheme({ blockSize: 2, isEagle: true })).local
    const windows = [
      [0, 1, 2],
      [2, 3, 4],
    ].map((window) => hashed(hasher, Uint32Array.from(window), createHashScheme({ blockSize: 3 })).local[0])
    expect(eagle).toEqual(windows)
  })

  it('fills the same memory again and again', () => {
    const scheme = createHashScheme({ blockSize: 4 })
    const hashes = new BlockHashes()
    hasher.hash(upTo(400), scheme, hashes)
    const { local, sequence } = hashes
    hasher.hash(upTo(40), scheme, hashes)
    hasher.extend(hashes, upTo(400), scheme)
    expect(hashes.local).toBe(local)
    expect(hashes.sequence).toBe(sequence)
  })

  it('takes over whole blocks only, and nothing under another scheme', () => {
    const scheme = createHashScheme({ blockSize: 4 })
    const known = new BlockHashes()
    const reused = (tokens: Uint32Array, other: HashScheme) => {
      hasher.hash(upTo(18), scheme, known)
      return hasher.extend(known, tokens, other)
    }
    expect(reused(upTo(40), scheme)).toBe(4)
    expect(reused(upTo(7), scheme)).toBe(1)
    expect(reused(upTo(40).fill(9, 10), scheme)).toBe(2)
    expect(reused(upTo(40), createHashScheme({ blockSize: 4 }))).toBe(4) // an equal scheme is the same
    expect(reused(upTo(40), createHashScheme({ blockSize: 8 }))).toBe(0)
    expect(reused(upTo(40), createHashScheme({ blockSize: 4, loraName: 'a' }))).toBe(0)
    expect(reused(upTo(40), createHashScheme({ blockSize: 4, cacheNamespace: 'a' }))).toBe(0)
    expect(reused(upTo(40), createHashScheme({ blockSize: 4, isEagle: true }))).toBe(0)
    known.clear()
    expect(hasher.extend(known, upTo(40), scheme)).toBe(0)
  })

  // Goal: continuing from a known prefix never changes an answer. Method: random edits of a prompt, its cut and its
  // media, in place and into a second buffer, against hashing from nothing. Small alphabets make long shared prefixes.
  it('gives from any known prompt what it gives from nothing', () => {
    const anyPrompt = fc.record({
      tokens: fc.uint32Array({ maxLength: 120, max: 2, size: 'max' }),
      blockSize: fc.constantFrom(1, 2, 5, 16),
      isEagle: fc.boolean(),
      loraName: fc.constantFrom('', 'a'),
      media: fc.array(fc.option(fc.array(fc.bigInt(0n, 2n), { maxLength: 2 })), { maxLength: 6 }),
    })
    const anyEdit = fc.record({
      keep: fc.integer({ min: 0, max: 140 }),
      append: fc.uint32Array({ maxLength: 40, max: 2 }),
      cut: fc.option(anyPrompt, { freq: 6 }), // mostly the same scheme and media: otherwise nothing is shared
      isInPlace: fc.boolean(),
      back: fc.integer({ min: 0, max: 3 }), // which earlier prompt is continued
    })
    fc.assert(
      fc.property(anyPrompt, fc.array(anyEdit, { minLength: 1, maxLength: 6 }), (first, edits) => {
        let prompt = first
        let known = new BlockHashes()
        const earlier: { of: typeof first; hashes: BlockHashes; local: bigint[]; sequence: bigint[] }[] = []
        hasher.hash(prompt.tokens, createHashScheme(prompt), known, mediaOf(prompt.media))
        for (const { keep, append, cut, isInPlace, back } of edits) {
          const tokens = Uint32Array.from([...prompt.tokens.subarray(0, keep), ...append])
          const before = prompt
          prompt = { ...(cut ?? prompt), tokens }
          const into = isInPlace ? known : new BlockHashes()
          const scheme = createHashScheme(prompt)
          const reused = hasher.extend(known, tokens, scheme, { into, media: mediaOf(prompt.media) })
          const whole = hashed(hasher, tokens, scheme, prompt.media)
          expect(toBigInts(into.localColumn())).toEqual(whole.local)
          expect(toBigInts(into.sequenceColumn())).toEqual(whole.sequence)
          // Whoever keeps an earlier prompt keeps its hashes, though later ones may lie in the same columns.
          const others = earlier.filter((it) => it.hashes !== into)
          for (const it of others) {
            expect(toBigInts(it.hashes.localColumn())).toEqual(it.local)
            expect(toBigInts(it.hashes.sequenceColumn())).toEqual(it.sequence)
          }
          earlier.splice(0, earlier.length, ...others, { of: prompt, hashes: into, ...whole })
          if (cut === null) expect(reused).toBe(sameBlocks(before.tokens, tokens, prompt))
          ;({ of: prompt, hashes: known } = earlier.at(-1 - (back % earlier.length))!)
        }
      }),
      { numRuns: 150 },
    )
  })

  it('writes a continuation behind the prompt it continues, and a second one elsewhere', () => {
    const scheme = createHashScheme({ blockSize: 4 })
    const [one, two, three, other] = [new BlockHashes(), new BlockHashes(), new BlockHashes(), new BlockHashes()]
    hasher.hash(upTo(400), scheme, one)
    hasher.extend(one, upTo(480), scheme, { into: two })
    expect(two.local).not.toBe(one.local) // full: copied, with room for more
    hasher.extend(two, upTo(560), scheme, { into: three })
    expect([three.local, three.sequence]).toEqual([two.local, two.sequence])
    expect(three.local).toBe(two.local)
    expect([one.count, two.count, three.count]).toEqual([100, 120, 140])
    const branch = upTo(560).fill(9, 480)
    expect(hasher.extend(two, branch, scheme, { into: other })).toBe(120)
    expect(other.local).not.toBe(two.local)
    hasher.hash(branch, scheme, two) // filled anew: what the third one was given stays as it is
    expect(toBigInts(three.localColumn())).toEqual(hashed(hasher, upTo(560), scheme).local)
    expect(toBigInts(two.localColumn())).toEqual(toBigInts(other.localColumn()))
  })

  it('does not compare what the caller knows to be the same', () => {
    const scheme = createHashScheme({ blockSize: 4 })
    const known = new BlockHashes()
    hasher.hash(upTo(40), scheme, known)
    const wrongClaim = upTo(80).fill(7, 0, 8)
    expect(hasher.extend(known, wrongClaim, scheme, { sharedTokens: 40, into: new BlockHashes() })).toBe(10)
    expect(hasher.extend(known, wrongClaim, scheme, { sharedTokens: 0, into: new BlockHashes() })).toBe(0)
  })
})

it.each([-1, 1.5, Number.NaN, 2 ** 32])('refuses a block size of %d', (blockSize) => {
  expect(() => createHashScheme({ blockSize })).toThrow('a block size is an integer from 0 to 4294967295')
})

function mediaOf(blocks: readonly (readonly bigint[] | null)[]) {
  return toBlockMedia(
    blocks.map((hashes) => hashes && { mmObjects: hashes.map((mmHash) => ({ mmHash, offsets: [] })) }),
  )
}

function hashed(
  hasher: BlockHasher,
  tokens: Uint32Array,
  scheme: HashScheme,
  media: readonly (readonly bigint[] | null)[] = [],
) {
  const hashes = new BlockHashes()
  hasher.hash(tokens, scheme, hashes, mediaOf(media))
  return { local: toBigInts(hashes.localColumn()), sequence: toBigInts(hashes.sequenceColumn()) }
}

/** Counted plainly: leading blocks whose windows are equal in both prompts. */
function sameBlocks(
  a: Uint32Array,
  b: Uint32Array,
  { blockSize, isEagle }: { blockSize: number; isEagle: boolean },
): number {
  const window = blockSize + (isEagle ? 1 : 0)
  let block = 0
  const isSame = (start: number) =>
    start + window <= Math.min(a.length, b.length) &&
    a.subarray(start, start + window).every((token, at) => token === b[start + at])
  while (isSame(block * blockSize)) block++
  return block
}
