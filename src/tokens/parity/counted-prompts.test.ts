import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CountedPrompts } from './counted-prompts.js'

function after(...pairs: readonly (readonly [own: number, engines: number])[]): CountedPrompts {
  const counted = new CountedPrompts()
  for (const [own, engines] of pairs) counted.compare(own, engines)
  return counted
}

const equal = [9, 9] as const
const different = [9, 12] as const

describe('prompts that an engine counted', () => {
  it('are no trouble while few were counted, or few of them differ', () => {
    expect(after(different, different, different).trouble).toBeUndefined()
    expect(after(equal, equal, different, different).trouble).toBeUndefined()
  })

  it('are trouble when most of the last ones differ, and say how', () => {
    expect(after(equal, different, different, [20, 21]).trouble).toBe(
      'of the last 4 prompts the engine counted 3 otherwise, the latest as 21 tokens where this tokenizer makes 20',
    )
  })

  it('are none again when the engine has changed its mind', () => {
    const counted = after(...Array.from({ length: 40 }, () => different))
    expect(counted.trouble).toContain('of the last 16')
    for (let at = 0; at < 7; at++) counted.compare(5, 5)
    expect(counted.trouble).toBeDefined()
    counted.compare(5, 5)
    expect(counted.trouble).toBeUndefined()
    expect(counted.counts).toEqual({ equal: 8, different: 40 })
  })

  it('are judged by the last sixteen alone', () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { maxLength: 60 }), (history) => {
        const counted = after(...history.map((differs) => (differs ? different : equal)))
        const last = history.slice(-16)
        const differing = last.filter(Boolean).length
        expect(counted.trouble !== undefined).toBe(last.length >= 4 && differing * 2 > last.length)
      }),
    )
  })
})
