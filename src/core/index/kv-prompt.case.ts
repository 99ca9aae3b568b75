/** Prompts as tokens, and ranks as shards see them, whatever exact index lies inside. */
import { describe, expect, it } from 'vitest'
import { BlockHashes, computeBlockHashes, createBlockHasher, createHashScheme } from '../hashing/index.js'
import { newMatchColumns, type RouterEvent, toBigInts } from '../protocol/index.js'
import { a, b, cleared, newKv, type Rank, removed, stored } from './kv-drive.case.js'
import type { PrefixIndex } from './prefix-index.js'

const tokens = Uint32Array.from({ length: 13 }, (_, at) => 100 + at)
const names = { loraName: 'adapter-a', cacheNamespace: 'tenant-a' }

export function kvPromptConformance(name: string, newIndex: () => PrefixIndex): void {
  const hasher = createBlockHasher()

  /** Depth of rank `a` for a prompt that is hashed straight into the index's memory. */
  function depthOfTokens(
    it: ReturnType<typeof newKv>,
    prompt: Uint32Array,
    options: typeof names | object = {},
  ): number {
    const hashes = new BlockHashes((blocks) => it.kv.promptColumn(blocks))
    hasher.hash(prompt, createHashScheme({ blockSize: 4, ...options }), hashes)
    const columns = newMatchColumns()
    it.kv.findMatches(hashes.local, hashes.count, columns)
    return columns.device[it.ranks.find(...a)!]!
  }

  describe(`${name}: prompts as tokens`, () => {
    it('find what their hashes find', () => {
      const it = newKv(newIndex)
      const locals = computeBlockHashes([...tokens], 4)
      it.apply(stored(a, locals.slice(0, 2)))
      expect(it.find(locals)).toEqual({ '1.0': [2, 0, 0, 0] })
      expect(depthOfTokens(it, tokens)).toBe(2)
      expect(depthOfTokens(it, tokens.subarray(0, 7))).toBe(1) // the second block is not complete
    })

    it('never cross from one adapter or namespace to another, or to none', () => {
      const variants = [{}, { loraName: names.loraName }, { cacheNamespace: names.cacheNamespace }, names]
      for (const own of variants) {
        const it = newKv(newIndex)
        it.apply(stored(a, computeBlockHashes([...tokens], 4, own)))
        expect(variants.map((other) => depthOfTokens(it, tokens, other))).toEqual(
          variants.map((other) => (other === own ? 3 : 0)),
        )
      }
    })

    it('may be written where the index keeps them again and again, while it grows', () => {
      const it = newKv(newIndex)
      const hashes = new BlockHashes((blocks) => it.kv.promptColumn(blocks))
      const scheme = createHashScheme({ blockSize: 1 })
      const columns = newMatchColumns()
      for (let round = 1; round <= 12; round++) {
        const prompt = Uint32Array.from({ length: 60 * round }, (_, at) => 7 * round + at)
        hasher.hash(prompt, scheme, hashes)
        it.apply(stored(a, toBigInts(hashes.localColumn()).slice(0, 50)))
        hasher.hash(prompt, scheme, hashes)
        it.kv.findMatches(hashes.local, hashes.count, columns)
        expect(columns.device[0]).toBe(50)
      }
    })
  })

  describe(`${name}: ranks of one worker`, () => {
    const ranks: readonly Rank[] = [0, 1, 2, 3, 4].map((dpRank) => [1n, dpRank])

    it('keep apart what each of them holds, and all go with the worker', () => {
      const it = newKv(newIndex)
      for (const [dpRank, rank] of ranks.entries()) it.apply(stored(rank, [1n, 2n, 3n, 4n, 5n].slice(0, dpRank + 1)))
      it.apply(stored(b, [1n]))
      const depths = () => Object.values(it.find([1n, 2n, 3n, 4n, 5n])).map(([device]) => device)
      expect(depths()).toEqual([1, 2, 3, 4, 5, 1])
      it.apply(cleared(ranks[2]!), removed(ranks[4]!, [[1n, 2n]]))
      expect(it.find([1n, 2n, 3n, 4n, 5n])).toMatchObject({ '1.1': [2, 0, 0, 0], '1.4': [1, 0, 0, 0] })
      it.kv.removeWorker(1n)
      expect(it.find([1n, 2n, 3n, 4n, 5n])).toEqual({ '2.0': [1, 0, 0, 0] })
    })

    it('are not made by forgetting: an unknown worker takes no number', () => {
      const it = newKv(newIndex)
      it.apply(stored(a, [1n]))
      it.kv.removeWorker(99n)
      it.apply(removed([98n, 0], [[1n]]), cleared([97n, 3]))
      expect([...it.ranks.live()]).toHaveLength(1)
    })
  })

  it(`${name}: a list of older and newer publishers: a missing domain is the worker’s, what is unknown is passed over`, () => {
    const it = newKv(newIndex)
    const outcomes = it.apply(
      { ...stored(a, [1n, 2n]), residencyDomain: 'missing' },
      { ...stored(a, [9n]), residencyDomain: 'unknown' },
      { ...stored(a, [8n]), residencyDomain: 'invalid' },
      stored(b, [1n]),
    )
    const unsupported = 'unsupported_residency_domain'
    expect(outcomes).toEqual(['ok', unsupported, unsupported, 'ok'])
    expect(it.find([1n, 2n])).toEqual({ '1.0': [2, 0, 0, 0], '2.0': [1, 0, 0, 0] })
    expect([it.find([9n]), it.find([8n])]).toEqual([{}, {}])
    it.apply({ ...cleared(a), residencyDomain: 'missing' })
    expect(it.find([1n, 2n])).toEqual({ '2.0': [1, 0, 0, 0] })
  })

  it(`${name}: a store’s start position is read and has no effect: a block lies where its parent says`, () => {
    const it = newKv(newIndex)
    it.apply(atPosition(stored(a, [1n, 2n]), 10), atPosition(stored(a, [3n], { after: [1n, 2n] }), 11))
    expect(it.find([1n, 2n, 3n])).toEqual({ '1.0': [3, 0, 0, 0] })
    for (const { event } of it.kv.dump()) expect(event.data).toMatchObject({ startPosition: null })
  })
}

function atPosition(event: RouterEvent, startPosition: number): RouterEvent {
  return {
    ...event,
    event: { ...event.event, data: { ...event.event.data, startPosition } as typeof event.event.data },
  }
}
