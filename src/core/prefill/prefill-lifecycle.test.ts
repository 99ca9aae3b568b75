import fc from 'fast-check'
import { expect, it } from 'vitest'
import { PrefillLifecycle } from './prefill-lifecycle.js'

type Step = 'activated' | 'deactivate' | 'reactivate' | 'activationFailed'

function after(steps: readonly Step[], enforceDisagg: boolean, isDisabled = false): PrefillLifecycle {
  const lifecycle = new PrefillLifecycle({ enforceDisagg, isDisabled })
  for (const step of steps) lifecycle[step]()
  return lifecycle
}

it.each<[string, Step[], boolean, boolean]>([
  ['a fresh model that may aggregate serves', [], false, true],
  ['a fresh strict model does not, until prefill has activated', [], true, false],
  ['an activated strict model serves', ['activated'], true, true],
  ['losing the prefill workers stops a strict model', ['activated', 'deactivate'], true, false],
  ['losing the prefill workers does not stop one that may aggregate', ['activated', 'deactivate'], false, true],
  ['rejoining workers bring a strict model back', ['activated', 'deactivate', 'reactivate'], true, true],
  ['rejoining does not stand in for an activation that never was', ['deactivate', 'reactivate'], true, false],
  ['rejoining clears the mark of one that may aggregate', ['deactivate', 'reactivate'], false, true],
  ['leaving twice is leaving once', ['activated', 'deactivate', 'deactivate', 'reactivate'], true, true],
  ['a failed activation leaves a strict model unservable', ['activationFailed'], true, false],
])('%s', (_says, steps, enforceDisagg, canServe) => {
  expect(after(steps, enforceDisagg).canServeRequests()).toBe(canServe)
})

it('a fresh lifecycle is neither activated nor deactivated', () => {
  expect([after([], true).isActivated, after([], true).isDeactivated]).toEqual([false, false])
})

it.each<[string, Step[], boolean, boolean, object]>([
  ['active', ['activated'], true, false, { kind: 'remote' }],
  ['not yet active, strict', [], true, false, { kind: 'refused', reason: 'not-activated' }],
  ['not yet active', [], false, false, { kind: 'aggregated', reason: 'not-activated' }],
  ['workers gone, strict', ['activated', 'deactivate'], true, false, { kind: 'refused', reason: 'deactivated' }],
  ['workers gone', ['activated', 'deactivate'], false, false, { kind: 'aggregated', reason: 'deactivated' }],
  ['disabled', ['activated'], false, true, { kind: 'aggregated', reason: 'disabled' }],
])('routes a request: %s', (_says, steps, enforceDisagg, isDisabled, route) => {
  expect(after(steps, enforceDisagg, isDisabled).route()).toEqual(route)
})

it('counts failed activations', () => {
  expect(after(['activationFailed', 'activationFailed', 'activated'], true).failedActivations).toBe(2)
})

// Goal: no history of membership and failed activations serves or hides a model against the truth table.
// Method: the table is asked of two facts that the model of the test keeps by itself.
it('follows the truth table through every history', () => {
  const step = fc.constantFrom<Step>('activated', 'deactivate', 'reactivate', 'activationFailed')
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), fc.boolean(), (steps, enforce) => {
      const activated = steps.includes('activated')
      const gone = steps.findLast((it) => it === 'deactivate' || it === 'reactivate') === 'deactivate'
      const lifecycle = after(steps, enforce)
      expect(lifecycle.canServeRequests()).toBe(!enforce || (activated && !gone))
      expect(lifecycle.route().kind).toBe(activated && !gone ? 'remote' : enforce ? 'refused' : 'aggregated')
    }),
  )
})
