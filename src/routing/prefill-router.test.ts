import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PrefillRendezvous } from '../core/prefill/index.js'
import { defaultRouterConfig, judgeRouterConfig } from '../core/protocol/index.js'
import type { PrefillRouterOptions } from './prefill-router.js'
import { decodeOverride, PrefillRouter, prefillRouterConfig } from './prefill-router.js'

interface Scene {
  readonly router: PrefillRouter<string, string>
  readonly steps: string[]
}

/** Endpoints are strings `identity#instance`; inner routers are named after the identity. Everything is written down. */
function scene(change: Partial<PrefillRouterOptions<string, string>> = {}, isDisabled = false): Scene {
  const steps: string[] = []
  const options: PrefillRouterOptions<string, string> = {
    enforceDisagg: true,
    identityOf: (endpoint) => endpoint.split('#')[0]!,
    watchConfigs: (endpoint) => Promise.resolve(void steps.push(`watch ${endpoint}`)),
    buildInner: (endpoint) =>
      Promise.resolve(void steps.push(`build ${endpoint}`)).then(() => `inner ${endpoint.split('#')[0]}`),
    registerWithMonitor: (inner) => void steps.push(`register ${inner}`),
    closeInner: (inner) => Promise.resolve(void steps.push(`close ${inner}`)),
    warn: () => {},
    pause: (ms) => Promise.resolve(void steps.push(`pause ${ms}`)),
    ...change,
  }
  return { router: isDisabled ? PrefillRouter.disabled(options) : new PrefillRouter(options), steps }
}

describe('activation', () => {
  it('watches configs, builds, tells the monitor, and only then serves', async () => {
    const { router, steps } = scene()
    expect(router.route()).toEqual({ kind: 'refused', reason: 'not-activated' })
    await router.activate('p#1')
    expect(steps).toEqual(['watch p#1', 'build p#1', 'register inner p'])
    expect(router.route()).toEqual({ kind: 'remote', inner: 'inner p' })
  })

  it('waits for its endpoint where decode and prefill meet, and stays as it is when none ever comes', async () => {
    for (const isRemoved of [false, true]) {
      const { router, steps } = scene({ enforceDisagg: false })
      const rendezvous = new PrefillRendezvous<string>()
      let activation = Promise.resolve()
      rendezvous.registerDecode('m', 'ns', (endpoint) => void (activation = router.activate(endpoint)))
      expect(router.route()).toEqual({ kind: 'aggregated', reason: 'not-activated' })
      if (isRemoved) rendezvous.removeDecode('m', 'ns')
      rendezvous.registerPrefill('m', 'ns', 'p#1')
      await activation
      expect([router.isActivated, steps.length > 0]).toEqual([!isRemoved, !isRemoved])
      expect(router.canServeRequests()).toBe(true)
    }
  })

  it('builds once, however many workers of one identity appear', async () => {
    const { router, steps } = scene()
    await Promise.all([router.activate('p#1'), router.activate('p#2')])
    await router.activate('p#3')
    expect(steps.filter((step) => step.startsWith('build'))).toEqual(['build p#1'])
  })

  it('tries a failed activation again each second, and counts it', async () => {
    let failures = 3
    const { router, steps } = scene({
      buildInner: () => (failures-- > 0 ? Promise.reject(new Error('no chooser')) : Promise.resolve('inner p')),
    })
    await router.activate('p#1')
    expect(router.failedActivations).toBe(3)
    expect(steps.filter((step) => step.startsWith('pause'))).toEqual(['pause 1000', 'pause 1000', 'pause 1000'])
    expect(router.canServeRequests()).toBe(true)
  })

  it('stops trying when it is closed, and leaves nothing built', async () => {
    const { router } = scene({
      buildInner: () => Promise.reject(new Error('never')),
      pause: (_ms, signal) =>
        new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true })),
    })
    const activation = router.activate('p#1')
    await router.close()
    await activation
    expect(router.isActivated).toBe(false)
  })

  it('never happens to a disabled router', async () => {
    const { router, steps } = scene({ enforceDisagg: false }, true)
    await router.activate('p#1')
    expect(steps).toEqual([])
    expect(router.route()).toEqual({ kind: 'aggregated', reason: 'disabled' })
    expect(scene({}, true).router.canServeRequests()).toBe(false)
  })
})

