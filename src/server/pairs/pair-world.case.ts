/**
 * Worlds in which everything around pairs may go wrong, and one run of a world in virtual time: random membership, engines
 * that fail at each step of each leg, connections that do not open, routers that wait or refuse, clients that leave. What a
 * pair promises is looked at on the way and at the end; `runWorld` answers with what was broken.
 */
import fc from 'fast-check'
import type { RouterPort } from '../../routing/index.js'
import { InProcessRouter } from '../../routing/index.js'
import type { ErrorCode } from '../../core/protocol/index.js'
import { WarmrouteError } from '../../core/protocol/index.js'
import { createMetrics } from '../../telemetry/index.js'
import type { Opening } from '../memory-net.case.js'
import { MemoryNet, socketPair } from '../memory-net.case.js'
import type { PrefillPool, WorkerSpec } from '../options.js'
import { createPolicyRouter } from '../policies/policy-router.js'
import { VirtualTime } from '../virtual-time.case.js'
import type { Act, PairHouse } from './fake-pair.case.js'
import { FakePair, openPairHouse } from './fake-pair.case.js'

interface Client {
  readonly atMs: number
  readonly isStream: boolean
  readonly maxTokens: number | undefined
  readonly leavesAfterMs: number | undefined
}

interface Move {
  readonly atMs: number
  readonly role: 'prefill' | 'decode'
  readonly at: number
  readonly kind: 'joins' | 'leaves' | 'drains'
  /** Of a prefill worker: another size is another pool. */
  readonly blockSize: 16 | 32
}

interface Step {
  readonly waitMs: number
  readonly fails?: ErrorCode | undefined
}

export interface World {
  readonly engine: 'vllm' | 'sglang'
  /** Of vLLM. */
  readonly connector: FakePair['connector']
  readonly enforce: boolean
  readonly fallsBack: boolean
  readonly isKv: boolean
  /** In the order in which engines are asked, connections opened, routers asked and prefill routers made. */
  readonly acts: readonly Act[]
  readonly openings: readonly Opening[]
  readonly steps: readonly Step[]
  readonly builds: readonly Step[]
  readonly clients: readonly Client[]
  readonly moves: readonly Move[]
}

const leaseMs = 160
const totalMs = 600
const deadlines = {
  totalMs,
  prefillMs: 150,
  transferMs: 150,
  transferTokenMs: 1,
  noProgressMs: 200,
  connectMs: 120,
  drainMs: 50,
}
/** Of all worlds: making them takes longer than a world does. */
const metrics = createMetrics()
/** A quarter of the shortest deadline. */
const tickMs = 30

const anyAct: fc.Arbitrary<Act> = fc.oneof(
  { weight: 20, arbitrary: fc.record({ kind: fc.constant('ok' as const), afterMs: fc.nat(60) }) },
  { weight: 1, arbitrary: fc.constant<Act>({ kind: 'hang' }) },
  { weight: 1, arbitrary: fc.constant<Act>({ kind: 'terminal' }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('status' as const),
      status: fc.constantFrom(400, 429, 500, 503),
      isInStream: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('drop' as const), isLate: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('params' as const),
      params: fc.constantFrom(null, {}, 7, { do_remote_prefill: true, do_remote_decode: false, remote_block_ids: [] }),
    }),
  },
)
const anyOpening: fc.Arbitrary<Opening> = fc.oneof(
  { weight: 20, arbitrary: fc.constant<Opening>({ kind: 'ok' }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('ok' as const), afterMs: fc.integer({ min: 1, max: 140 }) }) },
  { weight: 1, arbitrary: fc.constant<Opening>({ kind: 'refused' }) },
  { weight: 1, arbitrary: fc.constant<Opening>({ kind: 'hangs' }) },
)
const anyStep: fc.Arbitrary<Step> = fc.record({
  waitMs: fc.constantFrom(0, 0, 0, 0, 0, 10, 100, 125, 140, 320),
  fails: fc.oneof(
    { weight: 24, arbitrary: fc.constant(undefined) },
    {
      weight: 1,
      arbitrary: fc.constantFrom<ErrorCode>('WR_NO_ENDPOINTS', 'WR_QUEUE_REJECTED', 'WR_ALL_WORKERS_OVERLOADED'),
    },
  ),
})
const anyBuild: fc.Arbitrary<Step> = fc.record({
  waitMs: fc.constantFrom(0, 0, 0, 20, 200),
  fails: fc.constantFrom<ErrorCode | undefined>(undefined, undefined, undefined, 'WR_INVALID_CONFIG'),
})
const anyClient: fc.Arbitrary<Client> = fc.record({
  atMs: fc.nat(400),
  isStream: fc.boolean(),
  maxTokens: fc.constantFrom(undefined, 1, 50),
  leavesAfterMs: fc.option(fc.nat(300), { nil: undefined, freq: 2 }),
})
const anyMove: fc.Arbitrary<Move> = fc.record({
  atMs: fc.nat(500),
  role: fc.constantFrom('prefill' as const, 'prefill' as const, 'decode' as const),
  at: fc.nat(1),
  kind: fc.constantFrom('joins' as const, 'joins' as const, 'leaves' as const, 'leaves' as const, 'drains' as const),
  blockSize: fc.constantFrom(16 as const, 16 as const, 16 as const, 32 as const),
})

