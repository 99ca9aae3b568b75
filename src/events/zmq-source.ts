/**
 * The sockets of a fleet's event streams: per rank a SUB that follows it, and a DEALER for each replay that its machine
 * asks for. All on the thread that made them: a ZeroMQ socket that is open when its thread ends aborts the process.
 *
 * libzmq reconnects by itself; what matters here is to hear of it. Its notices come by another way than its frames: those of
 * a connection that is over may still wait to be read when the notices of its end and of the next one are through, and
 * look like the next one's. They are dropped. The other way round nothing is mixed up: the next connection is subscribed
 * by this thread, once it has been told that the one before is over.
 *
 * Frames beyond the receive high-water mark are dropped
 * by libzmq and found by their numbers, so memory stays bounded and the loss is repaired like any other.
 */
import { context, Dealer, Subscriber } from 'zeromq'
import type { Feed, FeedOptions } from './feed.js'
import type { Intake, IntakeOptions } from './intake.js'
import { inTurns } from './turns.js'
import { isUnder, readReplayReply, readSequence, replayRequest } from './replay-reply.js'

export interface ZmqFeedOptions extends Omit<FeedOptions, 'hasReplay'> {
  readonly endpoint: string
  readonly replayEndpoint?: string | undefined
  /** Steps to be over before the stream connects: what a snapshot gave is put in its place. One rank after the other. */
  readonly prepare?: ((feed: Feed) => Generator<undefined, unknown, void>) | undefined
  /** Subscribed by prefix; engines append to it. Default: everything. */
  readonly topic?: string | undefined
}

export interface ZmqSourceOptions {
  readonly receiveHighWaterMark?: number
  /** A larger message ends the connection. */
  readonly messageBytesMax?: number
  readonly reconnectMs?: number
  readonly reconnectMsMax?: number
  readonly tickMs?: number
  /** Milliseconds that only grow. */
  readonly now?: () => number
}

const heartbeatMs = 5000
const heartbeatMsMax = 15_000

interface Followed {
  readonly feed: Feed
  readonly options: ZmqFeedOptions
  readonly sub: Subscriber
  finished: Promise<unknown>
  /** So many frames at most may be left of connections that are over. */
  leftovers: number
  replay: { readonly ticket: number; readonly socket: Dealer; readonly finished: Promise<void> } | undefined
}

export class ZmqSource {
  readonly intake: Intake
  readonly #options: Required<ZmqSourceOptions>
  readonly #followed = new Map<Feed, Followed>()
  readonly #timer: NodeJS.Timeout
  #preparing: Promise<unknown> = Promise.resolve()
  #flushing: NodeJS.Immediate | undefined
  #isClosed = false

