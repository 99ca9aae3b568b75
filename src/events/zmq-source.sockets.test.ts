import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, expect, it } from 'vitest'
import { Publisher, Router } from 'zeromq'
import { NaiveSink } from '../../test/naive-sink.js'
import { createBlockHasher } from '../core/hashing/index.js'
import type { PlainEvent } from './fill-batch.case.js'
import { PlainDecoder } from './fill-batch.case.js'
import { Intake } from './intake.js'
import { replayRequest } from './replay-reply.js'
import type { ZmqSourceOptions } from './zmq-source.js'
import { ZmqSource } from './zmq-source.js'

const closers: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

const decoder = new PlainDecoder()
const store = (hash: bigint): PlainEvent => ({ kind: 'stored', hashes: [hash], tokens: [Number(hash), 1] })

/**
 * A free port may be given to two processes at once, as both sockets let others have their address until they listen: the later one fails and
 * takes another. A port that is named is free when the one before it has let go of it.
 */
async function bound(bind: () => Promise<void>): Promise<void> {
  for (let left = 200; ; left--) {
    try {
      return await bind()
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE' || left === 0) throw error
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
}

/** A publisher with a replay socket, as engines have them; `framesPerReply` 3 is the older form. */
class Engine {
  readonly pub: Publisher
  readonly router = new Router({ linger: 0 })
  readonly ring: [number, Uint8Array][] = []
  endpoint = ''
  replayEndpoint = ''
  sequence = 0
  asked = 0
  framesPerReply = 4
  #serving = Promise.resolve()

  constructor(sendHighWaterMark = 1000) {
    this.pub = new Publisher({ linger: 0, sendHighWaterMark })
  }

  async start(port = 0, replayPort = 0): Promise<this> {
    closers.push(() => this.stop())
    await bound(() => this.pub.bind(`tcp://127.0.0.1:${port || '*'}`))
    await bound(() => this.router.bind(`tcp://127.0.0.1:${replayPort || '*'}`))
    this.endpoint = this.pub.lastEndpoint!
    this.replayEndpoint = this.router.lastEndpoint!
    this.#serving = this.#serve()
    return this
  }

  async publish(...events: PlainEvent[]): Promise<void> {
    return this.send(decoder.add(events))
  }

  async send(payload: Uint8Array): Promise<void> {
    const sequence = this.sequence++
    this.ring.push([sequence, payload])
    await this.pub.send(['kv-events', replayRequest(sequence)[1], payload])
  }

  async stop(): Promise<void> {
    this.pub.close()
    this.router.close()
    await this.#serving
  }

  async #serve(): Promise<void> {
    for await (const [identity, , start] of this.router) {
      this.asked++
      const from = Number(start!.readBigUInt64BE())
      const topic = this.framesPerReply === 4 ? ['kv-events'] : []
      for (const [sequence, payload] of this.ring.filter(([it]) => it >= from)) {
        await this.router.send([identity!, '', ...topic, replayRequest(sequence)[1], payload])
      }
      await this.router.send([identity!, '', ...topic.map(() => ''), Buffer.alloc(8, 255), ''])
    }
  }
}

function newSource(options: ZmqSourceOptions = {}) {
  const sink = new NaiveSink()
  const hasher = createBlockHasher()
  const source = new ZmqSource((wiring) => new Intake({ decoder, sink, hasher, blockSize: 2, seed: 1, ...wiring }), {
    reconnectMs: 10,
    tickMs: 10,
    ...options,
  })
  closers.push(() => source.close())
  return { sink, source }
}

/** Turns of the event loop until something is true; the test's own limit ends it. */
async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await nextTurn()
}

