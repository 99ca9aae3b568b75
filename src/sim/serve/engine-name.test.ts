import { expect, it } from 'vitest'
import { requireVersion } from './engine-name.js'

it.each([
  ['vllm', '0.9.1'],
  ['vllm', 'v0.32.0'],
  ['vllm', '0.32.4'],
  ['sglang', '0.5.23'],
] as const)('plays %s %s', (engine, version) => {
  expect(() => requireVersion(engine, version)).not.toThrow()
})

it.each([
  ['vllm', '9.9'],
  ['vllm', '0.33.0'],
  ['vllm', '0.8.5'],
  ['sglang', '0.5.24'],
  ['sglang', '0.4.9'],
  ['sglang', 'latest'],
] as const)('refuses %s %s: nobody has seen its events', (engine, version) => {
  expect(() => requireVersion(engine, version)).toThrow(expect.objectContaining({ code: 'WR_INVALID_ARGUMENT' }))
})
