import { describe, expect, it } from 'vitest'
import { WarmrouteError } from '../../core/protocol/index.js'
import { parseResponseHead, readResponseHead } from './response-head.js'

function framing(...lines: string[]): unknown {
  return parseResponseHead(['HTTP/1.1 200 OK', ...lines].join('\r\n'), 'POST').framing
}

describe('the head of an answer', () => {
  it('has status, headers in lower case, and how the body ends', () => {
    const head = parseResponseHead(
      'HTTP/1.1 200 OK\r\nContent-Type:  text/plain \r\nX-A:\tb\r\nTransfer-Encoding: Chunked',
      'POST',
    )
    expect(head).toEqual({
      status: 200,
      headers: [
        ['content-type', 'text/plain'],
        ['x-a', 'b'],
        ['transfer-encoding', 'Chunked'],
      ],
      framing: { kind: 'chunked' },
      isReusable: true,
    })
  })

  it.each([
    { says: 'a length', lines: ['content-length: 12'], framing: { kind: 'length', bytes: 12 } },
    {
      says: 'the same length twice',
      lines: ['content-length: 12', 'Content-Length: 12'],
      framing: { kind: 'length', bytes: 12 },
    },
    { says: 'nothing', lines: [], framing: { kind: 'until-close' } },
  ])('$says frames the body', ({ lines, framing: expected }) => {
    expect(framing(...lines)).toEqual(expected)
  })

  it.each([204, 304])('status %i has no body', (status) => {
    expect(parseResponseHead(`HTTP/1.1 ${status} x\r\ncontent-length: 5`, 'GET').framing).toEqual({ kind: 'none' })
  })

  it.each([
    ['HTTP/1.1 200 OK\r\nconnection: keep-alive, Close\r\ncontent-length: 0', false],
    ['HTTP/1.0 200 OK\r\ncontent-length: 0', false],
    ['HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0', true],
    ['HTTP/1.1 200 OK', false],
  ])('knows whether the connection may be kept: %j', (text, isReusable) => {
    expect(parseResponseHead(text, 'GET').isReusable).toBe(isReusable)
  })

  it.each([
    ['another protocol', 'HTTP/2 200 OK'],
    ['a status of two digits', 'HTTP/1.1 20 OK'],
    ['a line without a colon', 'HTTP/1.1 200 OK\r\nnonsense'],
    ['a space before the colon', 'HTTP/1.1 200 OK\r\ncontent-length : 5'],
    ['a folded line', 'HTTP/1.1 200 OK\r\nx: a\r\n b'],
    ['a bare line feed', 'HTTP/1.1 200 OK\r\nx: a\ny: b'],
    ['a NUL', 'HTTP/1.1 200 OK\r\nx: a\0b'],
    ['two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6'],
    ['a length and an encoding', 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked'],
    ['an unknown encoding', 'HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked'],
    ['chunked twice', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked'],
    ['a signed length', 'HTTP/1.1 200 OK\r\ncontent-length: +5'],
    ['a length in hex', 'HTTP/1.1 200 OK\r\ncontent-length: 0x5'],
    ['an endless length', `HTTP/1.1 200 OK\r\ncontent-length: ${'9'.repeat(30)}`],
  ])('refuses %s', (_says, text) => {
    expect(() => parseResponseHead(text, 'POST')).toThrow(WarmrouteError)
  })
})

it('a head that comes again is not parsed again, and another one is', () => {
  const text = 'HTTP/1.1 200 OK\r\ncontent-length: 5'
  const first = readResponseHead(text, 'POST')
  expect(first).toEqual(parseResponseHead(text, 'POST'))
  expect(readResponseHead(text, 'POST')).toBe(first)
  expect(readResponseHead(text, 'HEAD').framing).toEqual({ kind: 'none' })
  expect(readResponseHead('HTTP/1.1 200 OK\r\ncontent-length: 6', 'HEAD')).not.toBe(first)
  expect(() => readResponseHead('HTTP/1.1 200 OK\r\nno colon', 'POST')).toThrow(WarmrouteError)
  expect(readResponseHead(text, 'POST')).toEqual(first)
})
