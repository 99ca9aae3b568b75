// What ends or leaves all at once is taken away a step in each turn of the loop; no lookup sees it meanwhile.
import { expect, it } from 'vitest'
import { TokensWithHashes } from '../core/hashing/index.js'
import { stepBlocks } from './build-index.js'
import { ask, openScene, plainWorker, StillClock, storedEvent, tokensFrom } from './router.case.js'

/** Turns of the loop come when they are asked for. */
class TurnClock extends StillClock {
  readonly #turns: (() => void)[] = []

  override soon(work: () => void): void {
    this.#turns.push(work)
  }

  get hasTurn(): boolean {
    return this.#turns.length > 0
  }

  async turn(): Promise<void> {
    for (const work of this.#turns.splice(0)) work()
    await new Promise((resolve) => setImmediate(resolve)) // whoever waited for it has gone on
  }
}

const blocksPerPrompt = 2000
const prompts = Array.from({ length: 8 }, (_, at) => tokensFrom(1_000_000 * at, 4 * blocksPerPrompt))
const worker = { workerId: 1n, dpRank: 0 }

it('where many predictions have ended, lookups wait for them in turns of the loop, all for the same ones', async () => {
  const clock = new TurnClock()
  const { router } = await openScene({ useKvEvents: false, routerTtlSecs: 10 }, { clock })
  for (const tokens of prompts) await router.recordRoutingDecision(new TokensWithHashes(tokens, 4), worker)
  while (clock.hasTurn) await clock.turn()
  expect(await router.getOverlapBlocks({ tokens: prompts[7]! }, worker)).toBe(blocksPerPrompt)
  clock.time = 25_000
  let answered = 0
  const waiting = [
    router.getOverlapBlocks({ tokens: prompts[7]! }, worker),
    router.getOverlapBlocks({ tokens: prompts[0]! }, worker),
    router.findBestMatch(ask('a', { tokens: prompts[7]!, recordsDecision: true })).then(([, overlap]) => overlap),
  ].map((it) => it.finally(() => answered++))
  const blocks = prompts.length * blocksPerPrompt
  const stepsLeft = Math.ceil(blocks / stepBlocks) - 1 // the first who came took one at once
  for (let step = 1; step <= stepsLeft; step++) {
    expect(answered).toBe(0)
    await clock.turn()
  }
  expect(await Promise.all(waiting)).toEqual([0, 0, 0])
  expect(router.indexer!.stats().predicted).toMatchObject({ expiredBlocks: blocks, predictedBlocks: blocksPerPrompt })
  await router.close()
})

it('a request that is given up while it waits for ended predictions is not placed', async () => {
  const clock = new TurnClock()
  const { router } = await openScene({ useKvEvents: false, routerTtlSecs: 10 }, { clock })
  for (const tokens of prompts) await router.recordRoutingDecision(new TokensWithHashes(tokens, 4), worker)
  while (clock.hasTurn) await clock.turn()
  clock.time = 25_000
  const caller = new AbortController()
  const asked = router.findBestMatch(ask('a', { signal: caller.signal }))
  caller.abort()
  const refused = expect(asked).rejects.toMatchObject({ code: 'WR_REQUEST_CANCELLED' })
  while (clock.hasTurn) await clock.turn()
  await refused
  expect(router.activeRequestCount).toBe(0)
  await router.close()
})

it.each([
  { says: 'its engine reported', config: {} },
  { says: 'were predicted', config: { useKvEvents: false, routerTtlSecs: 1000 } },
])(
  'a worker that leaves with many blocks that $says is forgotten at once, and comes back empty',
  async ({ config }) => {
    const clock = new TurnClock()
    const { router, workers } = await openScene(config, { clock })
    const index = router.indexer!
    for (const tokens of prompts)
      if (config.useKvEvents === false) await router.recordRoutingDecision(new TokensWithHashes(tokens, 4), worker)
      else router.applyEvents([storedEvent(1n, tokens, blocksPerPrompt)])
    const blocks = prompts.length * blocksPerPrompt
    expect(index.stats().device).toMatchObject({ heldBlocks: blocks, distinctBlocks: blocks })
    workers.remove(1n)
    expect(index.stats().device).toMatchObject({ heldBlocks: 0, distinctBlocks: blocks })
    workers.set(1n, plainWorker)
    expect(await router.getOverlapBlocks({ tokens: prompts[0]! }, worker)).toBe(0)
    for (let left = index.drain(0); left > 0; ) {
      await clock.turn()
      const after = index.drain(0)
      expect(left - after).toBeGreaterThan(0)
      expect(left - after).toBeLessThan(2.1 * stepBlocks) // blocks, and as many timers where there are any
      left = after
    }
    expect([index.stats().device.distinctBlocks, clock.hasTurn]).toEqual([0, false])
    await router.close()
  },
)
