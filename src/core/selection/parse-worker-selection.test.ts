import { expect, it } from 'vitest'
import type { PolicyFactory } from './parse-worker-selection.js'
import { parseWorkerSelection } from './parse-worker-selection.js'
import { defaultPolicy } from './selection-policy.js'

const factories = new Map<string, PolicyFactory>([
  [
    'least-busy',
    (name, { weight = 1 }) => {
      if (typeof weight !== 'number') throw new Error('weight is no number')
      return { name, scorers: [({ load }) => weight * load.activeRequests] }
    },
  ],
])

it('gives every type of worker the instance that it names', () => {
  const content = {
    aggregated: 'a',
    prefill: 'default',
    decode: 'b',
    encode: 'a',
    instances: [
      { name: 'a', type: 'least-busy' },
      { name: 'b', type: 'least-busy', parameters: { weight: 2 } },
    ],
  }
  const { byRole: policies, instances } = parseWorkerSelection(content, factories)
  expect([...policies].map(([type, policy]) => [type, policy.name])).toEqual([
    ['aggregated', 'a'],
    ['prefill', 'default'],
    ['decode', 'b'],
    ['encode', 'a'],
  ])
  expect(policies.get('prefill')).toBe(defaultPolicy)
  expect([...instances.keys()]).toEqual(['a', 'b'])
  expect(parseWorkerSelection(undefined, factories).byRole.size).toBe(0)
})

it.each<[unknown, string]>([
  [[], 'worker_selection is not an object'],
  [{ router: 'a' }, 'worker_selection.router is no known key'],
  [{ decode: 'a' }, 'worker_selection.decode names "a", which is no instance'],
  [{ instances: {} }, 'worker_selection.instances is not a list'],
  [{ instances: [7] }, 'worker_selection.instances[0].name is no identifier'],
  [{ instances: [{ name: 'a b', type: 'least-busy' }] }, 'worker_selection.instances[0].name is no identifier'],
  [{ instances: [{ name: 'default', type: 'least-busy' }] }, 'worker_selection.instances[0].name is reserved: default'],
  [{ instances: [{ name: 'a', type: 'nope' }] }, 'worker_selection.instances[0].type is no known policy: "nope"'],
  [
    { instances: [{ name: 'a', type: 'least-busy', parameters: 1 }] },
    'worker_selection.instances[0].parameters is not an object',
  ],
  [
    { instances: [{ name: 'a', type: 'least-busy', parameters: { weight: 'x' } }] },
    'worker_selection.instances[0].parameters: weight is no number',
  ],
  [
    {
      instances: [
        { name: 'a', type: 'least-busy' },
        { name: 'a', type: 'least-busy', extra: 1 },
      ],
    },
    'worker_selection.instances[1].name repeats a; worker_selection.instances[1].extra is no known key',
  ],
])('refuses %j', (content, reason) => {
  expect(() => parseWorkerSelection(content, factories)).toThrow(
    expect.objectContaining({ code: 'WR_INVALID_CONFIG', details: expect.objectContaining({ reason }) }),
  )
})
