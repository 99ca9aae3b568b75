import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { GuardedRequest, GuardHooks } from './request-guard.js'
import { RequestGuard } from './request-guard.js'

interface Scene {
  readonly guard: RequestGuard
  readonly calls: string[]
  readonly clock: { now: number }
}

/** A guard whose every effect is written down, in order. */
function scene(change: Partial<GuardedRequest> = {}, hooks: GuardHooks = {}): Scene {
  const calls: string[] = []
  const clock = { now: 100 }
  const guard = new RequestGuard(
    {
      prefillDone: (id) => void calls.push(`prefillDone ${id}`),
      outputBlock: (id, left) => void calls.push(`outputBlock ${id} ${left}`),
      free: (id) => void calls.push(`free ${id}`),
    },
    { requestId: 'r', isTracked: true, promptTokens: 30, blockSize: 16, tracksOutput: true, startedAtMs: 0, ...change },
    {
      onFinish: (summary) => void calls.push(`finish ${summary.end} ${summary.outputTokens}`),
      closeSession: () => void calls.push('closeSession'),
      ...hooks,
    },
    () => clock.now,
  )
  return { guard, calls, clock }
}

async function* items(counts: readonly number[], error?: Error): AsyncGenerator<number> {
  for (const count of counts) yield await Promise.resolve(count)
  if (error) throw error
}

const itself = (count: number): number => count

describe('the way of a request', () => {
  it('marks the prefill at the first token, not at the first item', () => {
    const { guard, calls } = scene()
    guard.dispatched()
    guard.item(0)
    expect(calls).toEqual([])
    guard.item(1)
    guard.item(1)
    expect(calls).toEqual(['prefillDone r'])
  })

  it('tracks a block of output when the total grows, once however many filled, with what is left of its life', () => {
    const { guard, calls } = scene({ expectedOutputTokens: 100 })
    guard.item(2) // 32 tokens: two full blocks, as many as the prompt began
    guard.item(1)
    guard.item(40)
    expect(calls).toEqual(['prefillDone r', 'outputBlock r 0.97', 'outputBlock r 0.5700000000000001'])
  })

  it('gives no fraction without an expectation, and never one below zero', () => {
    const unknown = scene()
    unknown.guard.item(3)
    expect(unknown.calls.at(-1)).toBe('outputBlock r undefined')
    const over = scene({ expectedOutputTokens: 0 })
    over.guard.item(3)
    expect(over.calls.at(-1)).toBe('outputBlock r 0')
  })

  it('tells its metrics first token, gaps and summary', () => {
    const told: unknown[] = []
    const { guard, clock } = scene(
      { tracksOutput: true },
      {
        onFirstItem: (ms) => told.push(['item', ms]),
        onFirstToken: (ms) => told.push(['token', ms]),
        onOutputBlock: (ms) => told.push(['gap', ms]),
        onFinish: (summary) => told.push(summary),
      },
    )
    guard.dispatched()
    guard.item(0)
    clock.now = 150
    guard.item(1)
    clock.now = 250
    guard.item(2)
    clock.now = 300
    guard.end('completed')
    expect(told).toEqual([
      ['item', 100],
      ['token', 150],
      ['gap', 50],
      { end: 'completed', outputTokens: 3, durationMs: 300, firstTokenMs: 150, meanGapMs: 50 },
    ])
  })

  it('tells no gap of an answer that came whole', () => {
    const told: unknown[] = []
    const { guard, clock } = scene(
      { tracksOutput: true },
      { onOutputBlock: (ms) => told.push(['gap', ms]), onFinish: ({ meanGapMs }) => told.push(meanGapMs) },
    )
    guard.dispatched()
    clock.now = 250
    guard.item(40)
    guard.end('completed')
    expect(told).toEqual([undefined])
  })

  it('tells no first token of an answer that comes whole, and ends its prefill all the same', () => {
    const told: unknown[] = []
    const { guard, clock, calls } = scene(
      { isWhole: true },
      { onFirstToken: (ms) => told.push(ms), onFinish: ({ firstTokenMs }) => told.push(firstTokenMs) },
    )
    guard.dispatched()
    clock.now = 250
    guard.item(40)
    guard.end('completed')
    expect(told).toEqual([undefined])
    expect([calls[0], calls.at(-2)]).toEqual(['prefillDone r', 'free r'])
  })

  it('keeps metrics but touches no booking when nothing was booked', () => {
    const { guard, calls } = scene({ isTracked: false })
    guard.dispatched()
    guard.item(40)
    guard.end('completed')
    expect(calls).toEqual(['finish completed 40', 'closeSession'])
  })

  it('frees even when a metrics hook throws', () => {
    const { guard, calls } = scene(
      {},
      {
        onFinish: () => {
          throw new Error('hook')
        },
      },
    )
    guard.dispatched()
    expect(() => guard.end('completed')).toThrow('hook')
    expect(calls).toEqual(['free r', 'closeSession'])
  })
})

