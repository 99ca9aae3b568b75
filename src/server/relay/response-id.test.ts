import { expect, it } from 'vitest'
import { ResponseIdReader } from './response-id.js'

function idIn(text: string, step: number): { ids: string[]; bytesRead: number } {
  const ids: string[] = []
  const reader = new ResponseIdReader((id) => ids.push(id))
  const bytes = Buffer.from(text)
  let at = 0
  for (; at < bytes.length && !reader.isDone; at += step) reader.push(bytes, at, Math.min(at + step, bytes.length))
  return { ids, bytesRead: Math.min(at, bytes.length) }
}

const created = 'event: response.created\ndata: {"response":{"id":"resp_1","metadata":null}}\n\n'

it.each([
  ['a whole answer', '{"id":"resp_1","object":"response"}'],
  ['a whole answer with blanks', ' { "id": "resp_1" }'],
  ['a stream', created],
  ['a stream that says its type first', created.replace('{"resp', '{"type":"response.created","resp')],
  ['a stream behind a comment', `: hello\n\n${created}`],
])('finds the id in %s, however it is cut', (_says, text) => {
  for (const step of [1, 7, 10_000]) expect(idIn(text, step).ids).toEqual(['resp_1'])
})

it.each([
  ['an answer that begins with something else', `{"text":"${'x'.repeat(5_000)}","id":"resp_1"}`],
  ['an id inside of something else', '{"metadata":{"id":"resp_1"}}'],
  ['words that look like one', '{"text":"\\"response\\":{\\"id\\":\\"resp_1\\"}"}'],
  ['an id that is too long', `{"id":"${'x'.repeat(300)}"}`],
])('finds none in %s', (_says, text) => {
  expect(idIn(text, 100).ids).toEqual([])
})

it('looks no further than it must', () => {
  expect(idIn(created.padEnd(9_000), 10).bytesRead).toBeLessThan(created.length)
  expect(idIn('x'.repeat(9_000), 1_000).bytesRead).toBe(2_000)
})
