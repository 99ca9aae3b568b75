// Session affinity over sockets: the router takes turns, so that only affinity can keep a conversation together.
import { afterEach, describe, expect, it } from 'vitest'
import type { RouterPort } from '../../routing/index.js'
import { InProcessAffinityCarrier } from '../../routing/index.js'
import type { House, HouseOptions } from '../house.case.js'
import { chatBody, openHouse, post } from '../house.case.js'
import { chatFrames } from '../fake-engine.case.js'
import type { Gateway } from '../gateway.js'
import { createGateway } from '../gateway.js'
import { createPolicyRouter } from '../policies/policy-router.js'

let house: House | undefined
let laterMs = 0

afterEach(async () => {
  await house?.close()
  house = undefined
  laterMs = 0
})

async function open(options: HouseOptions = {}): Promise<House> {
  house = await openHouse({
    engines: 3,
    ...options,
    model: { sessionAffinityTtlSecs: 60, ...options.model },
    gateway: { now: () => performance.now() + laterMs, ...options.gateway },
  })
  return house
}

const path = '/v1/chat/completions'
const session = (id: string): Record<string, string> => ({
  'content-type': 'application/json',
  'x-dynamo-session-id': id,
})

async function workerOf(headers: Record<string, string>, more: object = {}): Promise<string> {
  const response = await post(house!.url, path, chatBody(more), headers)
  await response.text()
  return response.headers.get('x-warmroute-worker-id') ?? `status ${response.status}`
}

/** The workers of `times` requests, one after the other. */
async function workersOf(headers: Record<string, string>, times = 4): Promise<string[]> {
  const workers: string[] = []
  for (let at = 0; at < times; at++) workers.push(await workerOf(headers))
  return workers
}

describe('a conversation stays with one worker', () => {
  it.each<[string, Record<string, string>]>([
    ["upstream's own", { 'x-dynamo-session-id': 'a' }],
    ['Claude Code', { 'x-claude-code-session-id': 'a' }],
    ['an agent of Claude Code', { 'x-claude-code-session-id': 'a', 'x-claude-code-agent-id': 'x' }],
    ['Codex', { 'thread-id': 'a', 'x-codex-parent-thread-id': 'p' }],
    ['OpenCode', { 'x-session-id': 'a', 'x-parent-session-id': 'p' }],
  ])('in the spelling of %s', async (_says, headers) => {
    await open()
    expect(new Set(await workersOf(headers)).size).toBe(1)
    expect(new Set(await workersOf({})).size).toBe(3) // nobody else is held
  })

  it('and an agent of it may have another', async () => {
    await open()
    const main = await workerOf({ 'x-claude-code-session-id': 'a' })
    expect(await workerOf({ 'x-claude-code-session-id': 'a', 'x-claude-code-agent-id': 'x' })).not.toBe(main)
    expect(await workerOf({ 'x-claude-code-session-id': 'a' })).toBe(main)
  })

  it('unless affinity is off', async () => {
    await open({ model: { sessionAffinityTtlSecs: undefined } })
    expect(new Set(await workersOf(session('a'), 3)).size).toBe(3)
  })

  it('until it was idle for its time, counted from the end of its last request', async () => {
    await open()
    const worker = await workerOf(session('a'))
    laterMs += 59_000
    expect(await workerOf(session('a'))).toBe(worker)
    laterMs += 2_000
    expect(await workerOf(session('b'))).not.toBe(worker) // the router's turn is another's by now
    expect(await workerOf(session('a'))).toBe(worker)
    laterMs += 61_000
    expect(await workerOf(session('a'))).not.toBe(worker)
  })

  it('until its last turn', async () => {
    await open()
    const worker = await workerOf(session('a'))
    expect(await workerOf({ ...session('a'), 'x-dynamo-session-final': 'true' })).toBe(worker)
    expect(await workerOf(session('a'))).not.toBe(worker)
  })

  it('until its worker leaves', async () => {
    const { gateway } = await open()
    const worker = await workerOf(session('a'))
    gateway.removeWorker(BigInt(worker))
    const next = await workersOf(session('a'))
    expect(new Set(next).size).toBe(1)
    expect(next[0]).not.toBe(worker)
  })
})

