import { getEventListeners } from 'node:events'
import { expect, it, vi } from 'vitest'
import type { RouterPort } from '../../routing/index.js'
import { defaultDeadlines, defaultHealth } from '../options.js'
import type { PrefillPool, WorkerSpec } from '../options.js'
import { createPolicyRouter } from '../policies/policy-router.js'
import { Fleet } from '../workers/fleet.js'
import { PrefillSide } from './prefill-side.js'

const log = { debug() {}, info() {}, warn() {} }
const common = { deadlines: defaultDeadlines, health: defaultHealth, log, now: () => 0 }

function spec(id: bigint, blockSize: number): WorkerSpec {
  return { id, url: 'http://127.0.0.1:1', engine: 'vllm', role: 'prefill', blockSize }
}

it('a router that stands only after another pool took its place is closed, and is told of nobody', async () => {
  const making = new Map<number, (router: RouterPort) => void>()
  const told: bigint[] = []
  const closed: RouterPort[] = []
  const newRouter = (isWatched = false): RouterPort => {
    const router = createPolicyRouter({ policy: 'round-robin' })
    const setWorker = router.setWorker.bind(router)
    router.setWorker = (id, config) => {
      if (isWatched) told.push(id)
      setWorker(id, config)
    }
    return router
  }
  const main = newRouter()
  const side = new PrefillSide({
    ...common,
    model: 'm',
    blockSize: 16,
    decodeFleet: new Fleet({ ...common, model: 'm', router: main }),
    fleet: common,
    disagg: {
      enforce: true,
      openPrefill: ({ blockSize }: PrefillPool) => new Promise((resolve) => making.set(blockSize, resolve)),
      closePrefill: (router) => (closed.push(router), Promise.resolve()),
    },
  })
  side.setWorker(spec(1n, 16))
  await turn()
  side.fleet.remove(1n)
  side.setWorker(spec(2n, 32))
  await turn()
  const [late, standing] = [newRouter(true), newRouter()]
  making.get(32)!(standing)
  await turn()
  making.get(16)!(late)
  await turn()
  expect([told, closed]).toEqual([[], [late]])
  const route = side.route()
  expect(route.kind === 'remote' && route.inner).toBe(standing)
  side.setWorker(spec(3n, 32))
  expect((await standing.loads()).map(({ workerId }) => workerId)).toEqual([2n, 3n])
  await side.close()
})

it('a router that cannot be made is tried again and again, and no try leaves a listener behind', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    const listeners: number[] = []
    const main = createPolicyRouter({ policy: 'round-robin' })
    const side = new PrefillSide({
      ...common,
      model: 'm',
      blockSize: 16,
      decodeFleet: new Fleet({ ...common, model: 'm', router: main }),
      fleet: common,
      disagg: {
        enforce: true,
        openPrefill: (_pool, signal) => {
          listeners.push(getEventListeners(signal, 'abort').length)
          return Promise.reject(new Error('not yet'))
        },
      },
    })
    side.setWorker(spec(1n, 16))
    for (let at = 0; at < 5; at++) await vi.advanceTimersByTimeAsync(60_000)
    expect(listeners.length).toBeGreaterThan(4)
    expect(new Set(listeners)).toEqual(new Set([0]))
    await side.close()
  } finally {
    vi.useRealTimers()
  }
})

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