describe('every exit frees once, then closes the session', () => {
  const ends: [string, (it: Scene) => void | Promise<void>, string[]][] = [
    [
      'session-open or dispatch error: no request is counted',
      ({ guard }) => guard.end('failed'),
      ['free r', 'closeSession'],
    ],
    [
      'stop before the first token',
      async ({ guard }) => {
        guard.dispatched()
        const abort = new AbortController()
        abort.abort()
        for await (const _ of guard.around(items([1]), itself, abort.signal)) throw new Error('an item after the stop')
      },
      ['finish stopped 0', 'free r', 'closeSession'],
    ],
    [
      'mid-stream error',
      async ({ guard, calls }) => {
        guard.dispatched()
        const stream = guard.around(items([1], new Error('reset')), itself)
        await stream.next()
        await stream.next().catch((error: Error) => calls.push(`sees ${error.message}`))
      },
      ['prefillDone r', 'finish failed 1', 'free r', 'closeSession', 'sees reset'],
    ],
    [
      'client gone',
      async ({ guard }) => {
        guard.dispatched()
        for await (const _ of guard.around(items([1, 1]), itself)) break
      },
      ['prefillDone r', 'finish dropped 1', 'free r', 'closeSession'],
    ],
    [
      'never-iterated stream, ended by its maker',
      ({ guard }) => {
        guard.dispatched()
        guard.around(items([1]), itself)
        guard.end('dropped')
      },
      ['finish dropped 0', 'free r', 'closeSession'],
    ],
    [
      'plain end, then everybody ends it again',
      async ({ guard }) => {
        guard.dispatched()
        for await (const _ of guard.around(items([1]), itself));
        for (const end of ['failed', 'stopped', 'dropped'] as const) guard.end(end)
        guard.item(5)
      },
      ['prefillDone r', 'finish completed 1', 'free r', 'closeSession'],
    ],
  ]
  it.each(ends)('%s', async (_says, drive, expected) => {
    const it = scene()
    await drive(it)
    expect(it.calls).toEqual(expected)
  })
})

it('migration: the failed try is freed before its error is seen, so the same id can be booked again', async () => {
  const booked = new Set<string>()
  const book = (): RequestGuard => {
    if (booked.has('r')) throw new Error('duplicate booking')
    booked.add('r')
    return new RequestGuard(
      { prefillDone: () => {}, outputBlock: () => {}, free: (id) => void booked.delete(id) },
      { requestId: 'r', isTracked: true, promptTokens: 1, blockSize: 1, tracksOutput: false, startedAtMs: 0 },
      {},
      () => 0,
    )
  }
  const first = book().around(items([1], new Error('worker died')), itself)
  await first.next()
  await first.next().catch(() => book().end('completed'))
  await first.return(undefined)
  expect(booked.size).toBe(0)
})

// Goal: no interleaving of stream events, aborts and errors leaves a booking, or frees one twice.
it('always ends with every booking freed exactly once', async () => {
  const ending = fc.constantFrom('end', 'error', 'leave', 'abort', 'never', 'end twice')
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.nat(40), { maxLength: 12 }),
      ending,
      fc.nat(12),
      fc.boolean(),
      async (counts, how, at, dispatched) => {
        const { guard, calls } = scene({ expectedOutputTokens: 50 })
        if (dispatched) guard.dispatched()
        const abort = new AbortController()
        const stream = guard.around(
          items(counts, how === 'error' ? new Error('reset') : undefined),
          itself,
          abort.signal,
        )
        try {
          let seen = 0
          if (how !== 'never') {
            for await (const _ of stream) {
              if (seen++ < at) continue
              if (how === 'leave') break
              if (how === 'abort') abort.abort()
            }
          }
        } catch (error) {
          expect((error as Error).message).toBe('reset')
        }
        guard.end('dropped')
        if (how === 'end twice') guard.end('failed')
        expect(calls.filter((call) => call === 'free r')).toHaveLength(1)
        expect(calls.filter((call) => call.startsWith('prefillDone')).length).toBeLessThanOrEqual(1)
        expect(calls.slice(-2)).toEqual(['free r', 'closeSession'])
        expect(calls.some((call) => call.startsWith('finish'))).toBe(dispatched)
      },
    ),
    { numRuns: 300 },
  )
})
