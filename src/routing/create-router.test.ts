import { afterEach, expect, it } from 'vitest'
import type { Router } from './create-router.js'
import { createRouter, departedNamesMax } from './create-router.js'

const open: Router[] = []

afterEach(async () => {
  for (const router of open.splice(0)) await router.close()
})

async function routerOf(...workers: string[]): Promise<Router> {
  const router = await createRouter({ blockSize: 4, workers })
  open.push(router)
  return router
}

const prompt = (first: number, length = 64): Uint32Array => Uint32Array.from({ length }, (_, i) => first + i)

it('sends a conversation back to the worker that has its cache', async () => {
  const router = await routerOf('a', 'b', 'c')
  const first = await router.route({ tokens: prompt(1) })
  first.prefillDone()
  first.free()
  const second = await router.route({ tokens: prompt(1, 96) })
  expect(second.worker).toBe(first.worker)
  expect(second.cachedTokens).toBe(64)
  second.free()
})

it('spreads prompts that share nothing, as long as they run', async () => {
  const router = await routerOf('a', 'b', 'c')
  const placements = await Promise.all([1000, 2000, 3000].map((first) => router.route({ tokens: prompt(first) })))
  expect(new Set(placements.map((it) => it.worker)).size).toBe(3)
  for (const placement of placements) placement.free()
})

it('knows workers by name as they come and go', async () => {
  const router = await routerOf('a')
  router.setWorker('b', { totalKvBlocks: 100 })
  router.removeWorker('a')
  router.removeWorker('nobody')
  expect((await router.route({ tokens: prompt(1) })).worker).toBe('b')
  await expect(router.route({ tokens: prompt(1), allowedWorkers: ['a'] })).rejects.toMatchObject({
    code: 'WR_NO_ENDPOINTS',
  })
})

it('a worker that returns keeps its number, and names of workers that left long ago are forgotten', async () => {
  const router = await routerOf('a')
  const id = router.workerId('a')
  router.removeWorker('a')
  router.setWorker('a')
  expect(router.workerId('a')).toBe(id)
  router.removeWorker('a')
  expect(() => router.setWorker('bad', { dataParallelSize: -1 })).toThrow(/dataParallelSize/)
  expect(router.workerId('bad')).toBeUndefined()
  const last = departedNamesMax - 1
  for (let at = 0; at <= last; at++) {
    router.setWorker(`w${at}`)
    router.removeWorker(`w${at}`)
  }
  expect([router.workerId('a'), router.workerId('w0') === undefined]).toEqual([undefined, false])
  router.setWorker('a')
  expect(router.workerId('a')).toBeGreaterThan(router.workerId(`w${last}`)!)
})

it('leaves out the workers that failed a request', async () => {
  const router = await routerOf('a', 'b')
  const placement = await router.route({ tokens: prompt(1), excludedWorkers: ['a'] })
  expect(placement.worker).toBe('b')
})

it('frees once, and ignores what comes after', async () => {
  const router = await routerOf('a')
  const costOfAnother = async (): Promise<number> => {
    const another = await router.route({ tokens: prompt(1000), wantReceipt: true })
    another.free()
    return another.receipt!.chosen.cost
  }
  await costOfAnother() // from now on its blocks are cached
  const idle = await costOfAnother()
  const placement = await router.route({ tokens: prompt(1) })
  expect(await costOfAnother()).toBeGreaterThan(idle)
  for (let i = 0; i < 3; i++) placement.free()
  placement.prefillDone()
  placement.outputBlock()
  expect(await costOfAnother()).toBe(idle)
})

it('explains itself when asked', async () => {
  const router = await routerOf('a', 'b')
  const { receipt } = await router.route({ tokens: prompt(1), wantReceipt: true })
  expect(receipt?.candidates).toHaveLength(2)
})

it('explains itself by the names of the workers, as plain JSON', async () => {
  const router = await routerOf('a', 'b', 'c')
  const { worker, receipt } = await router.route({ tokens: prompt(1), excludedWorkers: ['c'], wantReceipt: true })
  const told = JSON.parse(JSON.stringify(receipt)) as typeof receipt
  expect(told).toEqual({ ...receipt })
  expect([told!.chosen.worker, told!.runnerUp!.worker].toSorted()).toEqual(['a', 'b'])
  expect(told!.chosen.worker).toBe(worker)
  expect(told!.candidates.map((it) => it.worker)).toEqual(['a', 'b'])
  expect(told!.exclusions).toEqual([{ worker: 'c', dpRank: 0, reason: 'excluded' }])
})

it.each([undefined, null, 'abc', [1, 2, 3]])('refuses a prompt that is no Uint32Array: %j', async (tokens) => {
  const router = await routerOf('a')
  await expect(router.route({ tokens: tokens as never })).rejects.toMatchObject({ code: 'WR_INVALID_ARGUMENT' })
})

it('takes no worker after its end', async () => {
  const router = await routerOf('a')
  await router.close()
  expect(() => router.setWorker('b')).toThrow(expect.objectContaining({ code: 'WR_ROUTER_CLOSED' }))
})
