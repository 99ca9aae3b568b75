import { expect, it } from 'vitest'
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
