// Counting over shards: exactly while there is little to look at, otherwise from a part that is drawn by chance.
import { describe, expect, it } from 'vitest'
import { toHashColumn } from '../protocol/index.js'
import { ApplyReport } from './apply-report.js'
import { randomOf } from './differential.case.js'
import { EventBatch } from './event-batch.js'
import { NaiveIndex } from './naive-index.case.js'
import type { Random, Shard } from './shard.js'
import { surveyShards } from './shard-survey.js'
import { TsIndex } from './ts-index.js'
import { WasmIndex } from './wasm-index.js'

const seeds = { seedLo: 3, seedHi: 4, isShard: true }
const kinds: [string, () => Shard][] = [
  ['wasm', () => WasmIndex.create(seeds)!],
  ['ts', () => new TsIndex(seeds)],
]

/** 300 conversations behind 10 shared beginnings on 12 ranks, dealt to three shards as the sharded index deals them. */
function fleet(make: () => Shard): { shards: Shard[]; model: NaiveIndex } {
  const shards = [make(), make(), make()]
  const model = new NaiveIndex()
  const random = randomOf(7)
  for (let talk = 0; talk < 300; talk++) {
    const beginning = random(10)
    const shared = 5 + 3 * beginning
    const own = 1 + random(90)
    const prompt = Array.from({ length: shared + own }, (_, at) =>
      BigInt(at < shared ? 100 * beginning + at + 1 : 10_000 + 100 * talk + at),
    )
    const name = prompt.map((it, at) => (it << 20n) + BigInt(at < shared ? 0 : at))
    for (let copies = 1 + random(3); copies > 0; copies--) {
      const rank = random(12)
      const batch = new EventBatch()
      batch.stored(rank, undefined, toHashColumn(name), toHashColumn(prompt))
      for (const index of [shards[rank % 3]!, model]) index.apply(batch, new ApplyReport())
    }
  }
  return { shards, model }
}

describe.each(kinds)('%s shards', (_, make) => {
  it('count every block once, and who shares it, as plain sets do', () => {
    const { shards, model } = fleet(make)
    const sum = shards.reduce((all, it) => all + it.stats().distinctBlocks, 0)
    expect(sum).toBeGreaterThan(1.2 * model.stats().distinctBlocks) // blocks are indeed in several of them
    const survey = surveyShards(shards, 1 << 20)
    expect(survey.isExact).toBe(true)
    expect(survey.distinctBlocks).toBe(model.stats().distinctBlocks)
    expect(survey.sharing.sharedBlocks).toBe(model.sharing().sharedBlocks)
    expect(survey.sharing.ranksPerSharedBlock).toBeCloseTo(model.sharing().ranksPerSharedBlock, 9)
  })

  it('estimate from a part of their runs where all of them would be too many', () => {
    const { shards, model } = fleet(make)
    const survey = surveyShards(shards, 30_000)
    expect(survey.isExact).toBe(false)
    const isNear = (value: number, wanted: number) => expect(Math.abs(value / wanted - 1)).toBeLessThan(0.1)
    isNear(survey.distinctBlocks, model.stats().distinctBlocks)
    isNear(survey.sharing.sharedBlocks, model.sharing().sharedBlocks)
    isNear(survey.sharing.ranksPerSharedBlock, model.sharing().ranksPerSharedBlock)
    expect(surveyShards(shards, 30_000)).toEqual(survey) // the same draws every time
  })

  it('look at no more hashes than they may, and one run over', () => {
    const { shards } = fleet(make)
    const looked: number[] = []
    const counting = shards.map((it): Shard => {
      return Object.assign(Object.create(it) as Shard, {
        stats: () => it.stats(),
        allRuns: () => undefined,
        sampler: (random: Random) => it.sampler(random),
        holdersAlong: (path: Uint32Array, from: number, holders: Uint32Array) => {
          looked.push(path.length / 2)
          return it.holdersAlong(path, from, holders)
        },
      })
    })
    surveyShards(counting, 3000)
    expect(looked.reduce((sum, it) => sum + it, 0) / shards.length).toBeLessThan(3000 + 3 * 200)
    expect(looked.length).toBeGreaterThan(10)
  })

  it('without blocks have nothing to count', () => {
    const none = { distinctBlocks: 0, sharing: { sharedBlocks: 0, ranksPerSharedBlock: 0 }, isExact: true }
    expect(surveyShards([make(), make()])).toEqual(none)
  })
})