export const anyWorld: fc.Arbitrary<World> = fc.record({
  engine: fc.constantFrom('vllm' as const, 'vllm' as const, 'sglang' as const),
  connector: fc.constantFrom<FakePair['connector']>('nixl', 'nixl', 'nixl', 'nixl_push', 'mooncake', 'shared_cache'),
  enforce: fc.boolean(),
  fallsBack: fc.boolean(),
  isKv: fc.constantFrom(false, false, false, true),
  acts: fc.array(anyAct, { minLength: 1, maxLength: 24 }),
  openings: fc.array(anyOpening, { minLength: 1, maxLength: 12 }),
  steps: fc.array(anyStep, { minLength: 1, maxLength: 16 }),
  builds: fc.array(anyBuild, { minLength: 1, maxLength: 4 }),
  clients: fc.array(anyClient, { minLength: 1, maxLength: 10 }),
  moves: fc.array(anyMove, { maxLength: 8 }),
})

export interface WorldReport {
  /** What was broken, in words. */
  readonly wrongs: readonly string[]
  readonly requests: number
  readonly holds: number
}

export async function runWorld(world: World): Promise<WorldReport> {
  const time = new VirtualTime()
  time.install()
  try {
    return await new WorldRun(world, time).run()
  } finally {
    time.uninstall()
  }
}

interface Made {
  readonly identity: string
  readonly router: RouterPort
  isClosed: boolean
}

/** What became of one booking of a prefill. */
interface Booking {
  marks: number
  frees: number
}

class WorldRun {
  readonly #world: World
  readonly #time: VirtualTime
  readonly #wrongs: string[] = []
  readonly #made: Made[] = []
  /** Of prefills, by router and id. */
  readonly #bookings: Map<string, Booking>[] = []
  #pair!: FakePair
  #house!: PairHouse
  #live = 0
  #pool: 16 | 32 = 16
  readonly #leftBefore = leftToLeases()

  constructor(world: World, time: VirtualTime) {
    this.#world = world
    this.#time = time
  }