describe('while the first request of a session chooses', () => {
  /** Holds back every answer until it is let go. */
  function slowRouter(): { router: RouterPort; asked: () => number; letGo: () => void } {
    const router = createPolicyRouter({ policy: 'round-robin' })
    const route = router.route.bind(router)
    let count = 0
    let letGo: () => void = () => {}
    const gate = new Promise<void>((resolve) => (letGo = resolve))
    router.route = async (request) => {
      count++
      await gate
      return route(request)
    }
    return { router, asked: () => count, letGo }
  }

  async function until(holds: () => boolean): Promise<void> {
    while (!holds()) await new Promise((resolve) => setImmediate(resolve))
  }

  it('the others wait for it, and follow', async () => {
    const { router, asked, letGo } = slowRouter()
    const { gateway } = await open({ router })
    const workers = [workerOf(session('a')), workerOf(session('a')), workerOf(session('a'))]
    await until(() => gateway.inFlight === 3 && asked() > 0)
    expect(asked()).toBe(1)
    letGo()
    expect(new Set(await Promise.all(workers)).size).toBe(1)
  })

  it('one that leaves is not waited for, and the next chooses', async () => {
    const { router, asked, letGo } = slowRouter()
    const { gateway, url } = await open({ router })
    const leaving = new AbortController()
    const first = fetch(`${url}${path}`, {
      method: 'POST',
      headers: session('a'),
      body: chatBody(),
      signal: leaving.signal,
    })
    await until(() => asked() === 1)
    const second = workerOf(session('a'))
    await until(() => gateway.inFlight === 2)
    leaving.abort()
    await expect(first).rejects.toThrow()
    letGo()
    expect(await second).toMatch(/^[123]$/)
    expect(asked()).toBe(2)
  })
})

describe('a worker that fails its session', () => {
  it('loses it: the request goes to another once, and the session stays there', async () => {
    const { engines } = await open()
    const worker = await workerOf(session('a'))
    engines[Number(worker) - 1]!.respond = (_request, response) => void response.destroy()
    const next = await workersOf(session('a'))
    expect(new Set(next).size).toBe(1)
    expect(next[0]).not.toBe(worker)
  })

  it('keeps it when the client only left', async () => {
    const { engines, url } = await open()
    const worker = await workerOf(session('a'))
    const engine = engines[Number(worker) - 1]!
    const usual = engine.respond
    engine.respond = (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      for (const frame of chatFrames('m').slice(0, 2)) response.write(frame)
    }
    const leaving = new AbortController()
    const body = chatBody({ stream: true })
    const response = await fetch(`${url}${path}`, {
      method: 'POST',
      headers: session('a'),
      body,
      signal: leaving.signal,
    })
    await response.body!.getReader().read()
    const aborted = engine.nextAbort()
    leaving.abort()
    await aborted
    engine.respond = usual
    expect(await workerOf(session('a'))).toBe(worker)
  })
})

it('refuses a request that names another worker than its session has, and takes one that names the same', async () => {
  await open()
  const worker = await workerOf(session('a'))
  expect(await workerOf({ ...session('a'), 'x-dynamo-worker-instance-id': worker })).toBe(worker)
  const other = worker === '1' ? '2' : '1'
  const refused = await post(house!.url, path, chatBody(), { ...session('a'), 'x-dynamo-worker-instance-id': other })
  expect(refused.status).toBe(400)
  expect(await refused.text()).toContain('WR_SESSION_TARGET_MISMATCH')
})

