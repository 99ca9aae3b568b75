import { expect, it } from 'vitest'
import { toHashColumn } from '../protocol/index.js'
import { EventBatch, eventHeaderWords, eventKinds, hasParentFlag, ranksMax } from './event-batch.js'

it('packs stored, removed and cleared events one behind the other, and grows', () => {
  const batch = new EventBatch(1)
  batch.stored(3, toHashColumn([0n]), toHashColumn([1n, 2n]), toHashColumn([11n, 12n]))
  batch.removed(4, toHashColumn([5n, 6n, 7n]), 2)
  batch.cleared(5)
  const first = [eventKinds.stored | hasParentFlag, 3, 2, 0, 0, 0, 1, 0, 2, 0, 11, 0, 12, 0]
  const second = [eventKinds.removed, 4, 2, 0, 0, 0, 5, 0, 6, 0]
  const third = [eventKinds.cleared, 5, 0, 0, 0, 0]
  expect([...batch.words.subarray(0, batch.wordCount)]).toEqual([...first, ...second, ...third])
  expect([batch.eventCount, batch.blockCount]).toEqual([3, 4])
})

it('keeps hashes 8-byte aligned, so that a 64-bit reader can take them as they are', () => {
  expect(eventHeaderWords % 2).toBe(0)
})

it('refuses a rank that no holder set could have', () => {
  const batch = new EventBatch()
  expect(() => batch.cleared(ranksMax)).toThrow('rank must be below')
  expect(() => batch.cleared(-1)).toThrow('rank must be below')
  expect(batch.wordCount).toBe(0)
})

it('starts over after clear', () => {
  const batch = new EventBatch()
  batch.cleared(1)
  batch.clear()
  expect([batch.wordCount, batch.eventCount, batch.blockCount]).toEqual([0, 0, 0])
})
