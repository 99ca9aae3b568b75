import { expect, it } from 'vitest'
import { newMatchColumns, RankTable } from '../core/protocol/index.js'
import { encodingFor, matchesByEncoding } from './encodings.js'

const noHashes = { local: new Uint32Array(0), sequence: new Uint32Array(0) }

it('lays what each worker holds by its own tokens into one set of columns', () => {
  const ranks = new RankTable()
  const [a, b, c] = [1n, 2n, 3n].map((workerId) => ranks.intern(workerId, 0)) as [number, number, number]
  const shared = newMatchColumns(3)
  const fill = (depths: readonly number[], hostPinned: readonly number[]): typeof shared => {
    shared.rankCount = 3
    shared.device.set(depths)
    shared.hostPinned.set(hostPinned)
    shared.hasLowerTiers = hostPinned.some((blocks) => blocks > 0)
    return shared
  }
  const encodings = [
    { workerIds: new Set([2n]), hashes: noHashes },
    { workerIds: new Set([3n, 9n]) }, // nobody knows its tokens; and one that has left
  ]
  const merged = matchesByEncoding(ranks, fill([5, 6, 7], [0, 0, 0]), encodings, () => fill([1, 2, 3], [4, 4, 4]))
  expect([merged.device[a], merged.device[b], merged.device[c]]).toEqual([5, 2, 0])
  expect([merged.hostPinned[a], merged.hostPinned[b], merged.hostPinned[c]]).toEqual([0, 4, 0])
  expect(merged.hasLowerTiers).toBe(true)
  expect(encodingFor(encodings, 2n)).toBe(encodings[0])
  expect(encodingFor(encodings, 1n)).toBeUndefined()
})
