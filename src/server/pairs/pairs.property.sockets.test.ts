// Goal: no order of failures, aborts and comings and goings breaks what a pair promises: no request outlives its deadline,
//       every booking on both sides returns to zero, held KV is let go of, a decode is never sent outside the lease or with
//       parameters used before, and the model is listed exactly when the truth table says so.
// Method: random requests against scripted servers on real sockets, each of which may answer, hang, refuse or leave at each
//       step, with clients that leave at any moment and a router that takes its time between the legs.
import fc from 'fast-check'
import { afterAll, describe, expect, it, vi } from 'vitest'
import type { RouterPort } from '../../routing/index.js'
import { signalOf } from '../../routing/index.js'
import { chatBody } from '../house.case.js'
import type { Log } from '../options.js'
import type { Act, PairHouse } from './fake-pair.case.js'
import { FakePair, openPairHouse } from './fake-pair.case.js'

const runs = Number(process.env['PAIR_RUNS'] ?? 6)
const leaseMs = 160
const totalMs = 600

interface Client {
  readonly atMs: number
  readonly isStream: boolean
  readonly leavesAfterMs: number | undefined
}

type Move = { readonly atMs: number; readonly role: 'prefill' | 'decode'; readonly at: number; readonly joins: boolean }

const anyAct: fc.Arbitrary<Act> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('ok' as const), afterMs: fc.nat(30) }) },
  { weight: 1, arbitrary: fc.constant<Act>({ kind: 'hang' }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('status' as const), status: fc.constantFrom(400, 500, 503) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('drop' as const), isLate: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('params' as const),
      params: fc.constantFrom(null, {}, 7, { do_remote_prefill: true, do_remote_decode: false, remote_block_ids: [] }),
    }),
  },
)
const anyClient: fc.Arbitrary<Client> = fc.record({
  atMs: fc.nat(150),
  isStream: fc.boolean(),
  leavesAfterMs: fc.option(fc.nat(120), { nil: undefined, freq: 2 }),
})
const anyMove: fc.Arbitrary<Move> = fc.record({
  atMs: fc.nat(200),
  role: fc.constantFrom('prefill' as const, 'decode' as const),
  at: fc.nat(1),
  joins: fc.boolean(),
})
const anyWorld = fc.record({
  enforce: fc.boolean(),
  acts: fc.array(anyAct, { minLength: 1, maxLength: 24 }),
  /** Between the legs; some are longer than the lease. */
  waits: fc.array(fc.constantFrom(0, 0, 0, 10, 40, 320), { minLength: 1, maxLength: 12 }),
  clients: fc.array(anyClient, { minLength: 1, maxLength: 12 }),
  moves: fc.array(anyMove, { maxLength: 6 }),
})

describe.each(['vllm', 'sglang'] as const)('%s', (engine) => {
  const started = FakePair.start(engine, leaseMs, [2, 2])
  afterAll(async () => (await started).close())

  it('keeps every promise, whatever happens', { timeout: 60_000 + runs * 3_000 }, async () => {
    const pair = await started
    await fc.assert(
      fc.asyncProperty(anyWorld, async (world) => {
        pair.wrongs.length = 0
        const acts = endless(world.acts)
        pair.act = (role) => {
          const act = acts()
          return act.kind === 'params' && (role === 'decode' || engine === 'sglang') ? { kind: 'ok' } : act
        }
        const waits = endless(world.waits)
        const changes = new Changes()
        const house = await openPairHouse({
          pair,
          disagg: { enforce: world.enforce },
          around: (router) => waiting(router, waits),
          gateway: {
            log: changes,
            deadlines: { totalMs, prefillMs: 150, transferMs: 150, noProgressMs: 200, connectMs: 200 },
          },
        })
        try {
          await Promise.all([
            ...world.clients.map((client) => live(house, client)),
            ...world.moves.map((move) => make(house, pair, changes, move, world.enforce)),
          ])
          await nothingIsLeft(house, pair)
        } finally {
          await house.close()
        }
        expect(pair.wrongs).toEqual([])
      }),
      { numRuns: runs, endOnFailure: true }, // times are real, so that smaller cases tell little
    )
  })
})

async function live({ url }: PairHouse, { atMs, isStream, leavesAfterMs }: Client): Promise<void> {
  await sleep(atMs)
  const signal = leavesAfterMs === undefined ? null : AbortSignal.timeout(leavesAfterMs)
  const startedMs = performance.now()
  try {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: chatBody({ stream: isStream }),
      signal,
    })
    await response.text()
  } catch {
    // It left, or a worker did in the middle of a stream: both are ends.
  }
  expect(performance.now() - startedMs).toBeLessThan(totalMs + 3_000) // the machine may be busy; hanging is for ever
}

async function make(
  house: PairHouse,
  pair: FakePair,
  changes: Changes,
  { atMs, role, at, joins }: Move,
  enforce: boolean,
): Promise<void> {
  await sleep(atMs)
  const spec = pair.spec(role, at)
  if (joins) house.gateway.setWorker('m', spec)
  else house.gateway.removeWorker(spec.id)
  await turn()
  const before = changes.count
  const { data } = (await (await fetch(`${house.url}/v1/models`)).json()) as { data: unknown[] }
  if (changes.count !== before) return // a worker was left out or came back while we asked, perhaps both
  const isSplit = servingCount(house, 'prefill') > 0
  const isListed = servingCount(house, 'decode') > 0 && (isSplit || (!enforce && pair.engine === 'vllm'))
  expect(data).toHaveLength(isListed ? 1 : 0)
}

/** Every change of who may serve is logged. */
class Changes implements Log {
  count = 0

  debug(): void {}

  info(): void {
    this.count++
  }

  warn(): void {
    this.count++
  }
}

function servingCount({ gateway }: PairHouse, half: string): number {
  const serving = gateway.workers().filter(({ state, is_quarantined: isOut }) => state === 'ready' && !isOut)
  return serving.filter(({ role }) => role === half).length
}

async function nothingIsLeft({ gateway, main, inner }: PairHouse, pair: FakePair): Promise<void> {
  await vi.waitFor(
    async () => {
      expect(gateway.inFlight).toBe(0)
      for (const router of [main, ...inner])
        for (const load of await router.loads())
          expect(load).toMatchObject({ activeRequests: 0, activePrefillTokens: 0, activeDecodeBlocks: 0 })
      expect(gateway.workers().every((worker) => worker.in_flight === 0)).toBe(true)
      expect(pair.heldCount).toBe(0)
    },
    { timeout: 3_000, interval: 10 },
  )
}

function waiting(router: RouterPort, waits: () => number): RouterPort {
  const route = router.route.bind(router)
  router.route = async (request) => {
    const ms = waits()
    if (ms > 0) await sleep(ms, signalOf(request.signal))
    return route(request)
  }
  return router
}

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal?.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true })
  })
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

function endless<T>(items: readonly T[]): () => T {
  let at = 0
  return () => items[at++ % items.length]!
}
