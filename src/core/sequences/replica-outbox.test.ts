import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ReplicaOutbox } from './replica-outbox.js'
import type { SequenceEvent } from './sequence-event.js'

function event(index: number): SequenceEvent {
  return { requestId: `${index}`, worker: { workerId: 1n, dpRank: 0 }, routerId: 1n, data: { kind: 'free' } }
}

const idsOf = (events: readonly SequenceEvent[]) => events.map((it) => it.requestId)

it('drops the newest when it is full, and counts it', () => {
  const outbox = new ReplicaOutbox(2)
  for (let index = 0; index < 4; index++) outbox.publish(event(index))
  expect([idsOf(outbox.take()), outbox.droppedCount, outbox.count]).toEqual([['0', '1'], 2, 0])
})

it('hands out at most 256 at once', () => {
  const outbox = new ReplicaOutbox()
  for (let index = 0; index < 300; index++) outbox.publish(event(index))
  expect([outbox.take().length, outbox.take().length, outbox.take().length]).toEqual([256, 44, 0])
})

it('keeps the order and every event that it accepted, however it is filled and emptied', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -5, max: 5 }), { maxLength: 60 }), (steps) => {
      const outbox = new ReplicaOutbox(8)
      const accepted: string[] = []
      const taken: string[] = []
      let next = 0
      for (const step of steps) {
        if (step <= 0) taken.push(...idsOf(outbox.take(-step)))
        else
          for (let turn = 0; turn < step; turn++, next++) {
            if (outbox.count < 8) accepted.push(`${next}`)
            outbox.publish(event(next))
          }
        expect(outbox.count).toBe(accepted.length - taken.length)
      }
      expect([...taken, ...idsOf(outbox.take(99))]).toEqual(accepted)
    }),
  )
})