  async run(): Promise<WorldReport> {
    const { clients, moves } = this.#world
    await this.#open()
    await this.#time.settle()
    const parts = [...clients.map((it) => this.#live1(it)), ...moves.map((it) => this.#move(it))]
    await this.#finish(Promise.all(parts), 5_000, 'a request or a move never ended')
    await this.#time.run(this.#time.now() + leaseMs + 2 * deadlines.connectMs + 100) // what we send ourselves ends by then
    await this.#nothingIsLeft()
    await this.#finish(this.#house.close(), 5_000, 'the gateway did not close')
    await this.#pair.close()
    const { wrongs, holds } = this.#pair
    return { wrongs: [...this.#wrongs, ...wrongs], requests: clients.length, holds: holds.size }
  }

  async #open(): Promise<void> {
    const { engine, enforce, fallsBack, isKv, acts, openings, builds } = this.#world
    const { now } = this.#time
    const net = new MemoryNet()
    const nextAct = endless(acts)
    const nextOpening = endless(openings)
    const nextBuild = endless(builds)
    const steps = endless(this.#world.steps)
    net.opening = nextOpening
    this.#pair = await FakePair.start(engine, leaseMs, [2, 2], { net, now })
    this.#pair.connector = this.#world.connector
    this.#pair.act = (role) => {
      const act = nextAct()
      const isForPrefill = act.kind === 'params' || act.kind === 'terminal'
      return isForPrefill && (role === 'decode' || engine === 'sglang') ? { kind: 'ok' } : act
    }
    const newRouter = async (): Promise<RouterPort> =>
      troubled(
        isKv
          ? await InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
          : createPolicyRouter({ policy: 'round-robin' }),
        steps,
        this.#time,
      )
    this.#house = await openPairHouse({
      pair: this.#pair,
      isVirtual: true,
      newRouter,
      gateway: { now, connect: net.connect, deadlines, keepAliveMs: 100, random: seeded(), metrics },
      disagg: {
        enforce,
        fallsBack,
        openPrefill: async ({ identity }: PrefillPool) => {
          const { waitMs, fails } = nextBuild()
          if (waitMs > 0) await this.#time.sleep(waitMs)
          if (fails) throw new WarmrouteError(fails, {})
          const router = this.#counted(await newRouter())
          this.#house?.inner.push(router)
          this.#made.push({ identity, router, isClosed: false })
          return router
        },
        closePrefill: async (router) => {
          for (const made of this.#made) if (made.router === router) made.isClosed = true
          await router.close()
        },
      },
    })
    for (const { router } of this.#made) if (!this.#house.inner.includes(router)) this.#house.inner.push(router)
  }

  /** A prefill's booking is marked at most once, before it is freed, and freed exactly once. */
  #counted(router: RouterPort): RouterPort {
    const bookings = new Map<string, Booking>()
    this.#bookings.push(bookings)
    const route = router.route.bind(router)
    const prefillDone = router.prefillDone.bind(router)
    const free = router.free.bind(router)
    router.route = async (request) => {
      const answer = await route(request)
      if (!request.isQueryOnly) bookings.set(request.requestId, { marks: 0, frees: 0 })
      return answer
    }
    router.prefillDone = (id) => {
      const booking = bookings.get(id)
      if (!booking || booking.frees > 0 || ++booking.marks > 1) this.#wrongs.push(`marked out of turn: ${id}`)
      prefillDone(id)
    }
    router.free = (id) => {
      const booking = bookings.get(id)
      if (!booking || ++booking.frees > 1) this.#wrongs.push(`freed out of turn: ${id}`)
      free(id)
    }
    return router
  }

  // ---- what happens

  async #live1({ atMs, isStream, maxTokens, leavesAfterMs }: Client): Promise<void> {
    await this.#time.sleep(atMs)
    const isReady = this.#isReady()
    const startedMs = this.#time.now()
    this.#live++
    const asked = ask(this.#house, '/v1/chat/completions', bodyOf(isStream, maxTokens))
    let hasLeft = false
    if (leavesAfterMs !== undefined)
      void this.#time.sleep(leavesAfterMs).then(async () => {
        if (asked.isOver) return
        hasLeft = true
        asked.leave()
        await this.#turn()
        const { inFlight } = this.#house.gateway
        if (inFlight > this.#live) this.#wrongs.push(`${inFlight - this.#live} requests outlived their clients`)
      })
    const answer = await asked.done
    this.#live--
    const tookMs = this.#time.now() - startedMs
    if (tookMs > totalMs + tickMs + 1) this.#wrongs.push(`a request took ${tookMs} ms`)
    if (hasLeft) return
    if (!answer) this.#wrongs.push('a request was not answered')
    else this.#judge(answer, isReady)
  }

  #judge({ status, text, headers }: Answer, isReady: boolean): void {
    const { enforce, engine } = this.#world
    const isHidden = status === 503 && text.includes('is not ready to serve')
    if (isHidden && isReady) this.#wrongs.push('a model that may serve refused a request as if it were hidden')
    if (!isHidden && !isReady) this.#wrongs.push(`a hidden model answered with ${status}`)
    const alone = status === 200 ? /x-warmroute-prefill-skipped: (\w+)/.exec(headers)?.[1] : undefined
    if (alone && engine === 'sglang') this.#wrongs.push('a decode-only worker was asked for everything')
    if (enforce && /failed|activated|no_params/.test(alone ?? '')) this.#wrongs.push(`served by one worker alone: ${alone}`)
  }

