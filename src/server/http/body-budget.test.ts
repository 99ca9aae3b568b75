import { expect, it } from 'vitest'
import { BodyBudget } from './body-budget.js'

it('holds no more than there is, and what was refused is not held', () => {
  const budget = new BodyBudget(100)
  budget.hold(60)
  expect(() => budget.hold(41)).toThrowError(expect.objectContaining({ code: 'WR_ALL_WORKERS_OVERLOADED' }))
  budget.hold(40)
  expect(() => budget.requireRoom(1)).toThrowError('overloaded')
  budget.release(60)
  budget.requireRoom(60)
  expect(budget.heldBytes).toBe(40)
})
