import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { AffinityEvent, AffinityLease, AffinityTarget } from '../core/sessions/index.js'
import { AffinityCoordinator } from '../core/sessions/index.js'
import { InProcessAffinityCarrier } from './affinity-carrier.js'

const topic = { model: 'm', phase: 'decode' } as const
const event = (sessionId: string, routerId = 1n): AffinityEvent => ({ sessionId, workerId: 7n, dpRank: 0, routerId })

describe('the carrier inside one process', () => {
  it('tells the others of the same model and phase, in another turn, and nobody else', async () => {
    const carrier = new InProcessAffinityCarrier()
    const heard: Record<string, string[]> = { own: [], peer: [], prefill: [], other: [] }
    const listen = (name: string) => (it: AffinityEvent) => void heard[name]!.push(it.sessionId)
    const own = carrier.join(topic, listen('own'))
    carrier.join(topic, listen('peer'))
    carrier.join({ ...topic, phase: 'prefill' }, listen('prefill'))
    carrier.join({ ...topic, model: 'other' }, listen('other'))
    expect(own.publish(event('a'))).toBe(true)
    expect(heard['peer']).toEqual([])
    await new Promise(setImmediate)
    expect(heard).toEqual({ own: [], peer: ['a'], prefill: [], other: [] })
  })

  it('holds 4096 events for one that is behind, drops and counts the rest', () => {
    const later: (() => void)[] = []
    const carrier = new InProcessAffinityCarrier({ soon: (run) => void later.push(run) })
    const heard: string[] = []
    const own = carrier.join(topic, () => {})
    carrier.join(topic, (it) => heard.push(it.sessionId))
    const told = Array.from({ length: 5000 }, (_, at) => own.publish(event(String(at))))
    expect([told.filter(Boolean).length, carrier.dropped]).toEqual([4096, 904])
    for (const run of later.splice(0)) run()
    expect([heard.length, heard.at(-1)]).toEqual([4096, '4095'])
    expect(own.publish(event('next'))).toBe(true)
  })

  it('is silent for who left, also about what was on its way', async () => {
    const carrier = new InProcessAffinityCarrier()
    const heard: string[] = []
    const own = carrier.join(topic, () => {})
    const peer = carrier.join(topic, (it) => heard.push(it.sessionId))
    own.publish(event('a'))
    peer.close()
    own.publish(event('b'))
    own.close()
    expect(own.publish(event('c'))).toBe(false)
    await new Promise(setImmediate)
    expect(heard).toEqual([])
  })
})

