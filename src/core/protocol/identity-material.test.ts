import { expect, it } from 'vitest'
import { defaultMaterial, explicitMaterial, withCacheSemantics } from './identity-material.js'

const tag = 'dynamo/stable-dp-slot/explicit/v1'
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
const many = (count: number): [string, string][] => Array.from({ length: count }, (_, i) => [`k${i}`, 'v'])

it.each<[string, [string, string][], string]>([
  ['no entries', [], '1 to 32 entries'],
  ['33 entries', many(33), '1 to 32 entries'],
  ['an empty key', [['', 'v']], '1 to 128 bytes'],
  ['a key of 129 bytes', [['k'.repeat(129), 'v']], '1 to 128 bytes'],
  ['a key of 65 two-byte letters', [['ä'.repeat(65), 'v']], '1 to 128 bytes'],
  ['an empty value', [['k', '']], '1 to 1024 bytes'],
  ['a value of 1025 bytes', [['k', 'v'.repeat(1025)]], '1 to 1024 bytes'],
  [
    'the same key twice',
    [
      ['k', 'a'],
      ['k', 'b'],
    ],
    'a key twice',
  ],
])('refuses %s', (_says, pairs, reason) => {
  expect(() => explicitMaterial(tag, pairs)).toThrow(reason)
})

it('accepts the limits themselves', () => {
  expect(() => explicitMaterial(tag, [['k'.repeat(128), 'v'.repeat(1024)], ...many(31)])).not.toThrow()
})

it('does not depend on the order in which entries were written', () => {
  expect(
    hex(
      explicitMaterial(tag, [
        ['b', '2'],
        ['a', '1'],
      ]),
    ),
  ).toBe(
    hex(
      explicitMaterial(tag, [
        ['a', '1'],
        ['b', '2'],
      ]),
    ),
  )
})

it('frames every string by its length, so that no two lists give the same bytes', () => {
  expect(hex(defaultMaterial(tag, ['ab', 'c']))).not.toBe(hex(defaultMaterial(tag, ['a', 'bc'])))
  const framedTag = `21000000${Buffer.from(tag).toString('hex')}`
  expect(hex(explicitMaterial(tag, [['a', '1']]))).toBe(`${framedTag}01000000${'01000000'}61${'01000000'}31`)
})

it('ends cache semantics with the block size and the form of event hashes', () => {
  const identity = defaultMaterial('dynamo/indexer-cache-semantics/default/v1', ['m'])
  expect(hex(withCacheSemantics(identity, 16, 2))).toBe(`${hex(identity)}100000000200`)
})
