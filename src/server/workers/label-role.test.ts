import { expect, it } from 'vitest'
import { roleOfLabels } from './label-role.js'

it.each([
  [undefined, undefined],
  [{}, undefined],
  [{ app: 'prefill' }, undefined],
  [{ 'warmroute.dev/role': 'prefill' }, 'prefill'],
  [{ 'llm-d.ai/role': 'decode' }, 'decode'],
  [{ 'llm-d.ai/role': 'both' }, 'aggregated'],
  [{ 'llm-d.ai/role': 'prefill-decode' }, 'aggregated'],
  [{ 'nvidia.com/dynamo-sub-component-type': 'prefill' }, 'prefill'],
  [{ 'llm-d.ai/role': 'encode', 'nvidia.com/dynamo-sub-component-type': 'decode' }, 'decode'],
  [{ 'warmroute.dev/role': 'aggregated', 'llm-d.ai/role': 'prefill' }, 'aggregated'],
])('%j means %s', (labels, role) => expect(roleOfLabels(labels)).toBe(role))

it('a value of our own label that means nothing is a mistake', () =>
  expect(() => roleOfLabels({ 'warmroute.dev/role': 'perfil' })).toThrow(
    expect.objectContaining({ code: 'WR_INVALID_CONFIG' }) as Error,
  ))
