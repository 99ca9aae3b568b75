/**
 * A `KvIndex` against plain facts: per rank a set of held prefixes on the device, per tier a list of edges, per decision
 * an instant at which it ends. Nothing is shared with the real one but the events.
 */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { lowerTiers, type RouterEvent, type StorageTier } from '../protocol/index.js'
import { chainOf } from './kv-chain.case.js'
import type { RankBlocks } from './kv-index.js'
import { cleared, nameOf, newKv, removed, stored } from './kv-drive.case.js'
import { NaiveTier, naiveTierWalk } from './naive-tiers.case.js'
import type { PrefixIndex } from './prefix-index.js'

type Prefix = readonly bigint[]
type Step =
  | { kind: 'store'; rank: number; tier: StorageTier; after: Prefix; locals: Prefix }
  | { kind: 'remove'; rank: number; tier: StorageTier; prefix: Prefix }
  /** Offloading as engines do it: the block leaves one tier and appears on another. */
  | { kind: 'move'; rank: number; from: StorageTier; to: StorageTier; prefix: Prefix }
  | { kind: 'clear'; rank: number }
  | { kind: 'decide'; rank: number; locals: Prefix }
  | { kind: 'wait'; ms: number }
  | { kind: 'reset'; rank: number }

const fleet: readonly (readonly [workerId: bigint, dpRank: number])[] = [
  [1n, 0],
  [1n, 1],
  [2n, 0],
]
const ttlMs = 300

class Model {
  readonly held = fleet.map(() => new Map<string, Prefix>())
  readonly tiers = lowerTiers.map(() => new NaiveTier())
  readonly ends = fleet.map(() => new Map<string, number>())
  nowMs = 0

  store(rank: number, tier: StorageTier, after: Prefix, locals: Prefix): void {
    const prefixes = locals.map((_, index) => [...after, ...locals.slice(0, index + 1)])
    if (tier === 'device') {
      if (after.length > 0 && !this.held[rank]!.has(after.join())) return
      for (const prefix of prefixes) this.held[rank]!.set(prefix.join(), prefix)
    } else {
      const blocks = prefixes.map((prefix, index) => ({ local: locals[index]!, child: nameOf(prefix) }))
      this.tiers[lowerTiers.indexOf(tier)]!.store(rank, after.length > 0 ? nameOf(after) : null, blocks)
    }
  }

  remove(rank: number, tier: StorageTier, prefix: Prefix): void {
    if (tier === 'device') this.held[rank]!.delete(prefix.join())
    else this.tiers[lowerTiers.indexOf(tier)]!.remove(rank, [nameOf(prefix)])
  }

  clear(rank: number): void {
    this.held[rank]!.clear()
    for (const tier of this.tiers) tier.clearOwner(rank)
  }

  decide(rank: number, locals: Prefix): void {
    const end = Math.ceil((this.nowMs + ttlMs) / 100) * 100
    for (let depth = 1; depth <= locals.length; depth++) this.ends[rank]!.set(locals.slice(0, depth).join(), end)
  }

  find(rank: number, prompt: Prefix): number[] {
    const predicted = depthOf(prompt, (key) => (this.ends[rank]!.get(key) ?? 0) > this.nowMs)
    const { device, tiers } = this.#reported(rank, prompt)
    return [Math.max(device, predicted), ...tiers]
  }

  /** Blocks of a rank, tier by tier, counted anew. */
  blocksOf(rank: number): RankBlocks {
    const [host_pinned = 0, disk = 0, external = 0] = this.tiers.map(
      (tier) => tier.holds.filter((it) => it.owner === rank).length,
    )
    const predicted = [...this.ends[rank]!.values()].filter((end) => end > this.nowMs).length
    return { device: this.held[rank]!.size, host_pinned, disk, external, predicted }
  }

  /** Different blocks on the device, and those that several ranks hold there. */
  device(): { distinct: Set<string>; shared: string[]; holds: number } {
    const all = this.held.flatMap((it) => [...it.values()])
    const distinct = new Set(all.flatMap((prefix) => prefix.map((_, at) => prefix.slice(0, at + 1).join())))
    const holders = (key: string) => this.held.filter((it) => it.has(key)).length
    const shared = [...distinct].filter((key) => holders(key) > 1)
    return { distinct, shared, holds: shared.reduce((sum, key) => sum + holders(key), 0) }
  }

  /** Every engine gives one prefix the same name here, so the names follow from how many there are. */
  names(rank: number, prompt: Prefix): bigint[] {
    const { device, tiers } = this.#reported(rank, prompt)
    return prompt.slice(0, device + tiers[0]!).map((_, block) => nameOf(prompt.slice(0, block + 1)))
  }

  #reported(rank: number, prompt: Prefix): { device: number; tiers: number[] } {
    const device = depthOf(prompt, (key) => this.held[rank]!.has(key))
    const from = { position: device, last: device > 0 ? nameOf(prompt.slice(0, device)) : null }
    return { device, tiers: naiveTierWalk(this.tiers, [rank], from, prompt) }
  }
}

