/**
 * The event sockets of one rank: PUB for batches as they come, ROUTER for replay of the last ones.
 * Batch numbers start at 0 with every new publisher, as they do when an engine restarts.
 */
import { setTimeout as pause } from 'node:timers/promises'
import * as zmq from 'zeromq'
import type { WireForm } from './kv-wire.js'

export interface PublisherOptions {
  /** `tcp://127.0.0.1:5557`; a port of `*` takes a free one. */
  readonly endpoint: string
  readonly replayEndpoint: string
  readonly topic: string
  readonly bufferSteps: number
  readonly form: WireForm
  /** How long the next replay is kept waiting, as by a publisher that sleeps between two looks. */
  readonly replayWaitMs?: () => number
}

export interface Batch {
  readonly sequence: bigint
  readonly payload: Uint8Array
}

const endOfReplay = Buffer.alloc(8, 0xff)
/** As vLLM's `max_queue_size`: a publisher that nobody can keep up with drops, it does not grow. */
const queueMax = 100_000
/** A port that was just closed, by us or by who had it before us, is free a little later than the call returns. */
const portFreeMs = 2_000
const portLookMs = 5

export class KvPublisher {
  readonly options: PublisherOptions
  readonly #topic: Buffer
  readonly #buffer: Batch[] = []
  readonly #queue: Batch[] = []
  #publisher: zmq.Publisher | undefined
  #router: zmq.Router | undefined
  #next = 0n
  /** The endpoints that were given out, so that an engine comes back where it was. */
  #bound: string | undefined
  #boundReplay: string | undefined
  #binding: Promise<void> | undefined
  /** Counts `unbind`: a bind that was begun before it comes to nothing. */
  #closings = 0
  #isSending = false
  #isRetired = false
  #isStalled = false
  #bufferSteps: number
  #dropped = 0
  #sent = 0
  #subscribers = 0

  private constructor(options: PublisherOptions) {
    zmq.context.maxSockets = zmq.context.maxSocketsLimit // 1,023 otherwise, which 255 engines use up
    this.options = options
    this.#topic = Buffer.from(options.topic)
    this.#bufferSteps = options.bufferSteps
  }

  /** `waits`: for ports that somebody else is about to leave. */
  static async open(options: PublisherOptions, waits = false): Promise<KvPublisher> {
    const publisher = new KvPublisher(options)
    await publisher.bind(waits)
    return publisher
  }