  /** `newIntake` is handed the two callbacks that only sockets can provide. */
  constructor(
    newIntake: (wiring: Pick<IntakeOptions, 'requestReplay' | 'onPending'>) => Intake,
    options: ZmqSourceOptions = {},
  ) {
    // libzmq stops at 1,023 sockets otherwise, and a rank takes three: its own and two that tell of its connection. Counts before the first one.
    context.maxSockets = context.maxSocketsLimit
    this.#options = {
      receiveHighWaterMark: 10_000,
      messageBytesMax: 32 << 20,
      reconnectMs: 100,
      reconnectMsMax: 5000,
      tickMs: 100,
      now: () => performance.now(),
      ...options,
    }
    this.intake = newIntake({
      requestReplay: (feed, from, ticket) => this.#startReplay(feed, from, ticket),
      onPending: () => {
        this.#flushing ??= setImmediate(() => this.#flush())
      },
    })
    this.#timer = setInterval(() => this.#tick(), this.#options.tickMs)
    this.#timer.unref()
  }

  /** Follows a rank's stream until `unfollow` or `close`. Connecting before the engine is up is fine. */
  follow(options: ZmqFeedOptions): Feed {
    const feed = this.intake.addFeed({ ...options, hasReplay: options.replayEndpoint !== undefined })
    const sub = new Subscriber({
      receiveHighWaterMark: this.#options.receiveHighWaterMark,
      maxMessageSize: this.#options.messageBytesMax,
      reconnectInterval: this.#options.reconnectMs,
      reconnectMaxInterval: this.#options.reconnectMsMax,
      heartbeatInterval: heartbeatMs,
      heartbeatTimeout: heartbeatMsMax,
      heartbeatTimeToLive: heartbeatMsMax,
      tcpKeepalive: 1,
      linger: 0,
      ipv6: isIpv6(options.endpoint),
    })
    const followed: Followed = { feed, options, sub, finished: Promise.resolve(), leftovers: 0, replay: undefined }
    sub.events.on('handshake', () => feed.machine.connected(this.#options.now()))
    sub.events.on('disconnect', () => {
      followed.leftovers = sub.readable ? this.#options.receiveHighWaterMark : 0
      feed.machine.disconnected(this.#options.now())
    })
    sub.subscribe(options.topic ?? '')
    followed.finished = Promise.all([this.#receive(followed), this.#connect(followed)])
    this.#followed.set(feed, followed)
    return feed
  }

  async unfollow(feed: Feed): Promise<void> {
    const followed = this.#followed.get(feed)
    if (!followed) return
    this.#followed.delete(feed)
    this.intake.removeFeed(feed.rank)
    followed.replay?.socket.close()
    followed.sub.close()
    await Promise.all([followed.finished, followed.replay?.finished])
  }

  /** Settles when no socket and no timer of it is left. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#timer)
    const closing = [...this.#followed.values()].map(async ({ sub, finished, replay }) => {
      replay?.socket.close()
      sub.close()
      await Promise.all([finished, replay?.finished])
    })
    this.#followed.clear()
    await Promise.all(closing)
    if (this.#flushing) clearImmediate(this.#flushing)
    this.intake.flush()
  }

  /** At once, where nothing comes before. */
  async #connect({ sub, feed, options: { endpoint, prepare } }: Followed): Promise<void> {
    if (prepare) {
      const prepared = this.#preparing.then(() => inTurns(prepare(feed), { isOver: () => sub.closed }))
      this.#preparing = prepared.catch(() => undefined)
      await prepared
    }
    if (!sub.closed) sub.connect(endpoint)
  }

  async #receive(followed: Followed): Promise<void> {
    const { sub, feed } = followed
    for await (const frames of sub) {
      if (followed.leftovers > 0) {
        followed.leftovers = sub.readable ? followed.leftovers - 1 : 0
        feed.machine.dropped()
        continue
      }
      if (frames.length !== 3) {
        feed.countFault('bad_frame_count')
        continue
      }
      const sequence = readSequence(frames[1]!)
      if (sequence === undefined) feed.countFault('bad_sequence')
      else feed.machine.frame(sequence, frames[2]!, this.#options.now())
    }
  }

  #startReplay(feed: Feed, from: number, ticket: number): void {
    const followed = this.#followed.get(feed)
    const replayEndpoint = followed?.options.replayEndpoint
    if (!followed || !replayEndpoint || this.#isClosed) return
    followed.replay?.socket.close()
    const socket = new Dealer({
      linger: 0,
      maxMessageSize: this.#options.messageBytesMax,
      receiveHighWaterMark: 1000,
      ipv6: isIpv6(replayEndpoint),
    })
    socket.connect(replayEndpoint)
    followed.replay = { ticket, socket, finished: this.#replay(socket, followed, from, ticket) }
  }

  /** Ends with the replay, or when the machine has stopped waiting and `#tick` closes the socket. */
  async #replay(socket: Dealer, { feed, options }: Followed, from: number, ticket: number): Promise<void> {
    const { machine } = feed
    const prefix = Buffer.from(options.topic ?? '')
    try {
      await socket.send(replayRequest(from))
      for await (const frames of socket) {
        const reply = readReplayReply(frames)
        const isForeign = reply.kind === 'batch' && !isUnder(reply.topic, prefix)
        if (reply.kind === 'broken' || isForeign) {
          feed.countFault(isForeign ? 'foreign_topic' : 'bad_replay_reply')
          machine.replayFailed(ticket, this.#options.now())
        } else if (reply.kind === 'end') machine.replayEnded(ticket, this.#options.now())
        else machine.replayFrame(ticket, reply.sequence, reply.payload, this.#options.now())
        if (!machine.isWaitingFor(ticket)) break
      }
    } catch {
      machine.replayFailed(ticket, this.#options.now()) // closed under it, or the endpoint cannot be reached
    } finally {
      socket.close()
    }
  }

  #tick(): void {
    const now = this.#options.now()
    for (const followed of this.#followed.values()) {
      const { machine } = followed.feed
      if (now >= machine.nextDeadline) machine.tick(now)
      const { replay } = followed
      if (replay && !replay.socket.closed && !machine.isWaitingFor(replay.ticket)) replay.socket.close()
    }
  }

  #flush(): void {
    this.#flushing = undefined
    this.intake.flush()
  }
}

/** ZeroMQ wants to be told. A name is looked up as IPv4, as it always was. */
function isIpv6(endpoint: string): boolean {
  return endpoint.startsWith('tcp://[')
}
