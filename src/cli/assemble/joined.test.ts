import { expect, it } from 'vitest'
import type { EngineFacts } from '../../engines/index.js'
import { isOtherShape } from './joined.js'

function fact<T>(value: T) {
  return { value, source: 'test' }
}

const before: EngineFacts = { kind: fact('sglang'), blockSize: fact(16), dpRanks: fact(2) }

it.each<[says: string, change: Partial<EngineFacts>, isOther: boolean]>([
  ['the same again', {}, false],
  ['another version', { version: fact('2') }, false],
  ['another engine', { kind: fact('vllm') }, true],
  ['blocks named by pairs of tokens', { isEagle: fact(true) }, true],
  ['another block size', { blockSize: fact(32) }, true],
  ['another number of ranks', { dpRanks: fact(1) }, true],
])('an engine that comes back as %s', (_, change, isOther) => {
  expect(isOtherShape({ ...before, ...change }, before)).toBe(isOther)
})
