import fc from 'fast-check'
import { expect, it } from 'vitest'
import { HeldClasses } from './held-classes.js'
import type { PolicyClass } from './policy-class.js'

const classOf = (name: string, quantum: number, more: Partial<PolicyClass> = {}): PolicyClass => ({
  name,
  queuePolicy: 'fcfs',
  quantum,
  ...more,
})

const held = (payload: string, classIndex: number, islTokens = 10, cachedTokens = 0) => ({
  payload,
  classIndex,
  islTokens,
  cachedTokens,
  estimateMs: islTokens,
  arrivedAtMs: 0,
  strictPriority: 0,
})

/** Looks at everybody `mayLeave` lets go, and takes them out. */
function pass(classes: HeldClasses<string>, count: number, mayLeave: (payload: string) => boolean): string[] {
  const looks = classes.look(count, 4)
  const gone: string[] = []
  for (let payload = looks.next(); payload !== undefined; payload = looks.next()) {
    if (!mayLeave(payload)) continue
    looks.leaves()
    classes.remove(payload)
    gone.push(payload)
  }
  return gone
}

it('one class is its own queue', () => {
  const classes = new HeldClasses<string>([classOf('all', 1)])
  for (const [at, isl] of [80, 20, 200].entries()) classes.push(held(String(at), 0, isl))
  expect(pass(classes, 9, () => true)).toEqual(['1', '0', '2'])
})

it('who leaves, leaves in the ratio of the quanta', () => {
  const classes = new HeldClasses<string>([classOf('one', 1), classOf('three', 3)])
  for (let at = 0; at < 400; at++) classes.push(held(`${at}`, at % 2))
  let gone: string[] = []
  while (gone.length < 200) gone = gone.concat(pass(classes, 1, () => true))
  expect(gone.filter((it) => Number(it) % 2 === 0).length).toBe(50)
})

it('a class whose requests must stay does not hold up another, and is not charged for staying', () => {
  const classes = new HeldClasses<string>([classOf('stuck', 1), classOf('free', 1)])
  for (let at = 0; at < 8; at++) classes.push(held(`${at}`, at % 2))
  expect(pass(classes, 4, (it) => Number(it) % 2 === 1)).toEqual(['1', '3', '5'])
  expect(pass(classes, 3, () => true)).toEqual(['0', '2', '4'])
})

it('a class that was away has earned nothing by it', () => {
  const classes = new HeldClasses<string>([classOf('busy', 1), classOf('away', 1)])
  for (let at = 0; at < 20; at += 2) classes.push(held(`${at}`, 0))
  for (let turn = 0; turn < 8; turn++) pass(classes, 1, () => true)
  for (let at = 1; at < 9; at += 2) classes.push(held(`${at}`, 1))
  expect(pass(classes, 4, () => true).filter((it) => Number(it) % 2 === 0)).toHaveLength(2)
})

it('limits are those of the class, judged before the request counts', () => {
  const classes = new HeldClasses<string>([classOf('tight', 1, { requestQueueLimitPerWorker: 1 }), classOf('open', 1)])
  classes.push(held('a', 0))
  expect(classes.judge(0, 2)).toBeUndefined()
  classes.push(held('b', 0))
  expect(classes.judge(0, 2)).toEqual({ policyClass: 'tight', limitKind: 'requests', current: 2, limit: 2 })
  expect(classes.judge(1, 2)).toBeUndefined()
})

// Goal: whatever comes and goes, the accounts are those of a list, and every look is at somebody who is here, once.
it('keeps the accounts of a plain list', () => {
  const step = fc.record({
    classIndex: fc.nat(2),
    isl: fc.integer({ min: 1, max: 50 }),
    cached: fc.nat(50),
    leave: fc.option(fc.nat(9)),
    look: fc.nat(4),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const classes = new HeldClasses<string>([classOf('a', 1), classOf('b', 2), classOf('c', 5)])
      let model: ReturnType<typeof held>[] = []
      for (const [at, { classIndex, isl, cached, leave, look }] of steps.entries()) {
        const request = held(`${at}`, classIndex, isl, Math.min(isl, cached))
        classes.push(request)
        model.push(request)
        const gone = leave === null ? undefined : model[leave]
        if (gone) {
          expect([classes.remove(gone.payload), classes.remove(gone.payload)]).toEqual([true, false])
          model = model.filter((it) => it !== gone)
        }
        const seen = pass(classes, look, (payload) => Number(payload) % 2 === 0)
        expect(new Set(seen).size).toBe(seen.length)
        for (const payload of seen) expect(model.some((it) => it.payload === payload)).toBe(true)
        model = model.filter((it) => !seen.includes(it.payload))
        const sum = (of: typeof model, key: 'islTokens' | 'cachedTokens') => of.reduce((n, it) => n + it[key], 0)
        expect([classes.size, classes.islTokens]).toEqual([model.length, sum(model, 'islTokens')])
        for (const index of [0, 1, 2]) {
          const ofClass = model.filter((it) => it.classIndex === index)
          expect(classes.usageOf(index)).toEqual({
            requests: ofClass.length,
            rawIslTokens: sum(ofClass, 'islTokens'),
            cachedTokens: sum(ofClass, 'cachedTokens'),
          })
        }
      }
    }),
  )
})
