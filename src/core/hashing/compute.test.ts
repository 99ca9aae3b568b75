import fc from 'fast-check'
import { expect, it } from 'vitest'
import { blockSeed, computeBlockHashes, computeSequenceHashes, nextSequenceHash } from './index.js'

const tokens = [0, 1, 2, 3, 4, 5, 6, 7]

it('takes the same step alone as inside a chain', () => {
  fc.assert(
    fc.property(fc.array(fc.bigInt(0n, 2n ** 64n - 1n), { minLength: 2, maxLength: 20 }), (local) => {
      const chain = computeSequenceHashes(local)
      expect(chain[0]).toBe(local[0])
      for (let at = 1; at < local.length; at++) expect(nextSequenceHash(chain[at - 1]!, local[at]!)).toBe(chain[at])
    }),
  )
})

it('has no chain without blocks', () => {
  expect(computeSequenceHashes([])).toEqual([])
})

it('tells adapters apart, and an empty name from none it does not', () => {
  const of = (loraName?: string) => computeBlockHashes(tokens, 4, { loraName })
  expect(new Set([of(), of('adapter-a'), of('adapter-b')].map(String)).size).toBe(3)
  expect(of('')).toEqual(of())
})

it('tells namespaces apart, from each other and from adapters of the same name', () => {
  const names = [
    {},
    { cacheNamespace: 'a' },
    { cacheNamespace: 'b' },
    { loraName: 'a' },
    { loraName: 'a', cacheNamespace: 'a' },
  ]
  expect(new Set(names.map((name) => String(computeBlockHashes(tokens, 4, name)))).size).toBe(names.length)
  expect(computeBlockHashes(tokens, 4, { cacheNamespace: '' })).toEqual(computeBlockHashes(tokens, 4))
})

it('chains under the base seed whatever the names: they enter through the local hashes', () => {
  const local = computeBlockHashes(tokens, 4, { loraName: 'a', cacheNamespace: 'b' })
  expect(computeSequenceHashes(local)[1]).toBe(nextSequenceHash(local[0]!, local[1]!))
  expect(blockSeed({ loraName: 'a', cacheNamespace: 'b' })).not.toBe(1337n)
})

it('accepts a typed array as it is', () => {
  expect(computeBlockHashes(Uint32Array.from(tokens), 4)).toEqual(computeBlockHashes(tokens, 4))
})

it.each([-1, 2 ** 32, 1.5, Number.NaN])('refuses %d as a token', (token) => {
  expect(() => computeBlockHashes([1, token], 1)).toThrow('a token is an integer from 0 to 4294967295')
})
