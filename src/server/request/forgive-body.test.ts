import { isDeepStrictEqual } from 'node:util'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BufferPool } from '../http/buffer-pool.js'
import type { Steps } from '../steps.js'
import { forgiveBody } from './forgive-body.js'

const limits = { depthMax: 128, bodyBytesMax: 45 << 20 }

/** What comes of it, and in how many steps. */
function take<T>(steps: Steps<T>): { readonly value: T; readonly stepCount: number } {
  for (let stepCount = 1; ; stepCount++) {
    const step = steps.next()
    if (step.done) return { value: step.value, stepCount }
  }
}

function forgiven(bytes: Buffer): Buffer | undefined {
  return take(forgiveBody(bytes, limits, new BufferPool())).value
}

describe('a body that is not JSON', () => {
  it('has the control characters in its strings escaped', () => {
    const bytes = Buffer.from('{"a": "one\ntwo\tthree \u00e9",\n "b": "back\\\\\u0001\u001f"}')
    expect(JSON.parse(forgiven(bytes)!.toString())).toEqual({ a: 'one\ntwo\tthree \u00e9', b: 'back\\\u0001\u001f' })
  })

  it('has bytes that are not UTF-8 replaced', () => {
    const bytes = Buffer.concat([Buffer.from('{"a": "x'), Buffer.from([0xff, 0x0a]), Buffer.from('y"}')])
    expect(JSON.parse(forgiven(bytes)!.toString())).toEqual({ a: 'x\ufffd\ny' })
  })

  it.each(['{"a": ', '', '{"a": "x', '\u0001{}', '{"a" "b"}', '{"a":"\\\n"}'])('cannot be mended: %j', (text) => {
    expect(forgiven(Buffer.from(text))).toBeUndefined()
  })

  it('is not mended to more than a body may have', () => {
    const bytes = Buffer.from(`{"a":"${'\n'.repeat(100)}"}`)
    expect(take(forgiveBody(bytes, { ...limits, bodyBytesMax: 607 }, new BufferPool())).value).toBeUndefined()
    expect(take(forgiveBody(bytes, { ...limits, bodyBytesMax: 608 }, new BufferPool())).value).toHaveLength(608)
  })
})

it('leaves every body that is JSON alone', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.integer({ min: 0, max: 3 }), (value, indent) => {
      const bytes = Buffer.from(JSON.stringify(value, undefined, indent))
      expect(forgiven(bytes)).toBe(bytes)
    }),
  )
})

it('mends every object whose strings were written raw', () => {
  const texts = fc.string({ unit: 'binary-ascii' }).map((text) => text.replaceAll(/["\\]/g, '.'))
  fc.assert(
    fc.property(fc.array(texts), (list) => {
      const raw = Buffer.from(`{"list":[${list.map((text) => `"${text}"`).join(',')}]}`)
      expect(JSON.parse(forgiven(raw)!.toString())).toEqual({ list })
    }),
  )
})

// What holds the loop is what one step looks at. Each walk over two megabytes takes four.
it.each([
  ['JSON', Buffer.from('é\\u00e9\\"'), 1],
  ['control characters', Buffer.from('x\ny\t\\"'), 3],
  ['bytes that are not UTF-8', Buffer.from('\xff\xc3(', 'latin1'), 2],
])('a long body of %s is mended in steps', (_, part, walks) => {
  const filled = Buffer.alloc((2 << 20) - ((2 << 20) % part.length), part)
  const bytes = Buffer.concat([Buffer.from('{"a":"'), filled, Buffer.from('"}')])
  const { value, stepCount } = take(forgiveBody(bytes, limits, new BufferPool()))
  expect(stepCount).toBeGreaterThanOrEqual(4 * walks)
  const plain = bytes.toString().replaceAll('\n', '\\n').replaceAll('\t', '\\t')
  expect(isDeepStrictEqual(JSON.parse(value!.toString()), JSON.parse(plain))).toBe(true)
})
