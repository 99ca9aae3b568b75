// Goal: whatever happens to streams that run beside each other, nothing stays booked with the router, and nothing is freed twice.
// Method: guards around fed streams over a living router; every step lets one stream go on, fail, be stopped, be left or move.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { InProcessRouter } from './in-process-router.js'
import { RequestGuard } from './request-guard.js'
import { plainWorker } from './router.case.js'

const kinds = ['start', 'unread', 'item', 'end', 'fail', 'stop', 'leave', 'move', 'end twice'] as const
type Step = { readonly kind: (typeof kinds)[number]; readonly which: number; readonly tokens: number }

/** A stream that the test feeds. */
class Fed implements AsyncIterable<number> {
  readonly #items: (number | 'end' | Error)[] = []
  #wake: () => void = () => {}

  push(item: number | 'end' | Error): void {
    this.#items.push(item)
    this.#wake()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<number> {
    for (;;) {
      while (this.#items.length === 0) await new Promise<void>((resolve) => (this.#wake = resolve))
      const item = this.#items.shift()!
      if (item === 'end') return
      if (item instanceof Error) throw item
      yield item
    }
  }
}

interface Running {
  readonly id: string
  readonly guard: RequestGuard
  readonly fed: Fed
  readonly stop: AbortController
  readonly read: Promise<void>
  isLeaving: boolean
}

class Scene {
  readonly running: Running[] = []
  readonly ended: Running[] = []
  readonly router: InProcessRouter
  freed = 0
  #count = 0

  constructor(router: InProcessRouter) {
    this.router = router
  }

  async start(id = `request ${this.#count++}`, isRead = true): Promise<void> {
    const tokens = Uint32Array.from({ length: 13 }, (_, at) => at + this.#count)
    await this.router.route({ requestId: id, tokens })
    const guard = new RequestGuard(
      {
        prefillDone: (it) => this.router.prefillDone(it),
        outputBlock: (it, left) => this.router.outputBlock(it, left),
        free: (it) => {
          this.freed++
          this.router.free(it)
        },
      },
      { requestId: id, isTracked: true, promptTokens: 13, blockSize: 4, tracksOutput: true, startedAtMs: 0 },
      {},
      () => 0,
    )
    guard.dispatched()
    const [fed, stop] = [new Fed(), new AbortController()]
    const one: Running = { id, guard, fed, stop, isLeaving: false, read: Promise.resolve() }
    const read = isRead ? this.#read(one) : Promise.resolve()
    this.running.push(Object.assign(one, { read }))
    if (!isRead) {
      guard.around(fed, (count) => count)
      guard.end('dropped') // by its maker: nobody iterates
    }
  }

  async #read(one: Running): Promise<void> {
    try {
      for await (const _ of one.guard.around(one.fed, (count) => count, one.stop.signal)) if (one.isLeaving) break
    } catch (error) {
      expect((error as Error).message).toBe('reset')
    }
  }

  async act({ kind, which, tokens }: Step): Promise<void> {
    if (kind === 'start') return this.start()
    if (kind === 'unread') return this.start(undefined, false)
    if (kind === 'end twice') return this.ended.forEach(({ guard }) => guard.end('failed'))
    const one = this.running[which % Math.max(1, this.running.length)]
    if (!one) return
    if (kind === 'item') return one.fed.push(tokens)
    this.running.splice(this.running.indexOf(one), 1)
    this.ended.push(one)
    if (kind === 'stop') one.stop.abort()
    one.isLeaving = kind === 'leave'
    one.fed.push(kind === 'end' ? 'end' : kind === 'stop' || kind === 'leave' ? tokens : new Error('reset'))
    await one.read
    if (kind === 'move') await this.start(one.id) // the same id is free to be booked again
  }
}

it('nothing stays booked, and nothing is freed twice, however streams run beside each other', async () => {
  const step = fc.record({ kind: fc.constantFrom(...kinds), which: fc.nat(9), tokens: fc.nat(9) })
  const router = await InProcessRouter.create({
    blockSize: 4,
    config: { useKvEvents: false, routerQueueThreshold: undefined },
    workers: [
      [1n, plainWorker],
      [2n, plainWorker],
    ],
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const scene = new Scene(router)
      for (const it of steps) {
        await scene.act(it)
        await new Promise(setImmediate)
        const held = scene.running.filter(({ guard }) => !guard.hasEnded).length
        expect(router.router.activeRequestCount).toBe(held)
      }
      while (scene.running.length > 0) await scene.act({ kind: 'end', which: 0, tokens: 0 })
      expect(scene.freed).toBe(scene.ended.length)
      for (const load of await router.loads())
        expect(load).toMatchObject({ activeRequests: 0, activePrefillTokens: 0, activeDecodeBlocks: 0 })
    }),
    { numRuns: 200 },
  )
  await router.close()
})
