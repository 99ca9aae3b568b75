import { expect, it } from 'vitest'
import { toBigInts } from '../protocol/index.js'
import { computeBlockHashes, computeSequenceHashes, TokensWithHashes } from './index.js'

const tokens = Uint32Array.from({ length: 8 }, (_, token) => token)
const blockExtraInfo = [{ mmObjects: [{ mmHash: 42n, offsets: [] }] }, null]

it('computes when asked, and once', () => {
  const prompt = new TokensWithHashes(tokens, 4)
  expect(prompt.isComputed).toBe(false)
  const local = computeBlockHashes(tokens, 4)
  expect(toBigInts(prompt.sequenceHashes())).toEqual(computeSequenceHashes(local))
  expect(prompt.isComputed).toBe(true)
  expect(toBigInts(prompt.localHashes())).toEqual(local)
})

it.each([
  {
    says: 'media',
    change: (it: TokensWithHashes) => it.setBlockExtraInfo(blockExtraInfo),
    options: { blockExtraInfo },
  },
  { says: 'adapter', change: (it: TokensWithHashes) => it.setLoraName('a'), options: { loraName: 'a' } },
  { says: 'namespace', change: (it: TokensWithHashes) => it.setCacheNamespace('a'), options: { cacheNamespace: 'a' } },
  { says: 'eagle flag', change: (it: TokensWithHashes) => it.setIsEagle(true), options: { isEagle: true } },
])('drops its hashes when the $says changes', ({ change, options }) => {
  const prompt = new TokensWithHashes(tokens, 4)
  prompt.sequenceHashes()
  expect(change(prompt).isComputed).toBe(false)
  const local = computeBlockHashes(tokens, 4, options)
  expect(toBigInts(prompt.sequenceHashes())).toEqual(computeSequenceHashes(local))
  expect(toBigInts(prompt.localHashes())).toEqual(local)
  expect(local).not.toEqual(computeBlockHashes(tokens, 4))
})

it('keeps its hashes when the eagle flag is set to what it is', () => {
  const prompt = new TokensWithHashes(tokens, 4).setIsEagle(true)
  prompt.localHashes()
  expect(prompt.setIsEagle(true).isComputed).toBe(true)
})

it('keeps the other options when one changes', () => {
  const prompt = new TokensWithHashes(tokens, 4).setLoraName('a').setCacheNamespace('b').setLoraName('c')
  const expected = computeBlockHashes(tokens, 4, { loraName: 'c', cacheNamespace: 'b' })
  expect(toBigInts(prompt.localHashes())).toEqual(expected)
})
