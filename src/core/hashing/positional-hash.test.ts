import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BlockHashes, createHashScheme, fromBytes128, packPositional, toBytes128, unpackPositional } from './index.js'
import { toBigInts } from '../protocol/index.js'
import { hashers } from './vectors.case.js'

const anyHash = fc.bigInt(0n, 2n ** 64n - 1n)
const hex = (name: bigint) => name.toString(16).padStart(32, '0')

// Made with a few lines of Python from the layout alone; the hashes are those that upstream's own test takes.
it.each([
  [0, '001cba98765432101234567890abcdef'],
  [100, '191cba98765432101234567890abcdef'],
  [255, '3fdcba98765432101234567890abcdef'],
  [256, '40403a98765432101234567890abcdef'],
  [1000, '40fa3a98765432101234567890abcdef'],
  [65_535, '7ffffa98765432101234567890abcdef'],
  [65_536, '80400018765432101234567890abcdef'],
  [2 ** 24 - 1, 'bfffffd8765432101234567890abcdef'],
  [2 ** 24, 'c0800000765432101234567890abcdef'],
  [2 ** 31 - 1, 'fffffffff65432101234567890abcdef'],
])('packs the block at position %d', (position, expected) => {
  expect(hex(packPositional(position, 0x1234567890abcdefn, 0xfedcba9876543210n))).toBe(expected)
})

describe.each(hashers)('$backend', (hasher) => {
  it('names the blocks of the vector three-blocks', () => {
    const hashes = new BlockHashes()
    hasher.hash(
      Uint32Array.from({ length: 12 }, (_, at) => at + 1),
      createHashScheme({ blockSize: 4 }),
      hashes,
    )
    const local = toBigInts(hashes.localColumn())
    const names = toBigInts(hashes.sequenceColumn()).map((sequence, at) => packPositional(at, sequence, local[at]!))
    expect(names.map(hex)).toEqual([
      '0038e4d7fb2dca5ccb38e4d7fb2dca5c',
      '0053ec39b907b74c44a2b2379d6d3c3d',
      '00b748f1777d599caea1e67a6c80cf84',
    ])
  })
})

it.each([
  [255, 54],
  [256, 46],
  [65_535, 46],
  [65_536, 38],
  [2 ** 24 - 1, 38],
  [2 ** 24, 31],
  [2 ** 31 - 1, 31],
])('at position %d keeps %d bits of the local hash', (position, bits) => {
  const all = 2n ** 64n - 1n
  const unpacked = { position, sequenceHash: 5n, localFragment: BigInt.asUintN(bits, all) }
  expect(unpackPositional(packPositional(position, 5n, all))).toEqual(unpacked)
})

it('unpacks what it packed', () => {
  fc.assert(
    fc.property(fc.nat({ max: 2 ** 31 - 1 }), anyHash, anyHash, (position, sequenceHash, local) => {
      const unpacked = unpackPositional(packPositional(position, sequenceHash, local))
      expect(unpacked).toMatchObject({ position, sequenceHash })
      expect(BigInt.asUintN(31, unpacked.localFragment)).toBe(BigInt.asUintN(31, local))
    }),
  )
})

it.each([2 ** 31, -1, 0.5])('refuses position %d', (position) => {
  expect(() => packPositional(position, 1n, 1n)).toThrow('a position is an integer below 2^31')
})

it.each([-1n, 1n << 128n])('refuses to unpack %d', (name) => {
  expect(() => unpackPositional(name)).toThrow('not a positional hash')
})

describe('as it travels', () => {
  it('is 16 bytes, the highest first, and reads back from bytes and from a list of numbers', () => {
    fc.assert(
      fc.property(fc.bigInt(0n, 2n ** 128n - 1n), (name) => {
        const bytes = toBytes128(name)
        expect(Buffer.from(bytes).toString('hex')).toBe(hex(name))
        expect([fromBytes128(bytes), fromBytes128([...bytes])]).toEqual([name, name])
      }),
    )
  })

  it.each([
    [[]],
    [Array(15).fill(0)],
    [Array(17).fill(0)],
    [[...Array(15).fill(0), 256]],
    [[...Array(15).fill(0), 0.5]],
  ])('refuses %j', (bytes) => {
    expect(() => fromBytes128(bytes)).toThrow('a name travels as 16 bytes')
  })

  it.each([-1n, 1n << 128n])('refuses to write %d', (name) => {
    expect(() => toBytes128(name)).toThrow('a name is a number of 128 bits')
  })
})
