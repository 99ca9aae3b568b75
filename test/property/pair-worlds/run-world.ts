/**
 * One run of a world in virtual time: what a pair promises is looked at on the way and at the end; `runWorld` answers with what
 * was broken. Gateway, routers and HTTP are the real ones; engines are scripted, or the simulator's own.
 */
import type { RouterPort } from '../../../src/routing/index.js'
import { InProcessRouter, signalOf } from '../../../src/routing/index.js'
import { WarmrouteError } from '../../../src/core/protocol/index.js'
import type { GatewayOptions, PrefillPool, WorkerSpec } from '../../../src/server/index.js'
import { createPolicyRouter } from '../../../src/server/index.js'
import type { PairHouse } from '../../../src/server/pairs/fake-pair.case.js'
import { openPairHouse } from '../../../src/server/pairs/fake-pair.case.js'
import { createMetrics } from '../../../src/telemetry/index.js'
import type { Answer } from './ask.js'
import { ask } from './ask.js'
import type { PairServers } from './servers.js'
import { leaseMs, startScripted } from './servers.js'
import { startSimulated } from './simulated-servers.js'
import { VirtualTime } from './virtual-time.js'
import type { Client, Move, Opening, Step, World } from './world.js'
import { bodyOf, endless } from './world.js'

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
const conditional = { policy: 'isl_bounding', effIslThreshold: 512, effIslRatioThreshold: 0.7 } as const
/** Of all worlds: making them takes longer than a world does. */
const metrics = createMetrics()
/** A quarter of the shortest deadline. */
const tickMs = 30

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
  #servers!: PairServers
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
    const { holds } = this.#servers
    this.#wrongs.push(...(await this.#servers.judge(leftToLeases() - this.#leftBefore)))
    await this.#servers.close()
    return { wrongs: this.#wrongs, requests: clients.length, holds }
  }

  async #open(): Promise<void> {
    const { engines, enforce, fallsBack, isKv, isConditional, openings, builds } = this.#world
    const { now, net } = this.#time
    const nextOpening = endless(openings)
    const nextBuild = endless(builds)
    const steps = endless(this.#world.steps)
    this.#servers =
      engines.kind === 'scripted'
        ? await startScripted(this.#world, engines.acts, this.#time)
        : await startSimulated(this.#world, engines, this.#time)
    const connect: GatewayOptions['connect'] = ({ port }) => {
      const opening = nextOpening()
      return net.connect('', opening.kind === 'refused' ? 0 : port, (open) => openWhen(opening, open))
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
      pair: this.#servers,
      isVirtual: true,
      newRouter,
      gateway: { now, connect, deadlines, keepAliveMs: 100, random: seeded(), metrics },
      disagg: {
        enforce,
        fallsBack,
        conditional: isKv && isConditional ? conditional : undefined,
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

  async #live1(client: Client): Promise<void> {
    const { atMs, leavesAfterMs } = client
    await this.#time.sleep(atMs)
    const isReady = this.#isReady()
    const startedMs = this.#time.now()
    this.#live++
    const asked = ask(this.#house.gateway, '/v1/chat/completions', JSON.stringify(bodyOf(client)))
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
    else this.#judge(client, answer, isReady)
  }

  #judge(client: Client, answer: Answer, isReady: boolean): void {
    const { status, text, headers } = answer
    const { enforce, engine } = this.#world
    const isHidden = status === 503 && text.includes('is not ready to serve')
    if (isHidden && isReady) this.#wrongs.push('a model that may serve refused a request as if it were hidden')
    if (!isHidden && !isReady) this.#wrongs.push(`a hidden model answered with ${status}`)
    const alone = status === 200 ? /x-warmroute-prefill-skipped: (\w+)/.exec(headers)?.[1] : undefined
    if (alone && engine === 'sglang') this.#wrongs.push('a decode-only worker was asked for everything')
    const wrong = status === 200 ? this.#servers.judgeAnswer(client, answer) : undefined
    if (wrong) this.#wrongs.push(wrong)
    if (enforce && /failed|activated|no_params/.test(alone ?? ''))
      this.#wrongs.push(`served by one worker alone: ${alone}`)
  }

  async #move({ atMs, role, at, kind, blockSize }: Move): Promise<void> {
    await this.#time.sleep(atMs)
    const { gateway } = this.#house
    const spec: WorkerSpec = { ...this.#servers.spec(role, at), ...(role === 'prefill' ? { blockSize } : {}) }
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
    const listed = await ask(this.#house.gateway, '/v1/models').done
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
    let drained = 0
    const ids = gateway.workers().map(({ id }) => BigInt(id))
    for (const id of ids) void gateway.drainWorker(id).then(() => drained++)
    await this.#time.settle()
    if (drained !== ids.length) this.#wrongs.push('a worker that nobody uses does not drain')
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

/** A router that takes its time, or says no. */
function troubled(router: RouterPort, steps: () => Step, time: VirtualTime): RouterPort {
  const route = router.route.bind(router)
  router.route = async (request) => {
    if (request.isQueryOnly) return route(request)
    const { waitMs, fails } = steps()
    if (waitMs > 0)
      await Promise.race([
        time.sleep(waitMs),
        new Promise<void>((resolve) =>
          signalOf(request.signal)?.addEventListener('abort', () => resolve(), { once: true }),
        ),
      ])
    if (fails) throw new WarmrouteError(fails, {})
    return route(request)
  }
  return router
}

function openWhen(opening: Opening, open: () => void): void {
  if (opening.kind === 'ok' && opening.afterMs) setTimeout(open, opening.afterMs)
  else if (opening.kind !== 'hangs') process.nextTick(open)
}

/** Holds that the gateway says it left to the end of their lease, or to a decode worker that failed. */
function leftToLeases(): number {
  const counted = (how: string): number => metrics.heldKvReleased.with({ model: 'm', how }).value
  return counted('lease') + counted('decode_failed')
}

function seeded(): () => number {
  let state = 1
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647
}
