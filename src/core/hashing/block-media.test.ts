import fc from 'fast-check'
import { expect, it } from 'vitest'
import { computeBlockHashes, padValue, toBlockExtraInfo, toBlockMedia } from './index.js'

const object = (mmHash: bigint, ...offsets: [number, number][]) => ({ mmHash, offsets })
const info = (...mmHashes: bigint[]) => ({ mmObjects: mmHashes.map((mmHash) => object(mmHash)) })
const tokens = [100, 100, 100, 100, 7]

it('ignores where in the block an object lies', () => {
  const at = (offsets: [number, number][]) =>
    computeBlockHashes(tokens, 4, { blockExtraInfo: [{ mmObjects: [{ mmHash: 42n, offsets }] }] })
  expect(at([[0, 2]])).toEqual(at([[1, 4]]))
  expect(at([])).toEqual(at([[1, 4]]))
})

it('hashes media in ascending order, as unsigned numbers, however they are listed', () => {
  const of = (...hashes: bigint[]) => computeBlockHashes(tokens, 4, { blockExtraInfo: [info(...hashes)] })
  expect(of(2n ** 63n, 1n, 9n)).toEqual(of(9n, 2n ** 63n, 1n))
  expect(of(-1n, 1n)).toEqual(of(1n, 2n ** 64n - 1n)) // signed values keep their bits
})

it('counts an object that is named twice twice', () => {
  const of = (...hashes: bigint[]) => computeBlockHashes(tokens, 4, { blockExtraInfo: [info(...hashes)] })
  expect(of(42n, 42n)).not.toEqual(of(42n))
})

it('treats null, an empty list and a list that is too short as no media', () => {
  const plain = computeBlockHashes(tokens, 4)
  for (const blockExtraInfo of [[], [null], [info()]]) {
    expect(computeBlockHashes(tokens, 4, { blockExtraInfo })).toEqual(plain)
  }
  expect(toBlockMedia([null, info()])).toBeUndefined()
})

it('ignores media of a partial tail', () => {
  expect(computeBlockHashes(tokens, 4, { blockExtraInfo: [null, info(42n)] })).toEqual(computeBlockHashes(tokens, 4))
})

it('masks an image hash to 30 bits and adds a million', () => {
  expect(padValue(0x3fff_ffffn)).toBe(1_000_000 + 2 ** 30 - 1)
  expect(padValue(0x4000_0000n)).toBe(1_000_000)
  expect(padValue(2n ** 64n - 1n)).toBe(1_000_000 + 2 ** 30 - 1)
})

it('cuts ranges of a prompt at the block borders', () => {
  const request = { mmObjects: [object(1n, [2, 6], [7, 8]), object(2n, [5, 5], [4, 5]), object(3n, [8, 99])] }
  expect(toBlockExtraInfo(request, 4, 10)).toEqual([
    { mmObjects: [object(1n, [2, 4])] },
    { mmObjects: [object(1n, [0, 2], [3, 4]), object(2n, [0, 1])] },
    { mmObjects: [object(3n, [0, 4])] },
  ])
})

it('joins a second object of the same hash, or keeps it as events do', () => {
  const request = { mmObjects: [object(1n, [0, 2]), object(1n, [3, 6])] }
  expect(toBlockExtraInfo(request, 4, 8)).toEqual([
    { mmObjects: [object(1n, [0, 2], [3, 4])] },
    { mmObjects: [object(1n, [0, 2])] },
  ])
  expect(toBlockExtraInfo(request, 4, 8, 'kept')).toEqual([
    { mmObjects: [object(1n, [0, 2]), object(1n, [3, 4])] },
    { mmObjects: [object(1n, [0, 2])] },
  ])
})

it.each([
  ['without tokens', 4, 0],
  ['with a block size of 0', 0, 10],
])('has no slots %s', (_says, blockSize, tokenCount) => {
  expect(toBlockExtraInfo({ mmObjects: [object(1n, [0, 4])] }, blockSize, tokenCount)).toEqual([])
})

it('covers in each block exactly the tokens that the request covers', () => {
  const anyRange = fc.tuple(fc.nat({ max: 40 }), fc.nat({ max: 40 }))
  const anyObject = fc.record({ mmHash: fc.bigInt(0n, 2n), offsets: fc.array(anyRange, { maxLength: 3 }) })
  const anyRequest = fc.record({ mmObjects: fc.array(anyObject, { maxLength: 4 }) })
  const anySize = fc.integer({ min: 1, max: 9 })
  fc.assert(
    fc.property(anyRequest, anySize, fc.nat({ max: 30 }), (request, blockSize, tokenCount) => {
      const slots = toBlockExtraInfo(request, blockSize, tokenCount)
      expect(slots).toHaveLength(Math.ceil(tokenCount / blockSize))
      for (const [block, slot] of slots.entries()) {
        const hashes = slot?.mmObjects.map(({ mmHash }) => mmHash) ?? []
        expect(new Set(hashes).size).toBe(hashes.length)
        for (let at = 0; at < blockSize; at++) {
          for (const mmHash of [0n, 1n, 2n]) {
            expect(covers(slot, mmHash, at)).toBe(covers(request, mmHash, block * blockSize + at))
          }
        }
      }
    }),
  )
})

type Objects = { readonly mmObjects: readonly { mmHash: bigint; offsets: readonly (readonly [number, number])[] }[] }

function covers(where: Objects | null, mmHash: bigint, token: number): boolean {
  const ranges = where?.mmObjects.filter((it) => it.mmHash === mmHash).flatMap(({ offsets }) => offsets) ?? []
  return ranges.some(([start, end]) => start <= token && token < end)
}
