/** What suites over a simulated server share: one that is closed after the test, its events, its replays, and requests to it. */
import { decode } from '@msgpack/msgpack'
import { afterEach } from 'vitest'
import * as zmq from 'zeromq'
import type { SimEngine } from './sim-engine.js'
import { startSimEngine } from './sim-engine.js'
import type { SimEngineOptions } from './sim-options.js'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

export async function start(options: Partial<SimEngineOptions> = {}): Promise<SimEngine> {
  const engine = await startSimEngine({ engine: 'vllm', blockTokens: 4, blocks: 64, speedup: 1000, ...options })
  closing.push(() => engine.close())
  return engine
}

export interface Received {
  readonly sequence: number
  readonly events: readonly Record<string, unknown>[]
  readonly rank: number
}

/** A subscriber that has been seen by the publisher: the first frame it gets is not lost. */
export async function subscribe(engine: SimEngine, rank = 0): Promise<Received[]> {
  const socket = new zmq.Subscriber({ linger: 0 })
  socket.subscribe('kv-events')
  const received: Received[] = []
  closing.push(() => socket.close())
  const connected = new Promise((resolve) => socket.events.on('handshake', resolve))
  socket.connect(`tcp://127.0.0.1:${engine.eventPorts[rank]}`)
  await connected
  // The subscription travels behind the handshake, and a publisher tells nobody when it has arrived.
  await new Promise((resolve) => setTimeout(resolve, 200))
  void (async () => {
    try {
      for await (const [, sequence, payload] of socket) {
        const [, events, from] = decode(payload!) as [number, Record<string, unknown>[], number]
        received.push({ sequence: Number(sequence!.readBigUInt64BE()), events, rank: from })
      }
    } catch {
      // closed at the end of the test
    }
  })()
  return received
}

export async function complete(
  engine: SimEngine,
  prompt: number[],
  body: Record<string, unknown> = {},
  headers = {},
): Promise<Response> {
  return fetch(`${engine.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ prompt, max_tokens: 1, ...body }),
    signal: AbortSignal.timeout(10_000),
  })
}

export function prompt(seed: number, length = 9): number[] {
  return Array.from({ length }, (_, index) => 300 + ((seed * 131 + index * 7) % 9000))
}

export async function cachedTokens(engine: SimEngine, tokens: number[]): Promise<number> {
  const json = (await (await complete(engine, tokens)).json()) as {
    usage: { prompt_tokens_details: { cached_tokens: number } }
  }
  return json.usage.prompt_tokens_details.cached_tokens
}

export async function replay(
  engine: SimEngine,
  frames: Uint8Array[],
  port = engine.replayPorts[0],
): Promise<Buffer[][]> {
  const dealer = new zmq.Dealer({ linger: 0, receiveTimeout: 400 })
  dealer.connect(`tcp://127.0.0.1:${port}`)
  await dealer.send(frames)
  const replies: Buffer[][] = []
  try {
    for (;;) {
      const reply = await dealer.receive()
      replies.push(reply)
      if (reply.at(-1)!.length === 0) break
    }
  } catch {
    // nothing came: the request was ignored
  }
  dealer.close()
  return replies
}

export function from(sequence: number): Uint8Array[] {
  const number = Buffer.alloc(8)
  number.writeBigUInt64BE(BigInt(sequence))
  return [Buffer.alloc(0), number]
}
