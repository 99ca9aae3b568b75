import { expect, it } from 'vitest'
import { keyOf, readRequest, readShort } from './asked-request.js'

const unspellable = (): never => {
  throw new Error('it was spelled')
}

// Spelling 64 KB of numbers as Python does takes 10 ms and more, on the loop.
it('a request that was left unread is known by its bytes, and by the quarter of an hour', () => {
  const keyOfBytes = (text: string, day: string): string => {
    const raw = Buffer.from(text)
    return keyOf('chat', { ...readRequest(readShort(raw)!, raw, false), spell: unspellable }, day)
  }
  const key = keyOfBytes('{"messages":[1.0]}', '1')
  expect(keyOfBytes('{"messages":[1.0]}', '1')).toBe(key)
  expect(keyOfBytes('{"messages":[1]}', '1')).not.toBe(key)
  expect(keyOfBytes('{"messages":[1.0]}', '2')).not.toBe(key)
})

it('of one that was parsed nothing counts that never changes tokens', () => {
  const keyOfBody = (body: Record<string, number>): string =>
    keyOf('chat', readRequest(body, Buffer.from(JSON.stringify(body)), true), '1')
  expect(keyOfBody({ messages: 1, seed: 1 })).toBe(keyOfBody({ messages: 1, seed: 2 }))
  expect(keyOfBody({ messages: 1 })).not.toBe(keyOfBody({ messages: 2 }))
})
