import { expect, it } from 'vitest'
import type { HintPeer } from './router-hint.js'
import { bestHintSource } from './router-hint.js'
import { fleetOf } from './selection.case.js'

const giver = (workerType = 'decode'): HintPeer => ({ workerType, controlEndpoint: 'tcp://peer' })

/** Depths of workers 1, 2, ...; the first is the chosen one. Answers the worker that would give. */
function source(
  depths: number[],
  promptBlocks = 10,
  peers: Record<number, HintPeer | undefined> = {},
): bigint | undefined {
  const { workers, request } = fleetOf(Object.fromEntries(depths.map((device, index) => [index + 1, { device }])))
  const peerOf = (rank: number) => (rank in peers ? peers[rank] : giver())
  const best = bestHintSource(workers, request.cache.match, 0, promptBlocks, peerOf)
  return best && workers.ranks.pairOf(best.rank).workerId
}

it('takes the longest prefix beyond the chosen rank’s own, and the lower id of two', () => {
  expect([source([2, 3, 5, 4]), source([2, 5, 5])]).toEqual([3n, 2n])
})

it('needs a prefix that is strictly longer', () => {
  expect([source([3, 3, 2]), source([0, 0])]).toEqual([undefined, undefined])
})

it('needs the same type of worker and an endpoint at the source', () => {
  expect(source([1, 5, 3], 10, { 1: giver('prefill') })).toBe(3n)
  expect(source([1, 5, 3], 10, { 1: { workerType: 'decode' } })).toBe(3n)
  expect(source([1, 5], 10, { 1: undefined })).toBe(undefined)
  expect(source([1, 5], 10, { 0: { workerType: 'decode' } })).toBe(2n)
  expect(source([1, 5], 10, { 0: undefined })).toBe(undefined)
})

it('gives none where a prefix is longer than the prompt', () => {
  expect([source([1, 11, 5]), source([1, 10, 5])]).toEqual([undefined, 2n])
})

it('takes another rank of the chosen worker', () => {
  const { workers, request } = fleetOf({ 1: {} }, {}, {}, { 1: { dataParallelSize: 2 } })
  request.cache.match.device[1] = 4
  expect(bestHintSource(workers, request.cache.match, 0, 8, () => giver())).toMatchObject({ rank: 1, blocks: 4 })
})
