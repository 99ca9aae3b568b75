import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { WarmrouteError } from '../../core/protocol/index.js'
import { ChunkWalker } from './chunk-walker.js'

/** Feeds the pieces and puts together what came out: the payload, and what may be passed on framed. */
function walk(pieces: readonly Buffer[]): { payload: Buffer; raw: Buffer; isDone: boolean; rest: Buffer } {
  const walker = new ChunkWalker()
  const payload: Buffer[] = []
  const raw: Buffer[] = []
  let rest = Buffer.alloc(0)
  for (const piece of pieces) {
    if (walker.isDone) {
      rest = Buffer.concat([rest, piece])
      continue
    }
    walker.push(piece)
    for (let at = 0; at < walker.ranges.length; at += 2)
      payload.push(Buffer.from(walker.buffer.subarray(walker.ranges[at], walker.ranges[at + 1])))
    raw.push(Buffer.from(walker.buffer.subarray(0, walker.rawEnd)))
    if (walker.isDone) rest = Buffer.from(walker.buffer.subarray(walker.restStart))
  }
  return { payload: Buffer.concat(payload), raw: Buffer.concat(raw), isDone: walker.isDone, rest }
}

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const sorted = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b)
  const pieces: Buffer[] = []
  let start = 0
  for (const place of [...sorted, bytes.length]) {
    if (place > start) pieces.push(bytes.subarray(start, place))
    start = place
  }
  return pieces
}

// Goal: however a chunked body is cut by the network, the payload and the framing that is passed on are the same.
// Method: build a body from chunks, cut it anywhere, walk it; framed bytes plus a last chunk must be the body again.
it('finds the same payload and framing however the body is cut', () => {
  const chunk = fc.tuple(
    fc.uint8Array({ minLength: 1, maxLength: 40 }),
    fc.constantFrom('', ';a=b', ';x="y z"'),
    fc.boolean(),
  )
  fc.assert(
    fc.property(
      fc.array(chunk, { maxLength: 6 }),
      fc.constantFrom('', 'x-t: 1\r\n', 'a: b\r\nc: d\r\n'),
      fc.array(fc.nat(400), { maxLength: 12 }),
      (chunks, trailers, places) => {
        const framed = chunks.map(([data, extension, isUpper]) => {
          const size = data.length.toString(16)
          return Buffer.concat([
            Buffer.from(`${isUpper ? size.toUpperCase() : size}${extension}\r\n`),
            data,
            Buffer.from('\r\n'),
          ])
        })
        const body = Buffer.concat([...framed, Buffer.from(`0\r\n${trailers}\r\nrest`)])
        const { payload, raw, isDone, rest } = walk(cut(body, places))
        expect(isDone).toBe(true)
        expect(payload).toEqual(Buffer.concat(chunks.map(([data]) => data)))
        expect(raw).toEqual(Buffer.concat(framed))
        expect(rest.toString()).toBe('rest')
      },
    ),
    { numRuns: 500 },
  )
})

it('never loops and never throws anything else, whatever the bytes', () => {
  const pieces = fc.constantFrom('0', '1', 'a', ';', '\r', '\n', '\r\n', 'x', ' ')
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 30 }), fc.array(fc.nat(60), { maxLength: 6 }), (parts, places) => {
      try {
        walk(cut(Buffer.from(parts.join('')), places))
      } catch (error) {
        expect(error).toBeInstanceOf(WarmrouteError)
      }
    }),
    { numRuns: 2000 },
  )
})

describe('a body that is not chunked as it should be', () => {
  it.each([
    ['no size', '\r\nabc'],
    ['a size that is no number', 'xyz\r\n'],
    ['a negative size', '-1\r\n'],
    ['a size with a prefix', '0x5\r\nhello\r\n'],
    ['a bare line feed behind the size', '5\nhello\r\n'],
    ['a chunk longer than its size', '3\r\nabcd\r\n'],
    ['a bare line feed behind the data', '3\r\nabc\n'],
    ['a size beyond 32 bits', 'fffffffff\r\n'],
    ['a control character in an extension', '3;\0\r\nabc\r\n'],
    ['an endless size line', `1;${'a'.repeat(3000)}`],
    ['an endless trailer', `0\r\n${'a: b\r\n'.repeat(4000)}`],
    ['a trailer with a bare line feed', '0\r\na: b\n\r\n'],
  ])('%s', (_says, text) => {
    expect(() => walk([Buffer.from(text)])).toThrow(WarmrouteError)
  })
})

it('says when one of our own chunks may follow', () => {
  const walker = new ChunkWalker()
  walker.push(Buffer.from('5\r\nhel'))
  expect(walker.isBetweenChunks).toBe(false)
  walker.push(Buffer.from('lo\r\n'))
  expect(walker.isBetweenChunks).toBe(true)
})
