import { expect, it } from 'vitest'
import { letGo } from './let-go.js'

it('gives up memory that a buffer has alone', () => {
  const buffer = Buffer.allocUnsafeSlow(64 * 1024)
  letGo(buffer)
  expect(buffer.length).toBe(0)
  letGo(buffer) // nothing is left to give up
})

it('frees the memory at once: nothing waits for a collection', () => {
  const before = process.memoryUsage().arrayBuffers
  for (let at = 0; at < 200; at++) letGo(Buffer.allocUnsafeSlow(1024 * 1024))
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(20 * 1024 * 1024)
})

it('leaves memory alone that others have a part of', () => {
  const whole = Buffer.allocUnsafeSlow(64 * 1024).fill(7)
  letGo(whole.subarray(0, 1024))
  letGo(Buffer.from('short texts share a page'))
  expect(whole.length).toBe(64 * 1024)
  expect(whole[5]).toBe(7)
})
