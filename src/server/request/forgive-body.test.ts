import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { forgiveBody } from './forgive-body.js'

describe('a body that is not JSON', () => {
  it('has the control characters in its strings escaped', () => {
    const bytes = Buffer.from('{"a": "one\ntwo\tthree \u00e9",\n "b": "back\\\\\u0001"}')
    expect(JSON.parse(forgiveBody(bytes).toString())).toEqual({ a: 'one\ntwo\tthree \u00e9', b: 'back\\\u0001' })
  })

  it('has bytes that are not UTF-8 replaced', () => {
    const bytes = Buffer.concat([Buffer.from('{"a": "x'), Buffer.from([0xff, 0x0a]), Buffer.from('y"}')])
    expect(JSON.parse(forgiveBody(bytes).toString())).toEqual({ a: 'x\ufffd\ny' })
  })

  it.each(['{"a": ', '', '{"a": "x', '\u0001{}', '{"a" "b"}'])('that cannot be mended stays as it is: %j', (text) => {
    const bytes = Buffer.from(text)
    expect(forgiveBody(bytes)).toBe(bytes)
  })
})

it('leaves every body that is JSON alone', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.integer({ min: 0, max: 3 }), (value, indent) => {
      const bytes = Buffer.from(JSON.stringify(value, undefined, indent))
      expect(forgiveBody(bytes)).toBe(bytes)
    }),
  )
})

it('mends every object whose strings were written raw', () => {
  const texts = fc.string({ unit: 'binary-ascii' }).map((text) => text.replaceAll(/["\\]/g, '.'))
  fc.assert(
    fc.property(fc.array(texts), (list) => {
      const raw = Buffer.from(`{"list":[${list.map((text) => `"${text}"`).join(',')}]}`)
      expect(JSON.parse(forgiveBody(raw).toString())).toEqual({ list })
    }),
  )
})