  get port(): number {
    return portOf(this.#publisher?.lastEndpoint)
  }

  get replayPort(): number {
    return portOf(this.#router?.lastEndpoint)
  }

  get isBound(): boolean {
    return this.#publisher !== undefined
  }

  /** The ports that it comes back to. */
  get ownPorts(): readonly [events: number, replay: number] {
    return [portOf(this.#bound), portOf(this.#boundReplay)]
  }

  /** Batches numbered so far, sent and dropped, and who is connected to hear them. */
  get counts(): {
    readonly numbered: bigint
    readonly sent: number
    readonly dropped: number
    readonly subscribers: number
  } {
    return { numbered: this.#next, sent: this.#sent, dropped: this.#dropped, subscribers: this.#subscribers }
  }

  /** Gives the next number to a payload and keeps it for replay; `send` puts it on the wire. */
  number(payload: Uint8Array): Batch {
    const batch = { sequence: this.#next++, payload }
    this.#buffer.push(batch)
    while (this.#buffer.length > this.#bufferSteps) this.#buffer.shift()
    return batch
  }

  send(batch: Batch): void {
    if (this.#queue.length >= queueMax) {
      this.#queue.shift()
      this.#dropped++
    }
    this.#queue.push(batch)
    void this.#pump()
  }

  /** Keeps batches back until it is called with false. */
  stall(isStalled: boolean): void {
    this.#isStalled = isStalled
    void this.#pump()
  }

  /** From now on replay reaches back only this far. */
  shorten(bufferSteps: number): void {
    this.#bufferSteps = bufferSteps
    this.#buffer.splice(0, Math.max(0, this.#buffer.length - bufferSteps))
  }

  /** Opens both sockets, on the ports they had before if they were open before. Safe to repeat. */
  bind(waits = this.#bound !== undefined): Promise<void> {
    if (this.isBound || this.#isRetired) return Promise.resolve()
    if (this.#binding) return this.#binding
    const binding = this.#open(waits).finally(() => {
      if (this.#binding === binding) this.#binding = undefined
    })
    return (this.#binding = binding)
  }

  async #open(waits: boolean): Promise<void> {
    const closings = this.#closings
    const untilMs = performance.now() + (waits ? portFreeMs : 0)
    for (;;) {
      const ipv6 = this.options.endpoint.startsWith('tcp://[')
      const publisher = new zmq.Publisher({ sendHighWaterMark: 100_000, linger: 0, ipv6 })
      const router = new zmq.Router({ linger: 0, ipv6 })
      this.#subscribers = 0
      publisher.events.on('handshake', () => this.#subscribers++)
      publisher.events.on('disconnect', () => this.#subscribers--)
      const close = (): void => {
        publisher.close()
        router.close()
      }
      try {
        await publisher.bind(this.#bound ?? this.options.endpoint)
        await router.bind(this.#boundReplay ?? this.options.replayEndpoint)
      } catch (error) {
        close()
        if (!isTaken(error) || performance.now() >= untilMs) throw error
        await pause(portLookMs)
        if (closings !== this.#closings) return
        continue
      }
      if (closings !== this.#closings) return close()
      this.#opened(publisher, router)
      return
    }
  }

  #opened(publisher: zmq.Publisher, router: zmq.Router): void {
    this.#bound = publisher.lastEndpoint ?? undefined
    this.#boundReplay = router.lastEndpoint ?? undefined
    this.#publisher = publisher
    this.#router = router
    void this.#answer(router)
  }

  /** Closes both sockets. What is published meanwhile is numbered, kept for replay, and lost on the wire. */
  unbind(): void {
    this.#closings++
    this.#binding = undefined
    this.#publisher?.close()
    this.#router?.close()
    this.#publisher = this.#router = undefined
    this.#dropped += this.#queue.length
    this.#queue.length = 0
  }

  /** For good: its engine is gone, and another publisher takes its ports. A bind that is under way comes to nothing. */
  retire(): void {
    this.#isRetired = true
    this.unbind()
  }

  async #pump(): Promise<void> {
    if (this.#isSending) return
    this.#isSending = true
    while (this.#queue.length > 0 && !this.#isStalled) {
      const batch = this.#queue.shift()!
      const socket = this.#publisher
      if (!socket) {
        this.#dropped++
        continue
      }
      try {
        await socket.send([this.#topic, sequenceFrame(batch.sequence), batch.payload])
        this.#sent++
      } catch {
        this.#dropped++ // closed while sending: what a subscriber would see of a dying engine
      }
    }
    this.#isSending = false
  }

  async #answer(router: zmq.Router): Promise<void> {
    try {
      for await (const frames of router) {
        const [client, delimiter, start] = frames
        // Anything but an empty delimiter and a number is ignored without a word, as the engines do.
        if (frames.length !== 3 || delimiter!.length > 0) continue
        const from = sequenceOf(start!)
        const waitMs = this.options.replayWaitMs?.() ?? 0
        if (waitMs > 0) await pause(waitMs, undefined, { ref: false })
        for (const { sequence, payload } of this.#buffer.filter((batch) => batch.sequence >= from))
          await router.send([
            client!,
            Buffer.alloc(0),
            ...this.#topicFrame(this.#topic),
            sequenceFrame(sequence),
            payload,
          ])
        await router.send([
          client!,
          Buffer.alloc(0),
          ...this.#topicFrame(Buffer.alloc(0)),
          endOfReplay,
          Buffer.alloc(0),
        ])
      }
    } catch {
      // The socket was closed under us: replay ends where it was.
    }
  }

  #topicFrame(topic: Buffer): Buffer[] {
    return this.options.form.isTopicReplayed ? [topic] : []
  }
}

function sequenceFrame(sequence: bigint): Buffer {
  const frame = Buffer.alloc(8)
  frame.writeBigUInt64BE(sequence)
  return frame
}

/** Big-endian of any length; nothing is 0. */
function sequenceOf(frame: Buffer): bigint {
  return frame.length === 0 ? 0n : BigInt(`0x${frame.toString('hex')}`)
}

function isTaken(error: unknown): boolean {
  return (error as { code?: unknown }).code === 'EADDRINUSE'
}

function portOf(endpoint: string | null | undefined): number {
  return endpoint ? Number(endpoint.slice(endpoint.lastIndexOf(':') + 1)) : 0
}

/** An IPv6 address stands in brackets there. */
export function hostInUrl(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}
