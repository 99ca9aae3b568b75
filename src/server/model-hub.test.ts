import { expect, it } from 'vitest'
import type { Model } from './model.js'
import { awayMs, ModelHub } from './model-hub.js'
import type { WorkerSpec } from './options.js'

it('forgets names of workers that do not come back, asked for or not', () => {
  let now = 0
  const hub = new ModelHub(() => now)
  const workers = new Map<bigint, { readonly spec: WorkerSpec }>()
  const fleet = {
    all: () => workers.values(),
    get size() {
      return workers.size
    },
  }
  const model = { spec: { name: 'm' }, fleet } as unknown as Model
  hub.add(model)
  for (let id = 1n; id <= 100n; id++) {
    const spec: WorkerSpec = { id, url: 'http://a', engine: 'vllm', adapters: [`a${id}`, `b${id}`] }
    workers.set(id, { spec })
    hub.told(model, spec, undefined)
    workers.delete(id)
    hub.left(model, spec)
    now += awayMs / 2
  }
  expect(hub.nameCount).toBeLessThan(10)
  expect([hub.knows('a100'), hub.isAway('a100'), hub.knows('a1')]).toEqual([true, true, false])
})
