import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import { expect, it } from 'vitest'
import { Callers } from './callers.js'

function connection() {
  const callers = new Callers()
  const socket = new EventEmitter() as Socket
  const left: string[] = []
  const caller = (name: string) => ({ left: () => void left.push(name), hasBegun: false, shape: 'openai' as const })
  callers.watch(socket)
  return { callers, socket, left, caller }
}

it.each(['end', 'close'])('whoever asks on a connection is told in the very event: %s', (event) => {
  const { callers, socket, left, caller } = connection()
  callers.add(socket, caller('first'))
  callers.add(socket, caller('second'))
  socket.emit(event)
  expect(left).toEqual(['first', 'second'])
})

it('whoever has its answer is not told, and other connections are not', () => {
  const { callers, socket, left, caller } = connection()
  const other = new EventEmitter() as Socket
  const done = caller('done')
  callers.watch(other)
  callers.add(socket, done)
  callers.add(other, caller('elsewhere'))
  callers.delete(socket, done)
  socket.emit('close')
  expect(left).toEqual([])
})
