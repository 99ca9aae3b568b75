import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { LookGate } from './look-gate.js'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Everybody who came, and how to send them away. */
async function enter(gate: LookGate, count: number): Promise<(() => void)[]> {
  const inside: (() => void)[] = []
  for (let at = 0; at < count; at++) void gate.enter().then((leave) => inside.push(leave))
  await vi.advanceTimersByTimeAsync(0)
  return inside
}

it('lets a few in at once, and each of the others when somebody leaves', async () => {
  const inside = await enter(new LookGate({ insideMax: 3, holdMs: 50 }), 7)
  expect(inside.length).toBe(3)
  for (let left = 0; left < 7; left++) {
    expect(inside.length).toBe(Math.min(7, 3 + left))
    inside[left]!()
    inside[left]!() // once more changes nothing
    await vi.advanceTimersByTimeAsync(0)
  }
})

it('lets the next in when those inside take their time', async () => {
  const gate = new LookGate({ insideMax: 3, holdMs: 50 })
  const inside = await enter(gate, 7)
  await vi.advanceTimersByTimeAsync(49)
  expect(inside.length).toBe(3)
  await vi.advanceTimersByTimeAsync(1)
  expect(inside.length).toBe(6)
  await vi.advanceTimersByTimeAsync(50)
  expect(inside.length).toBe(7)
  for (const leave of inside) leave()
  expect((await enter(gate, 4)).length).toBe(3) // nobody's place was given twice
})
