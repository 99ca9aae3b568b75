import { expect, it } from 'vitest'
import { narrowToLora } from './lora-narrowing.js'

const set = (...ids: number[]) => new Set(ids.map(BigInt))

it.each([
  { says: 'nothing known of the adapter leaves everybody', allowed: undefined, lora: undefined, result: undefined },
  { says: 'nothing known of the adapter leaves the allow list', allowed: set(1), lora: set(), result: set(1) },
  {
    says: 'without an allow list the adapter’s workers are it',
    allowed: undefined,
    lora: set(1, 2),
    result: set(1, 2),
  },
  { says: 'an allow list is narrowed to the adapter’s workers', allowed: set(2, 3), lora: set(1, 2), result: set(2) },
  {
    says: 'an allow list is never widened, and stays where nobody on it has the adapter',
    allowed: set(3),
    lora: set(1),
    result: set(3),
  },
])('$says', ({ allowed, lora, result }) => {
  expect(narrowToLora({ allowedWorkerIds: allowed, loraWorkerIds: lora, isPinned: false })).toEqual(result)
})

it('does not take a pin’s worker away', () => {
  expect(narrowToLora({ allowedWorkerIds: undefined, loraWorkerIds: set(1), isPinned: true })).toBe(undefined)
  expect(narrowToLora({ allowedWorkerIds: set(2, 3), loraWorkerIds: set(3), isPinned: true })).toEqual(set(2, 3))
})