it.each([4, 3])('joins late through a replay of %i frames, then follows the stream', async (framesPerReply) => {
  const engine = await new Engine().start()
  engine.framesPerReply = framesPerReply
  await engine.publish(store(1n))
  await engine.publish(store(2n))
  const { sink, source } = newSource()
  const { endpoint, replayEndpoint } = engine
  const feed = source.follow({ rank: 0, dpRank: 0, endpoint, replayEndpoint, topic: 'kv' })
  await until(() => feed.machine.state === 'live')
  await until(() => sink.held(0).size === 2)
  await engine.publish(store(3n))
  await until(() => sink.held(0).size === 3)
  expect(feed.status(0)).toMatchObject({ isComplete: true, isCredited: true, lastSequence: 2 })
})

it('finds a restarted engine, drops what the old one held and learns the new one from its first batch', async () => {
  const first = await new Engine().start()
  const { sink, source } = newSource()
  const { endpoint, replayEndpoint } = first
  const feed = source.follow({ rank: 0, dpRank: 0, endpoint, replayEndpoint })
  await until(() => feed.machine.state === 'live')
  await first.publish(store(1n))
  await until(() => sink.held(0).size === 1)
  await first.stop()
  await until(() => feed.machine.state === 'suspect')
  expect(source.intake.isCredited(0)).toBe(false)
  const second = await new Engine().start(portOf(endpoint), portOf(replayEndpoint))
  await second.publish(store(2n)) // before anybody listens
  await until(() => feed.machine.state === 'live')
  await until(() => sink.held(0).has(2n))
  expect([...sink.held(0)]).toEqual([2n])
  expect(feed.status(0).purges.restart).toBe(1)
})

/**
 * An engine process that sends 3,000 batches at once, is gone, and comes back with the very next number. Only another
 * process can do that while our loop stands still.
 */
const restartingEngine = `
import { writeFileSync } from 'node:fs'
import { XPublisher } from 'zeromq'
const [, old, young, marker] = process.argv
const frame = (sequence, payload) => ['kv', Buffer.from(sequence.toString(16).padStart(16, '0'), 'hex'), Buffer.from(payload, 'hex')]
const first = new XPublisher({ linger: 2000, sendHighWaterMark: 0 })
await first.bind('tcp://127.0.0.1:*')
const endpoint = first.lastEndpoint
console.log(endpoint)
await first.receive()
for (let sequence = 0; sequence < 3000; sequence++) await first.send(frame(sequence, old))
first.close()
const second = new XPublisher({ linger: 0 })
for (;;) {
  const isBound = await second.bind(endpoint).then(() => true, () => false)
  if (isBound) break
  await new Promise((done) => setTimeout(done, 10))
}
writeFileSync(marker, '')
await second.receive()
for (let sequence = 3000; ; sequence++) {
  await second.send(frame(sequence, young))
  await new Promise((done) => setTimeout(done, 5))
}`

