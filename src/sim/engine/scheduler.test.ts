import fc from 'fast-check'
import { expect, it } from 'vitest'
import { VirtualClock } from '../clock.js'
import { dynamoEngine, Engine } from './engine.js'
import type { EngineListener, EngineOptions } from './engine.js'
import { EngineRequest } from './request.js'
import type { FinishReason } from './request.js'

interface Job {
  readonly name: number
  tokens: number
  end: FinishReason | undefined
}

/** What an index that hears the events would hold: copies by key. */
class Heard implements EngineListener<Job> {
  readonly copies = new Map<number, number>()
  readonly ends: string[] = []
  readonly cached: number[] = []
  stored(request: EngineRequest<Job>, from: number, to: number): void {
    for (let index = from; index < to; index++) {
      const key = request.content.keyAt(index)
      this.copies.set(key, (this.copies.get(key) ?? 0) + 1)
    }
  }
  removed(key: number): void {
    const left = (this.copies.get(key) ?? 0) - 1
    expect(left).toBeGreaterThanOrEqual(0)
    if (left === 0) this.copies.delete(key)
    else this.copies.set(key, left)
  }
  hostStored(): void {}
  hostRemoved(): void {}
  admitted(request: EngineRequest<Job>): void {
    this.cached[request.tag.name] = request.cachedTokens
  }
  computed(): void {}
  token(request: EngineRequest<Job>): boolean {
    request.tag.tokens++
    return false
  }
  finished(request: EngineRequest<Job>, reason: FinishReason): void {
    request.tag.end = reason
    this.ends.push(`${request.tag.name} ${reason}`)
  }
}

interface Asked {
  readonly at: number
  readonly prompt: number
  readonly output: number
  readonly root: number
  readonly abortAfter?: number | undefined
  readonly skipsCacheRead?: boolean
}

function run(asked: readonly Asked[], options: Partial<EngineOptions>) {
  const clock = new VirtualClock()
  const heard = new Heard()
  const engine = new Engine<Job>(
    { ...dynamoEngine, blockTokens: 4, blocks: 20, batchedTokensMax: 16, ...options },
    clock,
    heard,
  )
  const jobs = asked.map((it, name): Job => {
    const job: Job = { name, tokens: 0, end: undefined }
    const request = new EngineRequest(
      job,
      {
        promptTokens: it.prompt,
        outputTokensMax: it.output,
        // Prompts of one root share every full block; what is generated is each request's own.
        content: {
          keyAt: (index) => ((index + 1) * 4 <= it.prompt ? it.root * 100 + index : 10_000 + name * 100 + index),
        },
        ...(it.skipsCacheRead === undefined ? {} : { skipsCacheRead: it.skipsCacheRead }),
      },
      4,
    )
    clock.at(it.at, () => engine.submit(request))
    if (it.abortAfter !== undefined) clock.at(it.at + it.abortAfter, () => engine.abort(request))
    return job
  })
  clock.run()
  return { engine, heard, jobs, clock }
}

const workload = fc.array(
  fc.record({
    at: fc.nat(300),
    prompt: fc.integer({ min: 1, max: 60 }),
    output: fc.integer({ min: 1, max: 30 }),
    root: fc.nat(3),
    abortAfter: fc.option(fc.nat(200), { nil: undefined }),
    skipsCacheRead: fc.boolean(),
  }),
  { maxLength: 25 },
)

const blockCaches = fc.record({
  copies: fc.constantFrom('each' as const, 'first-and-last' as const, 'merge' as const),
  emptied: fc.constantFrom('head' as const, 'tail' as const),
  evicts: fc.constant('block' as const),
})
const treeCache = fc.constant({ copies: 'merge', emptied: 'head', evicts: 'node' } as const)

const scheduling = fc.record({
  visible: fc.constantFrom('scheduled' as const, 'computed' as const),
  preemption: fc.constantFrom('lifo' as const, 'fifo' as const),
  isChunkedPrefill: fc.boolean(),
  watermark: fc.constantFrom(0, 0.1),
  hostBlocks: fc.constantFrom(0, 7),
  blocks: fc.integer({ min: 6, max: 40 }),
})
const settings = fc.tuple(fc.oneof(blockCaches, treeCache), scheduling).map(([cache, rest]) => ({ ...cache, ...rest }))