  async #move({ atMs, role, at, kind, blockSize }: Move): Promise<void> {
    await this.#time.sleep(atMs)
    const { gateway } = this.#house
    const spec: WorkerSpec = { ...this.#pair.spec(role, at), ...(role === 'prefill' ? { blockSize } : {}) }
    try {
      if (kind === 'joins') {
        gateway.setWorker('m', spec)
        if (role === 'prefill') this.#pool = blockSize
      } else if (kind === 'leaves') gateway.removeWorker(spec.id)
      else if (gateway.workers().some(({ id }) => id === String(spec.id))) await this.#drain(spec.id)
    } catch (error) {
      if (!(error instanceof WarmrouteError) || error.code !== 'WR_INVALID_CONFIG') throw error // two pools at once
    }
    await this.#turn()
    const isReady = this.#isReady()
    const listed = await ask(this.#house, '/v1/models').done
    const isListed = listed?.text.includes('"id":"m"') ?? false
    if (isListed !== isReady && isReady === this.#isReady())
      this.#wrongs.push(isListed ? 'a model that may not serve is listed' : 'a model that may serve is hidden')
  }

  /** At the latest with the last request that may be there, and the last lease. */
  async #drain(id: bigint): Promise<void> {
    const startedMs = this.#time.now()
    await this.#house.gateway.drainWorker(id)
    const tookMs = this.#time.now() - startedMs
    if (tookMs > totalMs + leaseMs + tickMs + 1) this.#wrongs.push(`a worker drained for ${tookMs} ms`)
  }

  /** The truth table, from who takes requests. */
  #isReady(): boolean {
    const { enforce, engine } = this.#world
    const workers = this.#house.gateway.workers()
    const serving = workers.filter(({ state, is_quarantined: isOut }) => state === 'ready' && !isOut)
    const prefills = serving.filter(({ role }) => role === 'prefill')
    const decodes = serving.filter(({ role }) => role === 'decode')
    const isEnforced = enforce || engine === 'sglang'
    const stands = this.#made.some(({ identity, isClosed }) => !isClosed && identity.endsWith(`/${this.#pool}`))
    return decodes.length > 0 && (!isEnforced || (prefills.length > 0 && stands))
  }

  // ---- what is left

