import { expect, it } from 'vitest'
import { TokensWithHashes } from '../core/hashing/index.js'
import { ask, openScene, plainWorker, prompt, StillClock, tokensFrom } from './router.case.js'

it('a decision about very many blocks is remembered in parts, each at once', async () => {
  const parts: (() => void)[] = []
  const clock = new StillClock()
  clock.soon = (work) => void parts.push(work)
  const { router } = await openScene({ useKvEvents: false }, { clock })
  const worker = { workerId: 1n, dpRank: 0 }
  const long = tokensFrom(0, 4 * 10_000 + 3)
  await router.findBestMatch(ask('a', { tokens: long, recordsDecision: true, pinnedWorker: worker }))
  await router.findBestMatch(ask('b', { tokens: prompt, recordsDecision: true })) // lent columns are somebody else's now
  const known = [await router.getOverlapBlocks({ tokens: long }, worker)]
  while (parts.length > 0) {
    parts.shift()!()
    known.push(await router.getOverlapBlocks({ tokens: long }, worker))
  }
  expect(known).toEqual([2048, 4096, 6144, 8192, 10_000])
  await router.close()
})

it('the rest of a decision ends with its router, and with its worker', async () => {
  const parts: (() => void)[] = []
  const clock = new StillClock()
  clock.soon = (work) => void parts.push(work)
  const { router, workers, log } = await openScene({ useKvEvents: false }, { clock })
  const worker = { workerId: 1n, dpRank: 0 }
  const record = (start: number): Promise<void> =>
    router.recordRoutingDecision(new TokensWithHashes(tokensFrom(start, 40_000), 4), worker)
  await record(0)
  workers.remove(1n)
  for (const part of parts.splice(0)) part()
  expect(log.lines.some(({ sentence }) => sentence.includes('the rest of a routing decision'))).toBe(true)
  workers.set(1n, plainWorker)
  await record(1)
  await router.close()
  expect(() => parts.splice(0).forEach((part) => part())).not.toThrow()
  expect(parts).toEqual([])
})
