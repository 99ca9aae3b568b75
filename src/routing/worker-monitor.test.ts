import { afterEach, describe, expect, it } from 'vitest'
import type { ActiveLoad, WorkerCapacity } from '../core/load/index.js'
import type { Watched, WorkerMonitorOptions, WorkerMonitorPorts } from './worker-monitor.js'
import { WorkerMonitor } from './worker-monitor.js'

class Value<T> implements Watched<T> {
  readonly #watchers = new Set<{ onChange: () => void; onClosed: (() => void) | undefined }>()
  #value: T

  constructor(value: T) {
    this.#value = value
  }

  get watchers(): number {
    return this.#watchers.size
  }

  current(): T {
    return this.#value
  }

  set(value: T): void {
    this.#value = value
    for (const watcher of this.#watchers) watcher.onChange()
  }

  close(): void {
    for (const watcher of this.#watchers) watcher.onClosed?.()
    this.#watchers.clear()
  }

  watch(onChange: () => void, onClosed?: () => void): () => void {
    const watcher = { onChange, onClosed }
    this.#watchers.add(watcher)
    return () => void this.#watchers.delete(watcher)
  }
}

/** A stream that the test feeds, ends or breaks; `opened` counts how often it was asked for. */
class Loads {
  opened = 0
  #push: ((step: ActiveLoad | 'end' | Error) => void) | undefined

  readonly open = async function* (this: Loads, signal: AbortSignal): AsyncGenerator<ActiveLoad> {
    this.opened++
    while (true) {
      const step = await new Promise<ActiveLoad | 'end' | Error>((resolve) => {
        const end = (): void => resolve('end')
        signal.addEventListener('abort', end, { once: true })
        this.#push = (it) => {
          signal.removeEventListener('abort', end)
          resolve(it)
        }
      })
      if (step === 'end') return
      if (step instanceof Error) throw step
      yield step
    }
  }.bind(this)

  async send(step: ActiveLoad | 'end' | Error): Promise<void> {
    this.#push?.(step)
    await settled()
  }
}

/** Lets every promise that can go on do so. */
async function settled(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve()
}

const one: WorkerCapacity = { dataParallelStartRank: 0, dataParallelSize: 1, totalKvBlocks: 100 }
const open: WorkerMonitor[] = []

afterEach(async () => {
  for (const monitor of open.splice(0)) await monitor.close()
})

interface Scene {
  readonly monitor: WorkerMonitor
  readonly fleet: Value<ReadonlyMap<bigint, WorkerCapacity>>
  readonly instances: Value<ReadonlySet<bigint>>
  readonly loads: Loads
  readonly removed: string[]
  readonly busy: string[]
}

function scene(options: WorkerMonitorOptions = {}, change: Partial<WorkerMonitorPorts> = {}): Scene {
  const fleet = new Value<ReadonlyMap<bigint, WorkerCapacity>>(
    new Map([
      [1n, one],
      [2n, one],
    ]),
  )
  const instances = new Value<ReadonlySet<bigint>>(new Set([1n, 2n]))
  const loads = new Loads()
  const removed: string[] = []
  const busy: string[] = []
  const monitor = new WorkerMonitor(
    {
      openFleet: () => Promise.resolve(fleet),
      openLoads: loads.open,
      instances,
      removeGauges: (worker, ranks, type) => void removed.push(`${worker}/${ranks.join('+')} ${type}`),
      warn: () => {},
      pause: () => Promise.resolve(),
      ...change,
    },
    { thresholds: { activePrefillTokensThreshold: 100 }, ...options },
  )
  monitor.onBusy((set) => busy.push([...set].join(' ')))
  open.push(monitor)
  return { monitor, fleet, instances, loads, removed, busy }
}

const tokens = (workerId: bigint, activePrefillTokens: number, dpRank = 0): ActiveLoad => ({
  workerId,
  dpRank,
  activePrefillTokens,
})

describe('the busy set', () => {
  it('is told at once, then only when it changes', async () => {
    const { monitor, loads, busy } = scene()
    await monitor.start()
    for (const load of [tokens(1n, 101), tokens(1n, 150), tokens(2n, 101), tokens(1n, 100)]) await loads.send(load)
    expect(busy).toEqual(['', '1', '1 2', '2'])
  })

  it('follows a threshold change at once', async () => {
    const { monitor, loads, busy } = scene()
    await monitor.start()
    await loads.send(tokens(1n, 90))
    monitor.setThresholds({ activePrefillTokensThreshold: 50 })
    expect(busy).toEqual(['', '1'])
  })

  it('survives a refresh of the fleet, and loses a removed worker at once', async () => {
    const { monitor, loads, fleet, busy } = scene()
    await monitor.start()
    await loads.send(tokens(1n, 101))
    fleet.set(
      new Map([
        [1n, one],
        [2n, one],
      ]),
    )
    expect(busy).toEqual(['', '1'])
    fleet.set(new Map([[2n, one]]))
    expect(busy).toEqual(['', '1', ''])
  })

  it('leaves out busy workers one by one, or only gates when everyone is busy', async () => {
    for (const [isAllOrNothing, excluded] of [
      [false, [1n]],
      [true, []],
    ] as const) {
      const { monitor, loads } = scene({ isAllOrNothing })
      await monitor.start()
      await loads.send(tokens(1n, 101))
      expect([...monitor.excludedWorkers()]).toEqual(excluded)
      expect(monitor.isEveryoneBusy()).toBe(false)
      await loads.send(tokens(2n, 101))
      expect(monitor.isEveryoneBusy()).toBe(true)
    }
  })

  it('does not call an empty fleet busy', () => {
    expect(scene({}, { instances: new Value(new Set<bigint>()) }).monitor.isEveryoneBusy()).toBe(false)
  })
})

describe('the loop', () => {
  it('starts once, however many share it', async () => {
    const { monitor, loads } = scene()
    await Promise.all([monitor.start(), monitor.start()])
    await settled()
    expect(loads.opened).toBe(1)
  })

  it('can be started again after the fleet could not be watched', async () => {
    let tries = 0
    const fleet = new Value<ReadonlyMap<bigint, WorkerCapacity>>(new Map([[1n, one]]))
    const openFleet = (): Promise<typeof fleet> =>
      tries++ === 0 ? Promise.reject(new Error('no discovery')) : Promise.resolve(fleet)
    const { monitor, loads, busy } = scene({}, { openFleet })
    await expect(monitor.start()).rejects.toThrow('no discovery')
    await monitor.start()
    await settled()
    await loads.send(tokens(1n, 101))
    expect(busy.at(-1)).toBe('1')
  })

  it('works without a stream of loads: reports come directly, and gauges still end', async () => {
    const { monitor, fleet, removed, busy } = scene({}, { openLoads: undefined })
    await monitor.start()
    monitor.report(tokens(1n, 101))
    expect(busy.at(-1)).toBe('1')
    fleet.set(new Map())
    expect(removed).toContain('1/0 decode')
  })

  it.each([
    ['ended', 'end' as const],
    ['failed', new Error('connection lost')],
  ])('opens a stream again that %s, and goes on', async (_says, step) => {
    const { monitor, loads, busy } = scene()
    await monitor.start()
    await settled()
    await loads.send(step)
    expect([loads.opened, monitor.resubscriptions]).toEqual([2, 1])
    await loads.send(tokens(2n, 101))
    expect(busy.at(-1)).toBe('2')
  })

  it('waits longer from one try to the next, up to 5 s, and as at first after a report', async () => {
    const waits: number[] = []
    const pause = (ms: number): Promise<void> => Promise.resolve(void waits.push(ms))
    const { monitor, loads } = scene({}, { pause })
    await monitor.start()
    await settled()
    for (let turn = 0; turn < 8; turn++) await loads.send('end')
    expect(waits).toEqual([100, 200, 400, 800, 1600, 3200, 5000, 5000])
    await loads.send(tokens(1n, 5))
    await loads.send('end')
    expect(waits.at(-1)).toBe(100)
  })

  it('leaves nothing running when closed while the fleet is being opened', async () => {
    let open = (): void => {}
    const fleet = new Value<ReadonlyMap<bigint, WorkerCapacity>>(new Map([[1n, one]]))
    const openFleet = (): Promise<typeof fleet> => new Promise((resolve) => (open = () => resolve(fleet)))
    const { monitor, instances, loads } = scene({}, { openFleet })
    const starting = monitor.start()
    const closing = monitor.close()
    open()
    await Promise.all([starting, closing])
    expect([fleet.watchers, instances.watchers, loads.opened]).toEqual([0, 0, 0])
  })

  it('a fleet that breaks after it was opened is a warning, and monitoring may be started again', async () => {
    const warnings: string[] = []
    const fleet = new Value<ReadonlyMap<bigint, WorkerCapacity>>(new Map([[1n, one]]))
    let isBroken = true
    const watched: typeof fleet = Object.create(fleet, {
      current: {
        value: () => {
          if (isBroken) throw new Error('broken')
          return fleet.current()
        },
      },
      watch: { value: fleet.watch.bind(fleet) },
    }) as typeof fleet
    const warn = (_fields: object, sentence: string): void => void warnings.push(sentence)
    const { monitor, loads } = scene({}, { openFleet: () => Promise.resolve(watched), warn })
    await monitor.start()
    await settled()
    expect([warnings, loads.opened]).toEqual([['monitoring of workers failed'], 0])
    isBroken = false
    await monitor.start()
    await settled()
    expect(loads.opened).toBe(1)
  })

  it('leaves nothing running when closed', async () => {
    const { monitor, fleet, instances, loads } = scene()
    await monitor.start()
    await settled()
    await monitor.close()
    expect([fleet.watchers, instances.watchers, loads.opened]).toEqual([0, 0, 1])
  })
})

describe('gauges', () => {
  it('end for both roles when a worker leaves the fleet, for every rank it was known by', async () => {
    const { monitor, loads, fleet, removed } = scene()
    await monitor.start()
    await loads.send(tokens(1n, 5, 3))
    fleet.set(new Map([[2n, one]]))
    expect(removed).toEqual(['1/0+3 decode', '1/0+3 prefill'])
  })

  it('end for the decode role when an instance leaves, rank 0 standing in for unknown ones', async () => {
    const { monitor, instances, removed } = scene()
    await monitor.start()
    instances.set(new Set([1n, 2n, 9n]))
    instances.set(new Set([2n]))
    expect(removed).toEqual(['1/0 decode', '9/0 decode'])
  })

  it('end for the prefill role once its instances are watched, and a closed watch is armed again', async () => {
    const { monitor, removed } = scene()
    await monitor.start()
    const first = new Value<ReadonlySet<bigint>>(new Set([5n]))
    monitor.setPrefillInstances(first)
    first.set(new Set())
    expect(removed).toEqual(['5/0 prefill'])
    const ignored = new Value<ReadonlySet<bigint>>(new Set([6n]))
    monitor.setPrefillInstances(ignored)
    expect(ignored.watchers).toBe(0)
    first.close()
    const second = new Value<ReadonlySet<bigint>>(new Set([7n]))
    monitor.setPrefillInstances(second)
    second.set(new Set())
    expect(removed).toEqual(['5/0 prefill', '7/0 prefill'])
  })
})