describe('membership', () => {
  it('keeps the inner router for workers that return', async () => {
    const { router, steps } = scene()
    await router.activate('p#1')
    router.deactivate()
    expect([router.canServeRequests(), router.route().kind]).toEqual([false, 'refused'])
    await router.reactivate('p#2')
    expect(router.route()).toEqual({ kind: 'remote', inner: 'inner p' })
    expect(steps.filter((step) => step.startsWith('build'))).toHaveLength(1)
  })

  it('builds anew for workers that return under another identity, and closes the old one', async () => {
    const { router, steps } = scene()
    await router.activate('p#1')
    router.deactivate()
    await router.reactivate('q#1')
    expect(router.route()).toEqual({ kind: 'remote', inner: 'inner q' })
    expect(steps.at(-1)).toBe('close inner p')
  })

  it('closes its inner router', async () => {
    const { router, steps } = scene()
    await router.activate('p#1')
    await router.close()
    expect(steps.at(-1)).toBe('close inner p')
    expect(router.route().kind).toBe('refused')
  })

  it('workers that return to a closed router bring nothing back', async () => {
    const { router } = scene()
    await router.activate('p#1')
    await router.close()
    await router.reactivate('p#2')
    expect(router.route().kind).toBe('refused')
  })

  it('workers that leave while a router is built for them are gone when it stands', async () => {
    const { router } = scene()
    await router.activate('p#1')
    router.deactivate()
    const returning = router.reactivate('q#1')
    router.deactivate()
    await returning
    expect(router.route().kind).toBe('refused')
  })

  it('an old inner router that cannot be closed is a warning, and nothing is built twice', async () => {
    const warnings: string[] = []
    const { router, steps } = scene({
      closeInner: () => Promise.reject(new Error('stuck')),
      warn: (_fields, sentence) => void warnings.push(sentence),
    })
    await router.activate('p#1')
    await router.reactivate('q#1')
    expect(router.route()).toEqual({ kind: 'remote', inner: 'inner q' })
    expect(steps.filter((step) => step.startsWith('build'))).toEqual(['build p#1', 'build q#1'])
    expect([router.failedActivations, warnings]).toEqual([0, ['the old prefill router could not be closed']])
  })

  it('a router that is still being built when the old workers return does not take their place', async () => {
    let built: (inner: string) => void = () => {}
    const { router, steps } = scene({
      buildInner: (endpoint) =>
        endpoint === 'q#1' ? new Promise((resolve) => (built = resolve)) : Promise.resolve(`inner ${endpoint[0]}`),
    })
    await router.activate('p#1')
    router.deactivate()
    const dropped = router.reactivate('q#1')
    for (let i = 0; i < 10; i++) await Promise.resolve()
    router.deactivate()
    await router.reactivate('p#2')
    built('inner q')
    await dropped
    expect(router.route()).toEqual({ kind: 'remote', inner: 'inner p' })
    expect(steps.filter((step) => step.startsWith('close'))).toEqual(['close inner q'])
    router.deactivate()
    const again = router.reactivate('q#1')
    for (let i = 0; i < 10; i++) await Promise.resolve()
    built('inner q again')
    await again
    expect(router.route()).toEqual({ kind: 'remote', inner: 'inner q again' })
  })

  it('an inner router that the monitor refuses is closed before the next try', async () => {
    let refusals = 1
    const { router, steps } = scene({
      registerWithMonitor: () => {
        if (refusals-- > 0) throw new Error('no')
      },
    })
    await router.activate('p#1')
    expect(steps.filter((step) => !step.startsWith('watch'))).toEqual([
      'build p#1',
      'close inner p',
      'pause 1000',
      'build p#1',
    ])
  })

  // Goal: no order of arrivals, departures, failures and changes of identity hides or serves a model against the truth table.
  it('agrees with the truth table under random membership and failing activations', async () => {
    const step = fc.constantFrom('activate p', 'activate q', 'leave', 'return p', 'return q', 'fail next')
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 20 }), fc.boolean(), async (history, enforceDisagg) => {
        let failNext = 0
        const { router } = scene({
          enforceDisagg,
          buildInner: (endpoint) =>
            failNext-- > 0 ? Promise.reject(new Error('no')) : Promise.resolve(`inner ${endpoint[0]}`),
        })
        let activated = false
        let gone = false
        for (const it of history) {
          if (it === 'fail next') failNext = 2
          else if (it === 'leave') router.deactivate()
          else if (it.startsWith('activate')) await router.activate(`${it.at(-1)}#1`)
          else await router.reactivate(`${it.at(-1)}#1`)
          for (let i = 0; i < 30; i++) await Promise.resolve()
          if (it.startsWith('activate') || it.startsWith('return')) activated = true
          if (it === 'leave') gone = true
          if (it.startsWith('return')) gone = false
          expect(router.canServeRequests()).toBe(!enforceDisagg || (activated && !gone))
        }
        await router.close()
      }),
      { numRuns: 200 },
    )
  })
})

it('a prefill config tracks neither blocks nor output, and is valid whatever the decode side tracks', () => {
  const config = prefillRouterConfig({ ...defaultRouterConfig, routerTrackOutputBlocks: true })
  expect([config.routerTrackActiveBlocks, config.routerTrackOutputBlocks]).toEqual([false, false])
  expect(judgeRouterConfig(config)).toEqual([])
})

it('decode after a remote prefill disables overlap, reuse and prefill tracking, and keeps what else was asked', () => {
  expect(decodeOverride({ routerTemperature: 0.5, overlapScoreCredit: 1 })).toEqual({
    routerTemperature: 0.5,
    overlapScoreCredit: 0,
    assumeKvReuse: false,
    trackPrefillTokens: false,
  })
  expect(decodeOverride({ overlapScoreCredit: 0.7 }, true).overlapScoreCredit).toBe(0.7)
})
