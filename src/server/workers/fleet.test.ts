import { expect, it, vi } from 'vitest'
import { WarmrouteError } from '../../core/protocol/index.js'
import { defaultDeadlines, defaultHealth } from '../options.js'
import { Fleet } from './fleet.js'

function newFleet(): { readonly fleet: Fleet; readonly routed: Set<bigint> } {
  const routed = new Set<bigint>()
  const router = {
    setWorker: (id: bigint) => void routed.add(id),
    removeWorker: (id: bigint) => void routed.delete(id),
  }
  const log = { debug() {}, info() {}, warn() {} }
  const options = { model: 'sim', router, deadlines: defaultDeadlines, health: defaultHealth, log, now: () => 0 }
  return { fleet: new Fleet(options), routed }
}

it('keeps a worker that took over the id of one that still drains', async () => {
  const { fleet, routed } = newFleet()
  const old = fleet.set({ id: 1n, url: 'http://127.0.0.1:1', engine: 'vllm' })
  old.enter()
  const drained = fleet.drain(1n)
  const young = fleet.set({ id: 1n, url: 'http://127.0.0.1:2', engine: 'vllm' })
  old.leave() // its last request ends after it has gone
  await drained
  expect(fleet.get(1n)).toBe(young)
  expect(young.state).toBe('ready')
  expect([...routed]).toEqual([1n])
  fleet.close()
})

it('asks a worker that failed ever more rarely, up to a limit, until it answers', async () => {
  vi.useFakeTimers()
  try {
    const { fleet } = newFleet()
    const worker = fleet.set({ id: 1n, url: 'http://127.0.0.1:1', engine: 'vllm' })
    const askedAtMs: number[] = []
    const startMs = Date.now()
    vi.spyOn(fleet, 'probe').mockImplementation(() => {
      askedAtMs.push(Date.now() - startMs)
      return Promise.resolve(askedAtMs.length === 8)
    })
    const fault = new WarmrouteError('WR_ENGINE_UNREACHABLE', {})
    fleet.fault(worker, fault)
    fleet.fault(worker, fault) // another request found out as well: it is not asked twice
    await vi.advanceTimersByTimeAsync(200_000)
    const seconds = [1, 3, 7, 15, 31, 61, 91, 121]
    expect(askedAtMs).toEqual(seconds.map((second) => 1_000 * second))
    expect([worker.isQuarantined, worker.faults]).toEqual([false, 2])
    fleet.close()
  } finally {
    vi.useRealTimers()
  }
})