  async #nothingIsLeft(): Promise<void> {
    const { gateway, main, inner } = this.#house
    if (this.#live !== 0 || gateway.inFlight !== 0) this.#wrongs.push(`${gateway.inFlight} requests are left`)
    for (const router of [main, ...inner])
      for (const { activeRequests, activePrefillTokens, activeDecodeBlocks } of await router.loads())
        if (activeRequests + activePrefillTokens + activeDecodeBlocks !== 0)
          this.#wrongs.push(`booked and not freed: ${activeRequests} requests, ${activePrefillTokens} tokens`)
    for (const bookings of this.#bookings)
      for (const [id, { frees }] of bookings) if (frees !== 1) this.#wrongs.push(`freed ${frees} times: ${id}`)
    for (const { id, in_flight: inFlight } of gateway.workers())
      if (inFlight !== 0) this.#wrongs.push(`worker ${id} has ${inFlight} requests`)
    this.#judgeHolds()
    let drained = 0
    const ids = gateway.workers().map(({ id }) => BigInt(id))
    for (const id of ids) void gateway.drainWorker(id).then(() => drained++)
    await this.#time.settle()
    if (drained !== ids.length) this.#wrongs.push('a worker that nobody uses does not drain')
  }

  /** What waited was read, or its lease ended; and the second is known to the gateway. */
  #judgeHolds(): void {
    const holds = [...this.#pair.holds.values()]
    if (holds.some(({ state }) => state === 'held')) this.#wrongs.push('KV is held after its lease')
    const expired = holds.filter(({ state, isDelivered }) => state === 'expired' && isDelivered).length
    const known = leftToLeases() - this.#leftBefore
    if (expired > known) this.#wrongs.push(`${expired} leases ended unread, the gateway knows of ${known}`)
  }

  async #finish(work: Promise<unknown>, withinMs: number, otherwise: string): Promise<void> {
    let isDone = false
    void work.then(
      () => (isDone = true),
      (error: unknown) => {
        isDone = true
        this.#wrongs.push(error instanceof Error ? (error.stack ?? error.message) : String(error))
      },
    )
    await this.#time.run(this.#time.now() + withinMs, () => isDone)
    if (!isDone) this.#wrongs.push(otherwise)
  }

  #turn(): Promise<void> {
    return new Promise((resolve) => void setImmediate(resolve))
  }
}

interface Answer {
  readonly status: number
  readonly headers: string
  readonly text: string
}

interface Asked {
  /** Undefined: the connection ended without an answer. */
  readonly done: Promise<Answer | undefined>
  readonly isOver: boolean
  leave(): void
}

/** A request on a connection of its own. */
function ask({ gateway }: PairHouse, path: string, body?: string): Asked {
  const [mine, theirs] = socketPair()
  let text = ''
  let isOver = false
  const done = new Promise<Answer | undefined>((resolve) => {
    mine.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')))
    mine.once('close', () => {
      isOver = true
      const end = text.indexOf('\r\n\r\n')
      const status = Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1])
      resolve(end < 0 ? undefined : { status, headers: text.slice(0, end).toLowerCase(), text: text.slice(end) })
    })
  })
  gateway.accept(theirs)
  const method = body === undefined ? 'GET' : 'POST'
  const head = [`${method} ${path} HTTP/1.1`, 'host: x', 'connection: close']
  if (body !== undefined) head.push('content-type: application/json', `content-length: ${Buffer.byteLength(body)}`)
  mine.write(`${head.join('\r\n')}\r\n\r\n${body ?? ''}`)
  return {
    done,
    get isOver() {
      return isOver
    },
    leave: () => void mine.destroy(),
  }
}

/** A router that takes its time, or says no. */
function troubled(router: RouterPort, steps: () => Step, time: VirtualTime): RouterPort {
  const route = router.route.bind(router)
  router.route = async (request) => {
    if (request.isQueryOnly) return route(request)
    const { waitMs, fails } = steps()
    if (waitMs > 0)
      await Promise.race([
        time.sleep(waitMs),
        new Promise<void>((resolve) => request.signal?.addEventListener('abort', () => resolve(), { once: true })),
      ])
    if (fails) throw new WarmrouteError(fails, {})
    return route(request)
  }
  return router
}

function bodyOf(stream: boolean, max_tokens: number | undefined): string {
  return JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'how many?' }], stream, max_tokens })
}

/** Holds that the gateway says it left to the end of their lease, or to a decode worker that failed. */
function leftToLeases(): number {
  const counted = (how: string): number => metrics.heldKvReleased.with({ model: 'm', how }).value
  return counted('lease') + counted('decode_failed')
}

function endless<T>(items: readonly T[]): () => T {
  let at = 0
  return () => items[at++ % items.length]!
}

function seeded(): () => number {
  let state = 1
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647
}
