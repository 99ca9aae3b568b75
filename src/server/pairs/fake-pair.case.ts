/**
 * Scripted prefill and decode servers of both engines for tests: they keep KV under a lease, meet in rooms, fail where they
 * are told to, and write down whatever no router may do to them.
 */
import type { ServerResponse } from 'node:http'
import type { Connector } from '../../engines/index.js'
import type { RouterPort } from '../../routing/index.js'
import type { FakeEngine, FakeNet, SeenRequest } from '../fake-engine.case.js'
import { answerChat, startFakeEngine } from '../fake-engine.case.js'
import type { Gateway } from '../gateway.js'
import { createGateway } from '../gateway.js'
import type { DisaggSpec, GatewayOptions, ModelSpec, WorkerSpec } from '../options.js'
import { expectNothingLeft } from '../house.case.js'
import { createPolicyRouter } from '../policies/policy-router.js'

/** What a server does with its next request. */
export type Act =
  | { readonly kind: 'ok'; readonly afterMs?: number }
  | { readonly kind: 'hang' }
  /** `isInStream`: behind a head that says 200, as vLLM does it. */
  | { readonly kind: 'status'; readonly status: number; readonly isInStream?: boolean }
  /** Closes the connection without a word, or in the middle of a stream. */
  | { readonly kind: 'drop'; readonly isLate?: boolean }
  /** A prefill that ends the answer with its first token. */
  | { readonly kind: 'terminal' }
  /** A prefill whose parameters are wrong, or missing. */
  | { readonly kind: 'params'; readonly params: unknown }

/**
 * Servers and gateway share one loop, which may stand still on a busy machine between a decode's dispatch and its arrival.
 * So the lease is judged in time during which the loop turned.
 */
class AwakeClock {
  readonly #timer = setInterval(() => this.#tick(), 5).unref()
  #lastMs = performance.now()
  #awakeMs = 0

  now(): number {
    this.#tick()
    return this.#awakeMs
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #tick(): void {
    const now = performance.now()
    this.#awakeMs += Math.min(now - this.#lastMs, 20)
    this.#lastMs = now
  }
}

interface Hold {
  readonly atMs: number
  state: 'held' | 'read' | 'expired'
  /** Its parameters reached whoever asked. */
  isDelivered: boolean
}

interface Room {
  decode: (() => void) | undefined
  prefill: (() => void) | undefined
}

type Body = Readonly<Record<string, unknown>> & { readonly stream?: boolean }

export class FakePair {
  readonly engine: 'vllm' | 'sglang'
  readonly leaseMs: number
  readonly prefill: FakeEngine[] = []
  readonly decode: FakeEngine[] = []
  /** Told for each request; `at` is the server among its kind. */
  act: (role: 'prefill' | 'decode', at: number) => Act = () => ({ kind: 'ok' })
  /** What was done that must never be done. */
  readonly wrongs: string[] = []
  readonly holds = new Map<string, Hold>()
  readonly rooms = new Map<string, Room>()
  /** How the halves of vLLM find each other. */
  connector: Exclude<Connector, 'sglang'> = 'nixl'
  /** Legs that start together, by their name: who was seen, and a decode that waits. */
  readonly #meetings = new Map<string, { readonly seen: Set<string>; waiting: (() => void) | undefined }>()
  readonly #clock: { now(): number; stop(): void }
  #nextHold = 0

  constructor(engine: 'vllm' | 'sglang', leaseMs: number, now?: () => number) {
    this.engine = engine
    this.leaseMs = leaseMs
    this.#clock = now ? { now, stop() {} } : new AwakeClock()
  }