it('does not take what is left of a connection for the next one, when its end is heard late', async () => {
  const [old, young] = [store(1n), store(2n)].map((event) => Buffer.from(decoder.add([event])).toString('hex'))
  const folder = mkdtempSync(join(tmpdir(), 'warmroute-leftovers-'))
  const marker = join(folder, 'is-back')
  const engine = spawn(process.execPath, ['--input-type=module', '-e', restartingEngine, old!, young!, marker], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  closers.push(() => {
    engine.kill('SIGKILL')
    rmSync(folder, { recursive: true })
  })
  const [endpoint] = (await once(engine.stdout, 'data')) as [Buffer]
  const { sink, source } = newSource()
  const feed = source.follow({ rank: 0, dpRank: 0, endpoint: String(endpoint).trim() })
  await until(() => feed.machine.state === 'live')
  const standStill = (ms: number): unknown => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
  for (let waited = 0; !existsSync(marker) && waited < 20_000; waited += 20) standStill(20)
  standStill(300) // until we are connected again, which nobody tells to a loop that stands still
  await until(() => sink.held(0).has(2n))
  expect([...sink.held(0)]).toEqual([2n])
  expect(feed.status(0).machine.droppedFrames).toBeGreaterThan(0)
})

it('finds what was dropped when more came than may wait, and has it replayed', async () => {
  const engine = await new Engine(10).start()
  const { sink, source } = newSource({ receiveHighWaterMark: 10 })
  const { endpoint, replayEndpoint } = engine
  const feed = source.follow({ rank: 0, dpRank: 0, endpoint, replayEndpoint })
  await until(() => feed.machine.state === 'live')
  await engine.publish(store(1n))
  await until(() => sink.held(0).size === 1)
  const large = Buffer.concat([decoder.add([store(2n)]), Buffer.alloc(65_536)])
  for (let count = 0; count < 400; count++) await engine.send(large) // without a turn of the loop: nobody reads meanwhile
  await engine.publish(store(3n))
  const nothing = decoder.add([])
  while (feed.machine.lastSequence < 401) {
    await engine.send(nothing) // what was lost shows with what comes next
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  await until(() => sink.held(0).size === 3)
  expect(feed.machine.counters.gaps).toBeGreaterThan(0)
  expect(feed.status(0)).toMatchObject({ isComplete: true, ledger: { doubledBlocks: 399 } }) // each of them, once
})

it('counts frames that are none and goes on', async () => {
  const engine = await new Engine().start()
  const { sink, source } = newSource()
  const feed = source.follow({ rank: 0, dpRank: 0, endpoint: engine.endpoint, replayEndpoint: engine.replayEndpoint })
  await until(() => feed.machine.state === 'live')
  await engine.pub.send(['only', 'two'])
  await engine.pub.send(['a', 'short', 'payload'])
  await engine.publish(store(1n))
  await until(() => sink.held(0).size === 1)
  expect(feed.status(0).decodeErrors).toEqual({ bad_frame_count: 1, bad_sequence: 1 })
})

it('connects when what comes first is done, one rank after the other, and not at all once it is unfollowed', async () => {
  const engine = await new Engine().start()
  const { source } = newSource()
  const { endpoint, replayEndpoint } = engine
  const done: string[] = []
  let isHeld = true
  function* prepare(name: string): Generator<undefined, void, void> {
    while (isHeld) {
      const from = performance.now()
      while (performance.now() - from < 5); // longer than a turn may take
      yield
    }
    done.push(name)
  }
  const follow = (rank: number, name: string) =>
    source.follow({ rank, dpRank: 0, endpoint, replayEndpoint, prepare: () => prepare(name) })
  const [first, second, third] = [follow(0, 'first'), follow(1, 'second'), follow(2, 'third')]
  const plain = source.follow({ rank: 3, dpRank: 0, endpoint, replayEndpoint })
  await until(() => plain.machine.state === 'live') // the loop goes on
  expect([first, second, third].map(({ machine }) => machine.state)).toEqual(Array(3).fill('connecting'))
  const isGone = source.unfollow(second!)
  isHeld = false
  await until(() => first!.machine.state === 'live' && third!.machine.state === 'live')
  await isGone
  expect(done).toEqual(['first', 'third'])
  expect(second!.machine.state).toBe('gone')
})

it('leaves nothing behind, whether a rank goes or all of it', async () => {
  const engine = await new Engine().start()
  const { sink, source } = newSource()
  const { endpoint, replayEndpoint } = engine
  const feeds = [0, 1].map((rank) => source.follow({ rank, dpRank: 0, endpoint, replayEndpoint }))
  await until(() => feeds.every((feed) => feed.machine.state === 'live'))
  await engine.publish(store(1n))
  await until(() => sink.held(0).size === 1 && sink.held(1).size === 1)
  await source.unfollow(feeds[0]!)
  expect(sink.held(0).size).toBe(0)
  expect(feeds[0]!.machine.state).toBe('gone')
  await source.close()
  expect([...source.intake.feeds()]).toHaveLength(1)
})

function portOf(endpoint: string): number {
  return Number(endpoint.slice(endpoint.lastIndexOf(':') + 1))
}
