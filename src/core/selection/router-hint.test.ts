import { expect, it } from 'vitest'
import { toHashColumn } from '../protocol/index.js'
import type { HintPeer } from './router-hint.js'
import { bestHintSource, routerHint } from './router-hint.js'
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
  const { device } = request.cache.match
  const target = { rank: 0, blocks: device[0]!, promptBlocks }
  const best = bestHintSource(workers, target, (rank) => device[rank]!, peerOf)
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
  const { device } = request.cache.match
  device[1] = 4
  const target = { rank: 0, blocks: 0, promptBlocks: 8 }
  const best = bestHintSource(
    workers,
    target,
    (rank) => device[rank]!,
    () => giver(),
  )
  expect(best).toMatchObject({ rank: 1, blocks: 4 })
})

it('counts the target’s own blocks by what the caller says, predictions included', () => {
  const { workers } = fleetOf({ 1: {}, 2: {} })
  const source = (blocks: number) =>
    bestHintSource(
      workers,
      { rank: 0, blocks, promptBlocks: 9 },
      () => 4,
      () => giver(),
    )
  expect([source(3)?.blocks, source(4)]).toEqual([4, undefined])
})

it('hands on as many of the source’s hashes as it is a source of, and none where they are too few', () => {
  const source = { rank: 1, controlEndpoint: 'tcp://peer', blocks: 2 }
  const blockHashes = [7n, 2n ** 64n - 1n]
  expect(routerHint(source, toHashColumn([...blockHashes, 9n]))).toEqual({
    sourceControlEndpoint: 'tcp://peer',
    blockHashes,
  })
  expect(routerHint(source, toHashColumn([7n]))).toBeUndefined()
  expect(routerHint({ ...source, blocks: 0 }, toHashColumn([]))).toBeUndefined()
})