it('shows a dry run where its session lives, and lets it neither begin nor prolong one', async () => {
  await open()
  const dry = { nvext: { annotations: ['query_instance_id:'] } }
  const chosen = async (): Promise<string> => {
    const response = await post(house!.url, path, chatBody(dry), session('a'))
    return String(
      ((await response.json()) as { nvext: { worker_id: { decode_worker_id: number } } }).nvext.worker_id
        .decode_worker_id,
    )
  }
  /** Dry runs take no turn, other requests do: without a session the answer goes round. */
  const goesRound = async (): Promise<number> => {
    const seen = new Set<string>()
    for (let turn = 0; turn < 3; turn++) {
      seen.add(await chosen())
      await workerOf({})
    }
    return seen.size
  }
  expect(await goesRound()).toBe(3) // no session was begun
  const worker = await workerOf(session('a'))
  expect(await chosen()).toBe(worker)
  laterMs += 59_000
  expect(await chosen()).toBe(worker)
  laterMs += 2_000
  expect(await goesRound()).toBe(3)
})

describe('routers that share sessions', () => {
  let peer: { readonly gateway: Gateway; readonly url: string; readonly router: RouterPort } | undefined
  // Before the house is closed, which is where nothing may be left.
  afterEach(async () => {
    await peer?.gateway.close()
    await peer?.router.close()
    peer = undefined
  })

  /** Two gateways over the same three engines, each with a router that takes its own turns. */
  async function openPeers(): Promise<InProcessAffinityCarrier> {
    const carrier = new InProcessAffinityCarrier()
    const { engines } = await open({ gateway: { sessionPeers: { routerId: 1n, carrier } } })
    const workers = engines.map((engine, at) => ({ id: BigInt(at + 1), url: engine.url, engine: 'vllm' as const }))
    const router = createPolicyRouter({ policy: 'round-robin' })
    const gateway = createGateway({
      listen: { port: 0 },
      health: { intervalMs: 0, metricsMs: 0 },
      now: () => performance.now() + laterMs,
      sessionPeers: { routerId: 2n, carrier },
      models: [{ name: 'm', blockSize: 16, router, workers, sessionAffinityTtlSecs: 60 }],
    })
    peer = { gateway, router, url: (await gateway.listen()).url }
    return carrier
  }

  const atPeer = async (headers: Record<string, string>): Promise<string> => {
    const response = await post(peer!.url, path, chatBody(), headers)
    await response.text()
    return response.headers.get('x-warmroute-worker-id') ?? `status ${response.status}`
  }
  const news = (it: Pick<House, 'gateway'>): string[] =>
    it.gateway.metrics.registry.text().match(/^warmroute_session_affinity_events_total.*$/gm) ?? []

  it('a conversation stays where another router bound it, and both say what they told and heard', async () => {
    await openPeers()
    await workerOf({}) // their turns differ from here on
    const worker = await workerOf(session('a'))
    for (let turn = 0; turn < 3; turn++) expect(await atPeer(session('a'))).toBe(worker)
    expect(await workerOf(session('a'))).toBe(worker)
    const labels = 'model="m",outcome="sent",worker_type="decode"'
    expect(news(house!)).toContain(`warmroute_session_affinity_events_total{${labels}} 3`) // bound, ended, ended
    expect(news(peer!).some((line) => line.includes('outcome="applied"'))).toBe(true)
  })

  it('using it anywhere keeps it everywhere', async () => {
    await openPeers()
    await workerOf({})
    const worker = await workerOf(session('a'))
    // Each of them only hears of the other's use when its own would have lapsed.
    for (let turn = 0; turn < 3; turn++) {
      laterMs += 40_000
      expect(await atPeer(session('a'))).toBe(worker)
      laterMs += 40_000
      expect(await workerOf(session('a'))).toBe(worker)
    }
  })

  it('a worker that only one of them has is not believed', async () => {
    await openPeers()
    await workerOf({})
    const worker = await workerOf(session('a'))
    const ignored = (): boolean => news(peer!).some((line) => line.includes('outcome="ignored"'))
    expect(ignored()).toBe(false)
    peer!.gateway.removeWorker(BigInt(worker))
    await workerOf(session('a'))
    expect(ignored()).toBe(true)
    expect(await atPeer(session('a'))).not.toBe(worker)
  })
})
