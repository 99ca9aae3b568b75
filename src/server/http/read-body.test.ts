import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { BodyBudget } from './body-budget.js'
import { BufferPool } from './buffer-pool.js'
import type { BodyMemory } from './body-reader.js'
import { readBody } from './read-body.js'

const mib = 1024 * 1024
const bytesMax = 4 * mib
const response = {} as ServerResponse

interface Sent {
  readonly bytes: number
  /** Where the body is cut, as parts of a million. */
  readonly cuts: readonly number[]
  readonly isDeclared: boolean
  /** The client leaves after so many parts. */
  readonly leavesAt: number | undefined
}

function newMemory(budgetBytes = 64 * mib): BodyMemory {
  return { buffers: new BufferPool(), budget: new BodyBudget(budgetBytes) }
}

/** Every byte says whose it is, and where it lies. */
function bodyOf({ bytes }: Sent, owner: number): Buffer {
  const body = Buffer.alloc(bytes)
  for (let at = 0; at < bytes; at++) body[at] = (at * 31 + owner * 101 + (at >>> 9)) & 0xff
  return body
}

function requestOf(sent: Sent, body: Buffer): IncomingMessage {
  const ends = [...new Set(sent.cuts.map((cut) => Math.floor((cut * body.length) / 1e6))), body.length]
  ends.sort((one, other) => one - other)
  const parts = ends.map((end, at) => Buffer.from(body.subarray(ends[at - 1] ?? 0, end)))
  const request = Readable.from(arriving(parts, sent.leavesAt), { objectMode: false })
  return Object.assign(request, {
    headers: sent.isDeclared ? { 'content-length': String(body.length) } : {},
  }) as unknown as IncomingMessage
}

async function* arriving(parts: readonly Buffer[], leavesAt: number | undefined): AsyncGenerator<Buffer> {
  for (const [at, part] of parts.entries()) {
    if (at === leavesAt) throw new Error('the client left')
    if (part.length > 0) yield part
  }
}

const sizes = fc.oneof(
  fc.integer({ min: 0, max: 100 }),
  fc.integer({ min: 30_000, max: 200_000 }),
  fc.integer({ min: mib - 3, max: mib + 3 }),
  fc.integer({ min: mib, max: bytesMax }),
)
const anySent = fc.record({
  bytes: sizes,
  cuts: fc.array(fc.integer({ min: 0, max: 1_000_000 }), { maxLength: 60 }),
  isDeclared: fc.boolean(),
  leavesAt: fc.option(fc.nat(8), { nil: undefined, freq: 3 }),
})

// Goal: however a body is cut, and whoever else sends one or leaves, what is read is what was sent, until it is given back.
// Method: several bodies at once out of one pool, twice, so that memory is used again; each is compared after all have arrived.
it('reads what was sent, in memory that nobody else has', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anySent, { minLength: 1, maxLength: 4 }), async (all) => {
      const memory = newMemory()
      for (const round of [0, 10]) {
        const bodies = all.map((sent, at) => bodyOf(sent, round + at))
        const reads = all.map((sent, at) =>
          readBody(requestOf(sent, bodies[at]!), response, { bytesMax, timeoutMs: 60_000, memory }),
        )
        const results = await Promise.allSettled(reads)
        const arrived = results.flatMap((result, at) =>
          result.status === 'fulfilled' ? [{ got: result.value, sent: bodies[at]! }] : [],
        )
        for (const { got, sent } of arrived) expect(got.equals(sent)).toBe(true)
        expect(memory.budget.heldBytes).toBe(arrived.reduce((sum, { sent }) => sum + sent.length, 0))
        for (const { got } of arrived) {
          memory.buffers.give(got)
          memory.budget.release(got.length)
        }
      }
    }),
    { numRuns: 60 },
  )
}, 60_000)

it('puts many small parts together', async () => {
  const memory = newMemory()
  const sent: Sent = { bytes: 2 * mib, cuts: [], isDeclared: false, leavesAt: undefined }
  const body = bodyOf(sent, 1)
  const cuts = Array.from({ length: 300 }, (_, at) => at * 3_333)
  const got = await readBody(requestOf({ ...sent, cuts }, body), response, { bytesMax, timeoutMs: 60_000, memory })
  expect(got.equals(body)).toBe(true)
})

const whole: Sent = { bytes: 3 * mib, cuts: [1000, 500_000, 700_000], isDeclared: true, leavesAt: undefined }

it('gives back the memory of a body that did not arrive', async () => {
  const memory = newMemory()
  const request = requestOf({ ...whole, leavesAt: 3 }, bodyOf(whole, 1))
  await expect(readBody(request, response, { bytesMax, timeoutMs: 60_000, memory })).rejects.toThrow('cancelled')
  expect(memory.budget.heldBytes).toBe(0)
  expect(memory.buffers.keptBytes).toBe(3 * mib)
})

it('takes no long memory for a body that is only declared', async () => {
  const memory = newMemory()
  const taken: number[] = []
  const take = memory.buffers.take.bind(memory.buffers)
  memory.buffers.take = (bytes) => {
    taken.push(bytes)
    return take(bytes)
  }
  const request = requestOf({ ...whole, cuts: [300_000], leavesAt: 1 }, bodyOf(whole, 1))
  await expect(readBody(request, response, { bytesMax, timeoutMs: 60_000, memory })).rejects.toThrow('cancelled')
  expect(taken).toEqual([])
})

it.each([true, false])('refuses a body for which there is no memory (its length is known: %s)', async (isDeclared) => {
  const memory = newMemory(2 * mib)
  const request = requestOf({ ...whole, isDeclared }, bodyOf(whole, 1))
  await expect(readBody(request, response, { bytesMax, timeoutMs: 60_000, memory })).rejects.toMatchObject({
    code: 'WR_ALL_WORKERS_OVERLOADED',
  })
  expect(memory.budget.heldBytes).toBe(0)
})

it('lets no more than about half a megabyte of long bodies arrive in one turn of the loop', async () => {
  const memory = newMemory()
  let inTurn = 0
  let mostInTurn = 0
  const cuts = Array.from({ length: 64 }, (_, at) => at * 15_625)
  const reads = [1, 2, 3].map((owner) => {
    const request = requestOf({ ...whole, cuts }, bodyOf(whole, owner))
    request.prependListener('data', (part: Buffer) => {
      if (inTurn === 0)
        setImmediate(() => {
          inTurn = 0
        })
      inTurn += part.length
      mostInTurn = Math.max(mostInTurn, inTurn)
    })
    return readBody(request, response, { bytesMax, timeoutMs: 60_000, memory })
  })
  await Promise.all(reads)
  expect(mostInTurn).toBeLessThan(mib)
})