it('ends every request, frees every block, and says what is cached, whatever arrives', () => {
  fc.assert(
    fc.property(workload, settings, (asked, options) => {
      const { engine, heard, jobs } = run(asked, options)
      const { pool } = engine.scheduler
      expect(pool.activeCount).toBe(0)
      expect(engine.scheduler.runningCount + engine.scheduler.waitingCount).toBe(0)
      jobs.forEach((job, index) => {
        const { prompt, output, abortAfter } = asked[index]!
        expect(job.end).toBeDefined()
        if (job.end === 'rejected') expect(Math.ceil(prompt / 4)).toBeGreaterThan(options.blocks)
        else if (job.end === 'abort') expect(abortAfter).toBeDefined()
        // A request that outgrew the whole memory ends early; otherwise it gets what it asked for.
        else if (Math.ceil((prompt + output) / 4) <= options.blocks) expect(job.tokens).toBe(output)
      })
      expect(heard.ends).toHaveLength(jobs.length)
      const resident = pool.cachedKeys()
      const announced = options.copies === 'each' ? resident : new Map([...resident.keys()].map((key) => [key, 1]))
      expect(heard.copies).toEqual(announced)
    }),
    { numRuns: Number(process.env['FUZZ_RUNS'] ?? 400) },
  )
})

it('never evicts a block in use, also when it was merged into the middle of a node that another request stored', () => {
  const tree = { copies: 'merge', visible: 'computed', evicts: 'node', blocks: 6, batchedTokensMax: 64 } as const
  const { jobs } = run(
    [
      { at: 0, prompt: 8, output: 1, root: 1 },
      { at: 0, prompt: 4, output: 8, root: 1 },
      { at: 0.1, prompt: 8, output: 4, root: 2 },
    ],
    tree,
  )
  expect(jobs.map(({ tokens }) => tokens)).toEqual([1, 8, 4])
})

it('hits every full block but recomputes the last one of a prompt that it has in full', () => {
  const { heard } = run(
    [
      { at: 0, prompt: 12, output: 1, root: 1 },
      { at: 100, prompt: 12, output: 1, root: 1 },
      { at: 200, prompt: 13, output: 1, root: 1 },
    ],
    {},
  )
  expect(heard.cached).toEqual([0, 8, 12])
})

it.each([
  { visible: 'scheduled' as const, cached: [0, 8] },
  { visible: 'computed' as const, cached: [0, 0] },
])(
  'lets a later request of the same pass hit blocks only when they are visible once $visible',
  ({ visible, cached }) => {
    const same = { at: 0, prompt: 10, output: 1, root: 1 }
    expect(run([same, same], { visible, batchedTokensMax: 64 }).heard.cached).toEqual(cached)
  },
)

it('stores the last block again when a prompt of whole blocks is repeated, where each copy counts', () => {
  const same = { prompt: 8, output: 1, root: 1 }
  const { heard } = run(
    [
      { at: 0, ...same },
      { at: 100, ...same },
    ],
    { copies: 'each' },
  )
  expect([...heard.copies]).toEqual([
    [100, 1],
    [101, 2],
  ])
})

it.each([
  { preemption: 'lifo' as const, victim: 1 },
  { preemption: 'fifo' as const, victim: 0 },
])('preempts by $preemption when memory runs out, and both still finish', ({ preemption, victim }) => {
  const { engine, heard, jobs } = run(
    [
      { at: 0, prompt: 8, output: 30, root: 1 },
      { at: 1, prompt: 8, output: 30, root: 2 },
    ],
    { blocks: 12, preemption },
  )
  expect(engine.scheduler.preemptionCount).toBeGreaterThan(0)
  expect(jobs.map(({ tokens }) => tokens)).toEqual([30, 30])
  expect(heard.ends.at(-1)).toBe(`${victim} length`)
})

it('keeps a share of memory free at admission when there is a watermark', () => {
  const asked = [0, 1].map((root) => ({ at: 0, prompt: 16, output: 2, root }))
  const together = run(asked, { blocks: 12, batchedTokensMax: 64 })
  const apart = run(asked, { blocks: 12, batchedTokensMax: 64, watermark: 0.5 })
  expect(apart.engine.passCount).toBeGreaterThan(together.engine.passCount)
})

it('brings blocks back from the host tier and counts them as cached', () => {
  const { heard } = run(
    [
      { at: 0, prompt: 20, output: 1, root: 1 },
      { at: 100, prompt: 28, output: 1, root: 2 },
      { at: 200, prompt: 21, output: 1, root: 1 },
    ],
    { blocks: 8, hostBlocks: 20 },
  )
  expect(heard.cached).toEqual([0, 0, 20])
})

it('holds the blocks of a request that keeps them until they are released', () => {
  const clock = new VirtualClock()
  const engine = new Engine<Job>({ ...dynamoEngine, blockTokens: 4, blocks: 4 }, clock, new Heard())
  const job = { name: 0, tokens: 0, end: undefined }
  const request = new EngineRequest<Job>(
    job,
    { promptTokens: 8, outputTokensMax: 1, content: { keyAt: (index) => index }, keepsBlocks: true },
    4,
  )
  engine.submit(request)
  clock.run()
  expect(engine.scheduler.pool.activeCount).toBe(2)
  engine.release(request)
  expect(engine.scheduler.pool.activeCount).toBe(0)
})
