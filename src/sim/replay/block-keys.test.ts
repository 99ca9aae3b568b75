import fc from 'fast-check'
import { expect, it } from 'vitest'
import { BlockKeys } from './block-keys.js'

const requestOf = (promptTokens: number, blockIds: readonly number[]) => ({
  index: 0,
  arrivalMs: 0,
  outputTokens: 1,
  promptTokens,
  blockIds,
})

/** Leading blocks that two prompts share, by comparing them token by token. */
function sharedBlocks(a: readonly number[], b: readonly number[], blockTokens: number, idTokens: number): number {
  const tokensMax = Math.min(a.length, b.length) * idTokens
  let equal = 0
  while (equal < tokensMax && a[Math.floor(equal / idTokens)] === b[Math.floor(equal / idTokens)]) equal++
  return Math.floor(equal / blockTokens)
}

it('gives equal keys to equal prefixes and no others, whichever of the two blocks is larger', () => {
  const anyIds = fc.array(fc.nat(2), { minLength: 1, maxLength: 12 })
  const anySizes = fc.constantFrom([64, 512], [512, 512], [64, 16], [32, 16], [16, 16])
  fc.assert(
    fc.property(anyIds, anyIds, anySizes, (a, b, [blockTokens, idTokens]) => {
      const keys = new BlockKeys(blockTokens!, idTokens)
      const [first, second] = [a, b].map((ids) => keys.keysOf(requestOf(ids.length * idTokens!, ids)))
      const shared = sharedBlocks(a, b, blockTokens!, idTokens!)
      let equal = 0
      while (equal < first!.length && first![equal] === second![equal]) equal++
      expect(equal).toBe(shared)
      expect(new Set([...first!, ...second!.slice(shared)]).size).toBe(first!.length + second!.length - shared)
    }),
  )
})

it('shares nothing of what has no id', () => {
  const keys = new BlockKeys(64, 512)
  const [a, b] = [1, 2].map(() => [...keys.keysOf(requestOf(700, [7]))])
  expect(a!.slice(0, 8)).toEqual(b!.slice(0, 8))
  expect(new Set([...a!.slice(8), ...b!.slice(8)]).size).toBe(4)
})

it('refuses blocks of which neither divides the other', () => {
  expect(() => new BlockKeys(48, 512)).toThrow('does not divide')
})
