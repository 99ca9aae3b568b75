import { expect, it } from 'vitest'
import { BlockHashes, computeBlockHashes, computeSequenceHashes } from '../core/hashing/index.js'
import type { HashColumn, RouterConfigInput } from '../core/protocol/index.js'
import { completeRouterConfig, toBigInts } from '../core/protocol/index.js'
import type { PromptInput } from './prompt-hashing.js'
import { PromptHashing } from './prompt-hashing.js'
import { fixedRandomness, tokensFrom } from './router.case.js'

const tokens = tokensFrom(0, 18)

function hashingOf(config: RouterConfigInput = {}, isEagle = false): PromptHashing {
  const random = fixedRandomness()
  return new PromptHashing({ config: completeRouterConfig(config), blockSize: 4, isEagle, modelName: 'm', random })
}

function names(hashing: PromptHashing, prompt: Partial<PromptInput> = {}, override = {}): bigint[] | undefined {
  const known = new BlockHashes()
  const scratch = new BlockHashes()
  hashing.hash({ tokens, ...prompt }, known)
  const column: HashColumn | undefined = hashing.trackingNames({ tokens, ...prompt }, override, known, scratch)
  return column && toBigInts(column).slice(0, known.count)
}

it('names the blocks of a running request as the index does', () => {
  expect(names(hashingOf())).toEqual(computeSequenceHashes(computeBlockHashes(tokens, 4)))
})

it('media, adapters and namespaces change the names', () => {
  const plain = names(hashingOf())
  const media = [null, { mmObjects: [{ mmHash: 9n, offsets: [[0, 1]] as [number, number][] }] }]
  const others = [{ blockMmInfos: media }, { loraName: 'l' }, { cacheNamespace: 'l' }].map((it) =>
    names(hashingOf(), it),
  )
  for (const other of others) expect(other).not.toEqual(plain)
  expect(others[0]![0]).toBe(plain![0]) // the first block has no media
  expect(others[1]).not.toEqual(others[2])
})

it('hashes that are passed in give the same names', () => {
  const hashing = hashingOf()
  const known = new BlockHashes()
  hashing.hash({ tokens }, known)
  const column = hashing.namesFrom(known.sequenceColumn(), known.count, undefined)
  expect(toBigInts(column!)).toEqual(names(hashing))
})

it('without active blocks there are no names, and without a complete block an empty list', () => {
  expect(names(hashingOf({ routerTrackActiveBlocks: false }))).toBeUndefined()
  expect(names(hashingOf(), { tokens: tokensFrom(0, 3) })).toEqual([])
})

it('without reuse every block gets a name of its own, as many as there are complete blocks', () => {
  const hashing = hashingOf({ routerAssumeKvReuse: false })
  const [first, second] = [names(hashing)!, names(hashing)!]
  expect([first.length, new Set([...first, ...second]).size]).toEqual([4, 8])
  expect(names(hashing, {}, { assumeKvReuse: true })).toEqual(names(hashingOf()))
  expect(names(hashingOf({ routerAssumeKvReuse: false }, true), { tokens: tokensFrom(0, 16) })).toHaveLength(3)
})

it('a prompt of which only the length is known gets names of its own', () => {
  expect(toBigInts(hashingOf().namesForLength(18)!)).toHaveLength(4)
  expect(hashingOf({ routerTrackActiveBlocks: false }).namesForLength(18)).toBeUndefined()
})

it('chains kept local hashes again', () => {
  const hashing = hashingOf()
  const known = new BlockHashes()
  hashing.hash({ tokens, loraName: 'l' }, known)
  expect(hashing.chain(known.localColumn().slice(), { loraName: 'l' })).toEqual(known.sequenceColumn().slice())
})

it('more adapters than are kept at once are still hashed right', () => {
  const hashing = hashingOf()
  const before = names(hashing, { loraName: 'l0' })
  for (let n = 0; n < 2000; n++) names(hashing, { loraName: `l${n}`, tokens: tokensFrom(0, 4) })
  expect(names(hashing, { loraName: 'l0' })).toEqual(before)
})
