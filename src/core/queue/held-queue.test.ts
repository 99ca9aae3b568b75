import fc from 'fast-check'
import { expect, it } from 'vitest'
import { HeldQueue } from './held-queue.js'

const held = (payload: string, estimateMs: number, arrivedAtMs = 0, strictPriority = 0) => ({
  payload,
  estimateMs,
  arrivedAtMs,
  strictPriority,
})

function queueOf(...entries: ReturnType<typeof held>[]): HeldQueue<string> {
  const queue = new HeldQueue<string>()
  for (const entry of entries) queue.push(entry)
  return queue
}

it('gives the shortest first', () => {
  expect(queueOf(held('b', 80), held('a', 20), held('c', 200)).first(3, 4)).toEqual(['a', 'b', 'c'])
})

it('lets age count: who has waited long goes before who is a little shorter', () => {
  expect(queueOf(held('old', 100, 0), held('new', 50, 1000)).first(2, 4)).toEqual(['old', 'new'])
})

it('puts a prefill first that is long beside all that waits', () => {
  expect(queueOf(held('short', 20), held('long', 900)).first(2, 8)).toEqual(['long', 'short'])
  expect(queueOf(held('short', 20), held('medium', 499)).first(2, 8)).toEqual(['short', 'medium'])
})

it('puts strict priority before everything else of its kind', () => {
  expect(queueOf(held('short', 20), held('urgent', 80, 0, 1)).first(2, 4)).toEqual(['urgent', 'short'])
})

it('strict priority also goes before a prefill that is long', () => {
  const queue = queueOf(held('long', 900), held('urgent', 80, 0, 1))
  expect([queue.first(2, 8), queue.first(1, 8)]).toEqual([['urgent', 'long'], ['urgent']])
})

it('forgets who left, once', () => {
  const queue = queueOf(held('a', 20), held('b', 30))
  expect([queue.remove('a'), queue.remove('a'), queue.remove('x')]).toEqual([true, false, false])
  expect([queue.size, queue.workMs, queue.first(9, 1), [...queue]]).toEqual([1, 30, ['b'], ['b']])
})

// Goal: whatever comes and goes, the front is what sorting everybody would give.
it('agrees with a list that is sorted every time', () => {
  const step = fc.record({
    estimate: fc.integer({ min: 1, max: 1200 }),
    gap: fc.nat(300),
    leave: fc.option(fc.nat(9)),
    strict: fc.nat(2),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), fc.integer({ min: 1, max: 8 }), (steps, workers) => {
      const queue = new HeldQueue<number>()
      let model: { payload: number; estimateMs: number; key: number; strict: number }[] = []
      let now = 0
      for (const [payload, { estimate, gap, leave, strict }] of steps.entries()) {
        now += gap
        queue.push({ payload, estimateMs: estimate, arrivedAtMs: now, strictPriority: strict })
        model.push({ payload, estimateMs: estimate, key: estimate + 0.25 * now, strict })
        const gone = leave === null ? undefined : model[leave]
        if (gone) {
          queue.remove(gone.payload)
          model = model.filter((it) => it !== gone)
        }
        const work = model.reduce((sum, it) => sum + it.estimateMs, 0)
        const isLong = (it: { estimateMs: number }): boolean => it.estimateMs > Math.max(500, (2 * work) / workers)
        const sorted = [...model].sort(
          (a, b) =>
            b.strict - a.strict || Number(isLong(b)) - Number(isLong(a)) || a.key - b.key || a.payload - b.payload,
        )
        expect(queue.first(5, workers)).toEqual(sorted.slice(0, 5).map((it) => it.payload))
        expect(queue.workMs).toBeCloseTo(work, 6)
      }
    }),
  )
})