  /** On sockets of the system and its time, unless a world of its own is given. */
  static async start(
    engine: 'vllm' | 'sglang',
    leaseMs: number,
    counts: readonly [number, number],
    world?: { readonly net?: FakeNet; readonly now?: (() => number) | undefined },
  ): Promise<FakePair> {
    const pair = new FakePair(engine, leaseMs, world?.now)
    for (const [role, count] of [
      ['prefill', counts[0]],
      ['decode', counts[1]],
    ] as const)
      for (let at = 0; at < count; at++)
        pair[role].push(
          await startFakeEngine((request, response) => pair.#serve(role, at, request, response), world?.net),
        )
    return pair
  }

  /** Prefill workers are 1, 2, ..., decode workers 11, 12, ... */
  spec(role: 'prefill' | 'decode', at: number): WorkerSpec {
    const id = BigInt(role === 'prefill' ? 1 + at : 11 + at)
    const { url } = this[role][at]!
    const own = this.engine === 'vllm' ? { connector: this.connector, engineIds: ['e'] } : {}
    return { id, url, engine: this.engine, role, transfer: { leaseMs: this.leaseMs, port: 8998, ...own } }
  }

  get heldCount(): number {
    const now = this.#clock.now()
    return [...this.holds.values()].filter(({ state, atMs }) => state === 'held' && now - atMs <= this.leaseMs).length
  }

  async close(): Promise<void> {
    this.#clock.stop()
    await Promise.all([...this.prefill, ...this.decode].map((engine) => engine.close()))
  }

  #serve(role: 'prefill' | 'decode', at: number, request: SeenRequest, response: ServerResponse): void {
    const body = JSON.parse(request.text) as Body
    const act = this.act(role, at)
    const isMeeting = this.connector === 'mooncake' || this.connector === 'nixl_push'
    if (role === 'decode' && !isMeeting) this.#judgeParams(body)
    if (act.kind === 'hang') return
    if (act.kind === 'drop' && !act.isLate) {
      response.destroy()
      return
    }
    if (act.kind === 'status') {
      this.#letGo(body)
      // Of a decode that is not streamed an engine never says so behind a 200.
      if (act.isInStream && (role === 'prefill' || body.stream === true)) {
        response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
        response.end(`data: {"error":{"message":"scripted","code":${act.status}}}\n\ndata: [DONE]\n\n`)
        return
      }
      response.writeHead(act.status, { 'content-type': 'application/json' }).end('{"error":{"message":"scripted"}}')
      return
    }
    const go = (): void => {
      if (response.destroyed) return
      if (this.engine === 'sglang') this.#meet(role, act, request, body, response)
      else if (isMeeting) this.#meetByName(role, act, request, body, response)
      else if (role === 'prefill') this.#hold(act, body, response)
      else answer(act, request, response)
    }
    if (act.kind === 'ok' && act.afterMs) setTimeout(go, act.afterMs)
    else go()
  }

  /** A decode server that refuses tells the prefill server so. */
  #letGo(body: Body): void {
    const params = body['kv_transfer_params'] as { remote_request_id?: string } | undefined
    const hold = this.holds.get(String(params?.remote_request_id))
    if (hold?.state === 'held') hold.state = 'read'
  }

  #hold(act: Act, body: Body, response: ServerResponse): void {
    const asked = body['kv_transfer_params'] as { do_remote_decode?: unknown } | undefined
    const isShared = this.connector === 'shared_cache'
    if ((asked?.do_remote_decode === true) === isShared || body.stream !== false || body['max_tokens'] !== 1)
      this.wrongs.push(`a prefill was asked with ${JSON.stringify(body)}`)
    const id = (asked as { transfer_id?: string } | undefined)?.transfer_id ?? `hold-${++this.#nextHold}`
    const isMeeting = this.connector !== 'nixl'
    const params = isMeeting ? null : act.kind === 'params' ? act.params : this.#paramsOf(id)
    if (!isShared && (isMeeting || act.kind !== 'params')) {
      const hold: Hold = { atMs: this.#clock.now(), state: 'held', isDelivered: false }
      const { socket } = response
      response.once('finish', () => setImmediate(() => (hold.isDelivered = socket?.destroyed === false)))
      this.holds.set(id, hold)
      setTimeout(() => (hold.state = hold.state === 'held' ? 'expired' : hold.state), this.leaseMs).unref()
    }
    const text = JSON.stringify({
      id,
      object: 'chat.completion',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'x' },
          finish_reason: act.kind === 'terminal' ? 'stop' : 'length',
        },
      ],
      usage: { prompt_tokens: 9, completion_tokens: 1 },
      kv_transfer_params: params,
    })
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': text.length }).end(text)
  }

  #paramsOf(id: string): object {
    return {
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_block_ids: [[1, 2]],
      remote_engine_id: 'e',
      remote_request_id: id,
      remote_host: '127.0.0.1',
      remote_port: 5701,
    }
  }

  /** When a decode arrives: from then on the engine itself keeps the lease alive. */
  #judgeParams(body: Body): void {
    const params = body['kv_transfer_params'] as { remote_request_id?: string; remote_block_ids?: unknown } | undefined
    if (params !== undefined) {
      const hold = this.holds.get(String(params.remote_request_id))
      if (!Array.isArray(params.remote_block_ids)) this.wrongs.push('a decode without block ids')
      else if (!hold) this.wrongs.push('a decode with parameters that nobody gave')
      else if (hold.state === 'read') this.wrongs.push('parameters were used twice')
      else if (this.#clock.now() - hold.atMs > this.leaseMs) this.wrongs.push('a decode came after the lease')
      else hold.state = 'read'
    }
  }

  /** A prefill answers when it is computed; a decode waits for it. */
  #meetByName(role: 'prefill' | 'decode', act: Act, request: SeenRequest, body: Body, response: ServerResponse): void {
    const { transfer_id: name } = (body['kv_transfer_params'] ?? {}) as { transfer_id?: string }
    if (role === 'decode' && body['kv_transfer_params'] === undefined) {
      answer(act, request, response) // it computes the prompt itself
      return
    }
    if (typeof name !== 'string') {
      this.wrongs.push(`no name for a ${role}: ${JSON.stringify(body)}`)
      return
    }
    const meeting = this.#meetings.get(name) ?? { seen: new Set<string>(), waiting: undefined }
    this.#meetings.set(name, meeting)
    if (meeting.seen.has(role)) this.wrongs.push(`two legs of one name: ${role}`)
    meeting.seen.add(role)
    const read = (): void => {
      const hold = this.holds.get(name)
      if (response.destroyed || hold?.state !== 'held') return
      hold.state = 'read'
      answer(act, request, response)
    }
    if (role === 'prefill') {
      this.#hold(act, body, response)
      meeting.waiting?.()
    } else if (this.holds.has(name)) read()
    else meeting.waiting = read
  }

  /** Neither half goes on before both are there. */
  #meet(role: 'prefill' | 'decode', act: Act, request: SeenRequest, body: Body, response: ServerResponse): void {
    const rooms = [body['bootstrap_room']].flat()
    if (
      rooms.length !== [body['prompt']].flat().length ||
      new Set(rooms).size !== rooms.length ||
      !rooms.every(isRoom)
    ) {
      this.wrongs.push(`no room for a ${role}: ${JSON.stringify(body)}`)
      response.writeHead(400).end()
      return
    }
    const key = rooms.join()
    const meeting = this.rooms.get(key) ?? { decode: undefined, prefill: undefined }
    this.rooms.set(key, meeting)
    if (meeting[role]) this.wrongs.push('a room was used twice')
    meeting[role] = () => answer(act, request, response, role === 'prefill')
    if (!meeting.decode || !meeting.prefill) return
    meeting.prefill()
    meeting.decode()
  }
}