// Goal: whatever a network does to the news (lose, repeat, reorder, delay), every router follows the rules of 8.2: the
// first live binding wins, the same one is refreshed, choosers are left alone, own news and unknown workers are nothing;
// and where one router alone chooses, everybody who heard of it agrees.
// Method: three coordinators and a plain model of each (a record per session), driven by the same steps.
describe('replication over a carrier that loses, repeats and reorders', () => {
  const ttlMs = 60_000
  const routers = [0, 1, 2]
  const known = (workerId: bigint): boolean => workerId < 3n

  interface Believed {
    kind: 'choosing' | 'bound'
    target?: AffinityTarget
    leases: number
    untilMs: number
  }

  const step = fc.record({
    does: fc.constantFrom('ask', 'commit', 'fail', 'release', 'invalidate', 'deliver', 'lose', 'repeat', 'pass'),
    router: fc.nat(2),
    session: fc.nat(1),
    worker: fc.nat(3), // 3 is nobody's
    which: fc.nat(20),
  })
  type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

  /** `choosers`: who may be asked first. */
  function run(steps: readonly Step[], choosers: readonly number[]): void {
    let now = 0
    /** News on its way: where to, and what. */
    const wire: { to: number; event: AffinityEvent }[] = []
    const coordinators = routers.map((at) => {
      const publish = (it: AffinityEvent): void => {
        for (const to of routers) wire.push({ to, event: it }) // a network may echo
      }
      return new AffinityCoordinator({ ttlMs, routerId: BigInt(at), publish })
    })
    const models = routers.map(() => new Map<string, Believed>())
    const leases = routers.map(() => [] as { lease: AffinityLease; believed: Believed; session: string }[])
    const liveOf = (router: number, session: string): Believed | undefined => {
      const it = models[router]!.get(session)
      if (it?.kind === 'bound' && it.leases === 0 && it.untilMs <= now) models[router]!.delete(session)
      return models[router]!.get(session)
    }
    const deliver = ({ to, event: { sessionId, workerId, dpRank, routerId } }: (typeof wire)[number]): void => {
      const believed = liveOf(to, sessionId)
      const isSame = believed?.target?.workerId === workerId && believed.target.dpRank === dpRank
      const counts =
        routerId !== BigInt(to) && known(workerId) && believed?.kind !== 'choosing' && (!believed || isSame)
      const target = { workerId, dpRank }
      if (counts && !believed) models[to]!.set(sessionId, { kind: 'bound', target, leases: 0, untilMs: now + ttlMs })
      else if (counts && believed!.leases === 0) believed!.untilMs = now + ttlMs
      expect(coordinators[to]!.applyRemote({ sessionId, routerId, ...target }, now, known)).toBe(counts)
    }
    for (const { does, router, session: number, worker, which } of steps) {
      const session = `s${number}`
      const coordinator = coordinators[router]!
      const held = leases[router]!
      const believed = liveOf(router, session)
      if (does === 'ask') {
        if (believed?.kind === 'choosing' || (!believed && !choosers.includes(router))) continue
        const acquired = coordinator.acquire({ sessionId: session }, now)
        const next = believed ?? { kind: 'choosing', leases: 0, untilMs: Number.POSITIVE_INFINITY }
        if (!believed) models[router]!.set(session, next)
        else believed.leases++
        expect(acquired.kind).toBe(believed ? 'follow' : 'choose')
        if (acquired.kind !== 'wait') held.push({ lease: acquired.lease, believed: next, session })
      } else if (does === 'pass') {
        now += 25_000
        for (const it of coordinators) it.reap(now)
      } else if (does === 'deliver' || does === 'lose' || does === 'repeat') {
        const at = which % Math.max(1, wire.length) // any of them: order means nothing
        const found = wire[at]
        if (!found) continue
        if (does !== 'repeat') wire.splice(at, 1)
        if (does !== 'lose') deliver(found)
      } else {
        const isChoice = does === 'commit' || does === 'fail'
        const at = held.findIndex(({ believed: it }) => (it.kind === 'choosing') === isChoice)
        if (at < 0) continue
        const [own] = held.splice(at, 1)
        const { lease, believed: it, session: of } = own!
        const isCurrent = models[router]!.get(of) === it
        if (does === 'commit') {
          const target = { workerId: BigInt(worker % 3), dpRank: 0 }
          const bound: Believed = { kind: 'bound', target, leases: 1, untilMs: 0 }
          models[router]!.set(of, bound)
          held.push({ lease: coordinator.commit(lease, target), believed: bound, session: of })
        } else if (does === 'fail') {
          models[router]!.delete(of)
          coordinator.fail(lease)
        } else if (does === 'release') {
          it.leases--
          it.untilMs = now + ttlMs
          coordinator.release(lease, now)
        } else {
          it.leases--
          if (isCurrent) models[router]!.delete(of)
          coordinator.invalidate(lease)
        }
      }
      for (const at of routers)
        for (const name of ['s0', 's1']) {
          const it = liveOf(at, name)
          expect(coordinators[at]!.peek(name, now)).toEqual(it?.kind === 'bound' ? it.target : undefined)
        }
    }
    if (choosers.length === 1 && !steps.some(({ does }) => does === 'invalidate' || does === 'pass')) {
      for (const it of wire.splice(0)) deliver(it)
      for (const name of ['s0', 's1']) {
        const targets = coordinators.map((it) => it.peek(name, now)).filter((it) => it !== undefined)
        expect(new Set(targets.map(({ workerId }) => workerId)).size, 'everybody who heard of it agrees').toBeLessThan(
          2,
        )
      }
    }
    for (const at of routers)
      for (const { lease, believed } of leases[at]!)
        if (believed.kind === 'choosing') coordinators[at]!.fail(lease)
        else coordinators[at]!.release(lease, now)
    for (const it of coordinators) it.reap(now + ttlMs)
    expect(coordinators.map((it) => it.size)).toEqual([0, 0, 0])
  }

  it('every router follows the rules, whoever chooses', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => run(steps, routers)),
      { numRuns: 400 },
    )
  })

  it('one that chooses alone is followed by all who heard of it', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => run(steps, [0])),
      { numRuns: 400 },
    )
  })
})
