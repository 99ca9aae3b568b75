// Which renderings are kept, found again and let go.
import { describe, expect, it } from 'vitest'
import { parseTemplate } from './parse.js'
import { RenderedPrefixes } from './rendered-prefixes.js'
import type { Kept, Variables } from './renderings.case.js'
import { conversation, keep, options } from './renderings.case.js'
import { Template } from './template.js'
import type { Value } from './values.js'

describe('what is kept', () => {
  const template = new Template(parseTemplate('{% for m in messages %}{{ m.content }}{% endfor %}'))
  const noted = (note: string): Value => conversation(9).map((message) => ({ ...(message as Variables), note }))

  it('counts what messages hold that is not printed', () => {
    const [plain, heavy] = ['', 'x'.repeat(1000)].map((note) => {
      const prefixes = new RenderedPrefixes<Kept>(1 << 20)
      keep(prefixes.render(template, { messages: noted(note) }, options))
      return prefixes.byteLength
    })
    expect(heavy! - plain!).toBeGreaterThanOrEqual(9 * 1000)
  })

  it('is nothing where it may have no bytes, and nothing is looked for', () => {
    const prefixes = new RenderedPrefixes<Kept>(0)
    const { keep: keeps } = prefixes.render(template, { messages: noted('') }, options)
    expect([keeps, prefixes.counts.misses]).toEqual([undefined, 0])
  })

  it('counts messages that no loop goes through', () => {
    const rest = new Template(
      parseTemplate('{% set rest = messages[1:] %}{% for m in rest %}{{ m.content }}{% endfor %}'),
    )
    const [short, long] = ['x', 'x'.repeat(1001)].map((content) => {
      const prefixes = new RenderedPrefixes<Kept>(1 << 20)
      keep(prefixes.render(rest, { messages: [{ role: 'system', content }, ...conversation(9)] }, options))
      return prefixes.byteLength
    })
    expect(short).toBeGreaterThan(0)
    expect(long! - short!).toBeGreaterThanOrEqual(1000)
  })

  it('is found by nothing where it was too large to be kept', () => {
    const prefixes = new RenderedPrefixes<Kept>(1000)
    expect(keep(prefixes.render(template, { messages: conversation(9) }, options))).toMatch(/^turn 0/)
    expect([prefixes.byteLength, prefixes.markCount, prefixes.counts.evictions]).toEqual([0, 0, 0])
  })

  it('counts all that its text holds, which nobody else may hold any more', () => {
    const sizes = [undefined, (text: Kept) => text.bytes.length + 5000].map((sizeOfText) => {
      const prefixes = new RenderedPrefixes<Kept>(1 << 20, sizeOfText ? { sizeOfText } : {})
      keep(prefixes.render(template, { messages: conversation(9) }, options))
      return prefixes.byteLength
    })
    expect(sizes[1]! - sizes[0]!).toBe(5000)
  })

  it('counts what its text has grown by since, and forgets others for it', () => {
    const sizes = new Map<Kept, number>()
    const sizeOfText = (text: Kept): number => sizes.get(text) ?? 100
    const prefixes = new RenderedPrefixes<Kept>(20_000, { sizeOfText })
    const texts = ['a', 'b', 'c'].map((start) => {
      const messages = [{ role: 'user', content: start }, ...conversation(9)]
      const text = { bytes: new TextEncoder().encode(start) }
      prefixes.render(template, { messages }, options).keep!(text)
      return text
    })
    const grow = (text: Kept, size: number): void => {
      sizes.set(text, size)
      prefixes.measure(text)
    }
    const before = prefixes.byteLength
    grow(texts[0]!, 1100)
    grow(texts[0]!, 1100) // that it was measured before counts once
    grow({ bytes: new Uint8Array(9) }, 5000) // it is not kept
    expect(prefixes.byteLength).toBe(before + 1000)
    grow(texts[1]!, 5100) // the third is the one that was not used
    expect([prefixes.byteLength, prefixes.markCount]).toEqual([(2 * before) / 3 + 6000, 20])
    grow(texts[1]!, 12_000) // too large to be kept
    grow(texts[1]!, 100)
    expect([prefixes.byteLength, prefixes.markCount]).toEqual([before / 3 + 1000, 10])
    expect(prefixes.counts.evictions).toBe(2)
  })

  it('takes the place of what it goes on from, and of nothing else', () => {
    const kept = (...chats: Value[]): number[] => {
      const prefixes = new RenderedPrefixes<Kept>(1 << 20)
      for (const messages of chats) keep(prefixes.render(template, { messages }, options))
      return [prefixes.byteLength, prefixes.markCount]
    }
    const edited = [...conversation(8), { role: 'user', content: 'edited' }, ...conversation(4)]
    const [alone, other] = [kept(conversation(11)), kept(edited)]
    expect(kept(conversation(9), conversation(10), conversation(11))).toEqual(alone)
    expect(kept(conversation(11), edited)[0]).toBe(alone[0]! + other[0]!)
  })

  it('is forgotten within its bytes, and counted', () => {
    const first = new RenderedPrefixes<Kept>(1 << 20)
    const render = (prefixes: RenderedPrefixes<Kept>, start: string): string =>
      keep(prefixes.render(template, { messages: [{ role: 'user', content: start }, ...conversation(9)] }, options))
    render(first, 'a')
    const bytesMax = Math.floor(first.byteLength * 2.5)
    const prefixes = new RenderedPrefixes<Kept>(bytesMax)
    for (const start of ['a', 'b', 'c']) render(prefixes, start)
    expect(prefixes.counts).toMatchObject({ hits: 0, misses: 3, evictions: 1 })
    expect(prefixes.byteLength).toBeLessThanOrEqual(bytesMax)
    expect(prefixes.markCount).toBe(20) // of two that are kept, for each length
  })

  it('is so many turns of a loop, and no more', () => {
    const prefixes = new RenderedPrefixes<Kept>(1 << 24, { comparedFirst: 0 })
    for (const length of [5000, 5001]) {
      const messages = conversation(length)
      expect(keep(prefixes.render(template, { messages }, options))).toBe(template.render({ messages }, options))
    }
    expect(prefixes.counts).toMatchObject({ hits: 1, turns: 4096 })
  })

  it('is found by the beginning that it shares with one that was forgotten', () => {
    const render = (prefixes: RenderedPrefixes<Kept>, end: string): string =>
      keep(prefixes.render(template, { messages: [...conversation(9), { role: 'user', content: end }] }, options))
    const first = new RenderedPrefixes<Kept>(1 << 20)
    render(first, 'a')
    const prefixes = new RenderedPrefixes<Kept>(Math.floor(first.byteLength * 2.5))
    for (const end of ['a', 'b', 'c', 'd']) render(prefixes, end)
    expect(prefixes.counts).toMatchObject({ hits: 3, misses: 1, turns: 27, evictions: 2 })
  })

  it('is nothing of what cannot be measured', () => {
    let deep: Value = 1
    for (let level = 0; level < 1000; level++) deep = [deep]
    const prefixes = new RenderedPrefixes<Kept>(1 << 20)
    const messages = conversation(9).map((message) => ({ ...(message as Variables), deep }))
    expect(keep(prefixes.render(template, { messages }, options))).toMatch(/^turn 0/)
    expect(prefixes.byteLength).toBe(0)
  })
})