function isRoom(room: unknown): boolean {
  return Number.isSafeInteger(room)
}

function answer(act: Act, request: SeenRequest, response: ServerResponse, isPrefill = false): void {
  if (response.destroyed) return
  if (act.kind === 'drop') {
    response.writeHead(200, { 'content-type': isPrefill ? 'application/json' : 'text/event-stream' })
    response.write('data: {"choices":[{"index":0,"delta":{"content":"one"}}]}\n\n', () => response.destroy())
    return
  }
  answerChat(request, response)
}

export interface PairHouse {
  readonly gateway: Gateway
  readonly url: string
  readonly main: RouterPort
  /** Those that were made for prefill workers, in order. */
  readonly inner: RouterPort[]
  close(): Promise<void>
}

export interface PairHouseOptions {
  readonly pair: Pick<FakePair, 'spec'> & Readonly<Record<'prefill' | 'decode', readonly unknown[]>>
  readonly disagg?: Partial<DisaggSpec>
  readonly gateway?: Partial<GatewayOptions>
  readonly model?: Partial<ModelSpec>
  /** Chooses decode workers, and makes those that choose prefill workers; without a cache unless told. */
  readonly newRouter?: () => Promise<RouterPort>
  /** Says more of a worker. */
  readonly change?: (spec: WorkerSpec) => WorkerSpec
  /** Nothing listens: connections are handed to the gateway. */
  readonly isVirtual?: boolean
  /** Stands around the router that chooses decode workers. */
  readonly around?: (router: RouterPort) => RouterPort
}

/** A gateway in front of every server of the pair. */
export async function openPairHouse(options: PairHouseOptions): Promise<PairHouse> {
  const { pair, change = (spec: WorkerSpec) => spec } = options
  const newRouter = options.newRouter ?? (() => Promise.resolve(createPolicyRouter({ policy: 'round-robin' })))
  const main = await newRouter()
  const inner: RouterPort[] = []
  const gateway = createGateway({
    listen: { port: 0 },
    usageSampleEvery: 0,
    ...options.gateway,
    health: { intervalMs: 0, metricsMs: 0, quarantineMs: [20, 40], ...options.gateway?.health },
    models: [
      {
        name: 'm',
        blockSize: 16,
        router: options.around?.(main) ?? main,
        disagg: {
          enforce: false,
          openPrefill: async () => {
            const router = await newRouter()
            inner.push(router)
            return router
          },
          ...options.disagg,
        },
        workers: [
          ...pair.prefill.map((_, at) => change(pair.spec('prefill', at))),
          ...pair.decode.map((_, at) => change(pair.spec('decode', at))),
        ],
        ...options.model,
      },
    ],
  })
  const url = options.isVirtual ? '' : (await gateway.listen()).url
  return {
    gateway,
    url,
    main,
    inner,
    async close() {
      await gateway.close()
      await expectNothingLeft(gateway, main, ...inner)
      for (const router of [main, ...inner]) await router.close()
    },
  }
}
