// The hottest prefixes against plain sets: each is a prefix that somebody stored, held by as many ranks, and not hotter than
// the lookups that could have reached it.
import { expect, it } from 'vitest'
import { toHashColumn } from '../protocol/index.js'
import { ApplyReport } from './apply-report.js'
import { createPrefixIndex } from './create-prefix-index.js'
import { randomOf } from './differential.case.js'
import { EventBatch } from './event-batch.js'
import { NaiveIndex } from './naive-index.case.js'
import type { HotPrefix, PrefixIndex } from './prefix-index.js'

const ranks = 5
const runBlocksMax = 64

const kinds = [
  ['wasm', 1],
  ['ts', 1],
  ['wasm', 3],
  ['ts', 3],
] as const

it.each(kinds)('%s, %d shards: shows prefixes that plain sets know, and loses no lookup', (implementation, shards) => {
  for (let seed = 1; seed <= 30; seed++) {
    const random = randomOf(seed)
    const real = createPrefixIndex({ seedLo: seed, seedHi: 2, implementation, shards })
    const model = new NaiveIndex()
    const prompts = Array.from({ length: 12 }, () => promptOf(random))
    for (const prompt of prompts)
      for (let rank = 0; rank < ranks; rank++) if (random(3) === 0) store([real, model], rank, prompt)
    const asked: bigint[][] = []
    for (let turn = 0; turn < 200; turn++) {
      const prompt = prompts[Math.min(random(12), random(12))]!.slice(0, 1 + random(90))
      asked.push(prompt.slice(0, real.find(toHashColumn(prompt), prompt.length, new Uint32Array(ranks))))
    }
    const shown = real.hottest()
    expect(shown.length).toBeLessThanOrEqual(16)
    expect(shown.map((it) => it.finds)).toEqual(shown.map((it) => it.finds).sort((a, b) => b - a))
    for (const hot of shown) checkPrefix(hot, prompts, asked, model)
    const deepest = asked.filter((it) => it.length > 0)
    if (deepest.length > 0) expect(shown[0]!.finds).toBeGreaterThanOrEqual(mostPassed(deepest))
  }
})

it.each(kinds)('%s, %d shards: two prefixes with the same last block are two', (implementation, shards) => {
  const index = createPrefixIndex({ seedLo: 1, seedHi: 2, implementation, shards })
  store([index], 0, [1n, 2n, 9n])
  store([index], 1, [3n, 4n, 9n])
  store([index], 2, [1n, 2n, 9n])
  for (const prompt of [
    [1n, 2n, 9n],
    [3n, 4n, 9n],
  ])
    index.find(toHashColumn(prompt), 3, new Uint32Array(ranks))
  expect(index.hottest().map((it) => [it.finds, it.depth, it.ranks])).toEqual(
    expect.arrayContaining([
      [1, 3, 2],
      [1, 3, 1],
    ]),
  )
  expect(index.hottest()).toHaveLength(2)
})

it.each(kinds)('%s, %d shards: a prefix that leads to a longer one as hot is not shown', (implementation, shards) => {
  const index = createPrefixIndex({ seedLo: 1, seedHi: 2, implementation, shards })
  const prompt = Array.from({ length: 50 }, (_, at) => BigInt(at + 1))
  store([index], 0, prompt.slice(0, 10)) // with several shards the run ends here in one and goes on in another
  store([index], 1, prompt)
  for (let time = 0; time < 20; time++) index.find(toHashColumn(prompt), 50, new Uint32Array(ranks))
  expect(index.hottest()).toEqual([{ finds: 20, depth: 50, ranks: 1, localLo: 50, localHi: 0 }])
})

/** Few beginnings and many ends, so that prompts branch. */
function promptOf(random: (below: number) => number): bigint[] {
  const shared = random(40)
  const own = 1000n + BigInt(random(1_000_000))
  return Array.from({ length: 10 + random(90) }, (_, at) => (at <= shared ? BigInt(at) : own + BigInt(at)))
}

function store(indexes: readonly PrefixIndex[], rank: number, prompt: readonly bigint[]): void {
  const batch = new EventBatch()
  const names = prompt.map((_, at) => nameOf(prompt.slice(0, at + 1)))
  batch.stored(rank, undefined, toHashColumn(names), toHashColumn(prompt))
  for (const index of indexes) index.apply(batch, new ApplyReport())
}

function nameOf(prefix: readonly bigint[]): bigint {
  return prefix.reduce((hash, it) => BigInt.asUintN(64, (hash + it + 1n) * 0x9e3779b97f4a7c15n), 17n)
}

function checkPrefix(
  hot: HotPrefix,
  prompts: readonly bigint[][],
  asked: readonly bigint[][],
  model: NaiveIndex,
): void {
  const last = (BigInt(hot.localHi) << 32n) | BigInt(hot.localLo)
  const candidates = prompts.map((it) => it.slice(0, hot.depth)).filter((it) => it[hot.depth - 1] === last)
  const fits = candidates.some((prefix) => {
    const holders = Array.from({ length: ranks }, (_, rank) => model.namesAt(rank, prefix)).filter(
      (it) => it.length > 0,
    )
    const startOfRun = prefix.slice(0, Math.max(1, hot.depth - runBlocksMax + 1))
    return holders.length === hot.ranks && passes(asked, prefix) <= hot.finds && hot.finds <= passes(asked, startOfRun)
  })
  expect(fits, JSON.stringify(hot)).toBe(true)
}

function passes(asked: readonly bigint[][], prefix: readonly bigint[]): number {
  return asked.filter((it) => it.length >= prefix.length && prefix.every((local, at) => it[at] === local)).length
}

/** Of the deepest points that lookups reached, the one that most of them passed. */
function mostPassed(asked: readonly bigint[][]): number {
  return Math.max(...asked.map((it) => passes(asked, it)))
}
