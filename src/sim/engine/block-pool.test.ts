import fc from 'fast-check'
import { expect, it } from 'vitest'
import { BlockPool } from './block-pool.js'
import type { BlockPoolOptions } from './block-pool.js'

type Step =
  | { readonly kind: 'take' }
  | { readonly kind: 'complete'; readonly held: number; readonly key: number }
  | { readonly kind: 'hit'; readonly key: number }
  | { readonly kind: 'release'; readonly held: number }

/** The plain twin: a list of slots in order of taking, and a scan for everything. */
class PlainPool {
  readonly removed: number[] = []
  readonly slots: { key: number; references: number }[]
  free: number[]
  readonly options: BlockPoolOptions

  constructor(options: BlockPoolOptions) {
    this.options = options
    this.slots = Array.from({ length: options.blocks }, () => ({ key: -1, references: 0 }))
    this.free = this.slots.map((_, slot) => slot)
  }

  copiesOf(key: number): number[] {
    return this.slots.flatMap((slot, index) => (slot.key === key ? [index] : []))
  }

  hold(slot: number): void {
    this.free = this.free.filter((it) => it !== slot)
    this.slots[slot]!.references++
  }

  take(): number {
    const slot = this.free.shift()
    if (slot === undefined) return -1
    const { key } = this.slots[slot]!
    this.slots[slot] = { key: -1, references: 1 }
    if (key !== -1 && (this.options.copies === 'each' || this.copiesOf(key).length === 0)) this.removed.push(key)
    return slot
  }

  release(slot: number): void {
    if (--this.slots[slot]!.references > 0) return
    if (this.slots[slot]!.key === -1 && this.options.emptied === 'head') this.free.unshift(slot)
    else this.free.push(slot)
  }
}

const steps = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant('take' as const) }),
    fc.record({ kind: fc.constant('complete' as const), held: fc.nat(5), key: fc.nat(6) }),
    fc.record({ kind: fc.constant('hit' as const), key: fc.nat(6) }),
    fc.record({ kind: fc.constant('release' as const), held: fc.nat(5) }),
  ),
  { maxLength: 120 },
) as fc.Arbitrary<Step[]>

const policies: BlockPoolOptions[] = (['each', 'first-and-last', 'merge'] as const).flatMap((copies) =>
  (['head', 'tail'] as const).map((emptied) => ({ blocks: 5, copies, emptied, evicts: 'block' })),
)

it.each(policies)(
  'holds, evicts and announces as a plain list does ($copies copies, emptied to the $emptied)',
  (options) => {
    fc.assert(
      fc.property(steps, (history) => {
        const removed: number[] = []
        const real = new BlockPool(options, { removed: (key) => removed.push(key) })
        const plain = new PlainPool(options)
        const held: number[] = []
        for (const step of history) applyTo(real, plain, held, step)
        expect(removed).toEqual(plain.removed)
        expect(real.freeCount).toBe(plain.free.length)
        const counts = new Map<number, number>()
        for (const { key } of plain.slots) if (key !== -1) counts.set(key, (counts.get(key) ?? 0) + 1)
        expect(real.cachedKeys()).toEqual(counts)
        expect(real.cachedCount).toBe([...counts.values()].reduce((sum, count) => sum + count, 0))
        for (let key = 0; key <= 6; key++) expect(real.find(key) >= 0).toBe(counts.has(key))
      }),
      { numRuns: 300 },
    )
  },
)

function applyTo(real: BlockPool, plain: PlainPool, held: number[], step: Step): void {
  switch (step.kind) {
    case 'take': {
      const slot = real.take()
      expect(slot).toBe(plain.take())
      if (slot >= 0) held.push(slot)
      return
    }
    case 'complete': {
      const at = step.held % Math.max(1, held.length)
      const slot = held[at]
      if (slot === undefined || plain.slots[slot]!.key !== -1 || plain.slots[slot]!.references !== 1) return
      const before = plain.copiesOf(step.key)
      const used = real.complete(slot, step.key)
      if (plain.options.copies === 'merge' && before.length > 0) {
        plain.hold(before[0]!)
        plain.release(slot)
        held[at] = before[0]!
      } else plain.slots[slot]!.key = step.key
      expect(used).toBe(held[at])
      expect(real.isNew).toBe(before.length === 0 || plain.options.copies === 'each')
      return
    }
    case 'hit': {
      const slot = real.find(step.key)
      if (slot < 0) return
      expect(real.isActive(slot)).toBe(plain.slots[slot]!.references > 0)
      real.hold(slot)
      plain.hold(slot)
      held.push(slot)
      return
    }
    case 'release': {
      const at = step.held % Math.max(1, held.length)
      const [slot] = held.splice(at, 1)
      if (slot === undefined) return
      real.release(slot)
      plain.release(slot)
    }
  }
}

it('forgets everything when cleared, but not while a block is held', () => {
  const pool = new BlockPool({ blocks: 4, copies: 'each', emptied: 'tail', evicts: 'block' }, { removed: () => {} })
  const slot = pool.take()
  pool.complete(slot, 2 ** 52 + 1)
  expect(pool.clear()).toBe(false)
  pool.release(slot)
  expect(pool.find(2 ** 52 + 1)).toBe(slot)
  expect(pool.clear()).toBe(true)
  expect(pool.find(2 ** 52 + 1)).toBe(-1)
})
