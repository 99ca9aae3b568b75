import { expect, it } from 'vitest'
import { canPair, connectorOf, isSequential, leaseMarginMs, leaseMsOf } from './connector.js'

it.each([
  ['0.32.0', 30_000],
  ['0.22.0', 30_000],
  ['0.21.3', 480_000],
  ['0.11.1', 480_000],
  ['0.11.0', 120_000],
  ['0.9.2', 120_000],
  ['1.0.0', 30_000],
  ['0.22.1rc2+cpu', 30_000],
  ['unreadable', 30_000],
  [undefined, 30_000],
])('NIXL of vLLM %s holds KV for %i ms', (version, leaseMs) => {
  expect(leaseMsOf('nixl', version)).toBe(leaseMs)
})

it('leaves room before the end of a lease, and holds nothing elsewhere', () => {
  expect(leaseMarginMs(30_000)).toBe(5_000)
  for (const connector of ['shared_cache', 'sglang', 'mooncake', 'nixl_push'] as const)
    expect(leaseMsOf(connector, '0.32.0')).toBeUndefined()
})

it('an engine has a connector of its own unless another is named', () => {
  expect([connectorOf('vllm', undefined), connectorOf('sglang', {}), connectorOf('ollama', {})]).toEqual([
    'nixl',
    'sglang',
    undefined,
  ])
  expect(connectorOf('vllm', { connector: 'mooncake' })).toBe('mooncake')
})

it('knows who speaks first, and on which routes', () => {
  expect(['nixl', 'shared_cache', 'sglang', 'mooncake', 'nixl_push'].map((it) => isSequential(it as 'nixl'))).toEqual([
    true,
    true,
    false,
    false,
    false,
  ])
  expect([canPair('nixl', '/v1/completions'), canPair('nixl', '/v1/responses')]).toEqual([true, false])
  expect([canPair('sglang', '/generate'), canPair('nixl', '/generate')]).toEqual([true, false])
})