function depthOf(prompt: Prefix, isHeld: (key: string) => boolean): number {
  let depth = 0
  while (depth < prompt.length && isHeld(prompt.slice(0, depth + 1).join())) depth++
  return depth
}

const block = fc.bigInt(1n, 3n)
const prefix = fc.array(block, { minLength: 1, maxLength: 4 })
const rank = fc.nat(fleet.length - 1)
const tier = fc.constantFrom<StorageTier>('device', 'device', ...lowerTiers)
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('store' as const),
      rank,
      tier,
      after: fc.array(block, { maxLength: 3 }),
      locals: prefix,
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('remove' as const), rank, tier, prefix }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('move' as const), rank, from: tier, to: tier, prefix }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('clear' as const), rank }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('decide' as const), rank, locals: prefix }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.nat(250) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reset' as const), rank }) },
)

/** `stepBlocks`: what ends or is reset goes in steps of so many blocks, between which lookups are compared as well. */
export function kvIndexAgreesWithFacts(name: string, newIndex: () => PrefixIndex, stepBlocks?: number): void {
  it(`${name}: moves between tiers, decisions and resets leave what plain facts leave, after every step`, () => {
    checkKvIndexAgainstFacts(newIndex, { numRuns: 80 }, stepBlocks)
  })
}

export function checkKvIndexAgainstFacts(
  newIndex: () => PrefixIndex,
  parameters: { numRuns: number; seed?: number },
  stepBlocks?: number,
): void {
  const anySteps = fc.array(anyStep, { maxLength: 40 })
  const anyPrompts = fc.array(fc.array(block, { minLength: 1, maxLength: 6 }), { minLength: 2, maxLength: 5 })
  fc.assert(
    fc.property(anySteps, anyPrompts, (steps, prompts) => {
      const real = newKv(newIndex, { predicted: { index: newIndex(), ttlMs }, stepBlocks })
      for (const pair of fleet) real.ranks.intern(...pair)
      const model = new Model()
      for (const step of steps) {
        applyStep(real, model, step)
        while ((real.kv.nextExpiryMs ?? Number.POSITIVE_INFINITY) <= model.nowMs)
          real.kv.expire(model.nowMs, stepBlocks)
        real.kv.drain(1)
        checkFigures(real, model)
        for (const prompt of prompts) {
          const answers = real.find(prompt)
          for (const [index, [worker, dp]] of fleet.entries()) {
            expect(answers[`${worker}.${dp}`] ?? [0, 0, 0, 0]).toEqual(model.find(index, prompt))
            expect(chainOf(real, fleet[index]!, prompt)).toEqual(model.names(index, prompt))
          }
        }
      }
    }),
    parameters,
  )
}

/** What introspection shows: blocks per rank and tier, distinct blocks, how many ranks share them. */
function checkFigures({ kv }: ReturnType<typeof newKv>, model: Model): void {
  for (const rank of fleet.keys()) expect(kv.blocksOf(rank)).toEqual(model.blocksOf(rank))
  const { device, sharing, tiers } = kv.stats()
  const { distinct, shared, holds } = model.device()
  expect(device.heldBlocks).toBe(model.held.reduce((sum, it) => sum + it.size, 0))
  if (kv.drain(0) === 0) expect(device.distinctBlocks).toBe(distinct.size)
  expect(sharing).toEqual({ sharedBlocks: shared.length, ranksPerSharedBlock: shared.length && holds / shared.length })
  for (const [at, name] of lowerTiers.entries()) expect(tiers[name].heldBlocks).toBe(model.tiers[at]!.holds.length)
}

function applyStep(real: ReturnType<typeof newKv>, model: Model, step: Step): void {
  const apply = (...events: RouterEvent[]) => real.apply(...events)
  switch (step.kind) {
    case 'store':
      apply(stored(fleet[step.rank]!, step.locals, { after: step.after, tier: step.tier }))
      return model.store(step.rank, step.tier, step.after, step.locals)
    case 'remove':
      apply(removed(fleet[step.rank]!, [step.prefix], { tier: step.tier }))
      return model.remove(step.rank, step.tier, step.prefix)
    case 'move': {
      const [after, last] = [step.prefix.slice(0, -1), step.prefix.slice(-1)]
      apply(
        removed(fleet[step.rank]!, [step.prefix], { tier: step.from }),
        stored(fleet[step.rank]!, last, { after, tier: step.to }),
      )
      model.remove(step.rank, step.from, step.prefix)
      return model.store(step.rank, step.to, after, last)
    }
    case 'clear':
      apply(cleared(fleet[step.rank]!))
      return model.clear(step.rank)
    case 'decide':
      real.decide(fleet[step.rank]!, step.locals, model.nowMs)
      return model.decide(step.rank, step.locals)
    case 'wait':
      model.nowMs += step.ms
      return
    case 'reset':
      real.kv.resetRank(step.rank)
      model.ends[step.rank]!.clear()
      return model.clear(step.rank)
  }
}
