/**
 * Goal: whatever an engine and the wire between do, the index ends up equal to the engine's cache once the faults stop, and
 * until then a rank in good standing is not credited with a block that was lost longer ago than the detection delay.
 * Method: random request histories on small block pools, through links that drop, repeat, swap, delay and disconnect, with
 * restarts, resets and replay rings that are too short; the router itself is killed and comes back with what it saved last,
 * read while events went on; all on a virtual clock, one seed per history.
 */
import { createBlockHasher } from '../../src/core/hashing/index.js'
import { KvEventDecoder } from '../../src/engines/index.js'
import type { Feed, ImageReading, RankImage, SnapshotContext } from '../../src/events/index.js'
import { defaultRankLimits, Intake, restoreFeed, takeSnapshot } from '../../src/events/index.js'
import { NaiveSink } from '../naive-sink.js'
import type { Batch } from './fake-rank.js'
import { FakeRank } from './fake-rank.js'

export interface HistoryTotals {
  frames: number
  gaps: number
  restarts: number
  replays: number
  purges: number
  stale: number
  /** Longest time that a lost block stayed credited, in milliseconds. */
  staleCreditMs: number
  credits: number
  /** Ranks whose saved part was proved by the engine after the router was killed, and those that could not be. */
  proved: number
  unproved: number
}

/** How long engines stay silent at most, and how late a frame, or the notice of a broken connection, may come. */
const silenceMsMax = 3000
const delayMsMax = 400
const noticeMsMax = 500
const probeMs = 2000
const replayMs = 500
/**
 * The stated detection delay. A loss is known with the first frame that was published after it, however many before that
 * one were lost; where a replay socket can be asked, silence is broken by a probe, so there is also a bound in time.
 */
export const detectionMs: number = probeMs + 1000 + 3 * replayMs + 3 * 400 + noticeMsMax
/** How long a history is: a few long ones see what takes time, thousands of short ones see what is rare. */
const spans = {
  long: { faultyMs: 30_000, quietMs: 60_000, outageMsMax: 15_000 },
  short: { faultyMs: 1_500, quietMs: 8_000, outageMsMax: 1_500 },
} as const
const ranks = 2
const hasher = createBlockHasher()

interface Wire {
  readonly rank: number
  readonly engine: FakeRank
  readonly hasReplay: boolean
  readonly faultRate: number
  feed: Feed
  /** When the newest frame that has arrived was published. */
  seenUntil: number
  connection: number // frames of an older connection never arrive
  isUp: boolean
}

export interface HistoryOptions {
  readonly span?: keyof typeof spans
  /** The canary. Frames are numbered as they arrive, so that lost ones cannot be noticed. */
  readonly hidesGaps?: boolean
}

/** Runs one history; throws with the seed in the message when a claim fails. */
export function runHistory(seed: number, options: HistoryOptions = {}): HistoryTotals {
  return new History(seed, options).run()
}

class History {
  readonly #seed: number
  readonly #hidesGaps: boolean
  readonly #span: (typeof spans)[keyof typeof spans]
  readonly #random: () => number
  #sink = new NaiveSink()
  #intake: Intake
  readonly #saved = new Map<number, RankImage>()
  #isSaving = false
  #proved = 0
  #unproved = 0
  readonly #wires: Wire[] = []
  readonly #queue: { readonly at: number; readonly order: number; readonly run: () => void }[] = []
  #order = 0
  #now = 0
  #hasFaults = true
  #staleCreditMs = 0
  #credits = 0

  constructor(seed: number, { span = 'long', hidesGaps = false }: HistoryOptions) {
    this.#seed = seed
    this.#hidesGaps = hidesGaps
    this.#span = spans[span]
    this.#random = newRandom(seed)
    this.#intake = this.#newIntake()
    for (let rank = 0; rank < ranks; rank++) this.#wires.push(this.#newWire(rank))
  }

  run(): HistoryTotals {
    const { faultyMs, quietMs } = this.#span
    for (const wire of this.#wires) {
      this.#later(this.#below(2000), () => this.#connect(wire))
      this.#later(this.#below(500), () => this.#work(wire))
    }
    this.#advance(faultyMs)
    this.#hasFaults = false
    this.#advance(faultyMs + quietMs)
    for (const wire of this.#wires) this.#expectSettled(wire)
    // What a late join or a short ring hid comes back when the cache turns over: a reset is the fastest turnover.
    this.#now += 0.5
    for (const wire of this.#wires) wire.engine.reset(this.#now)
    this.#advance(faultyMs + 2 * quietMs)
    for (const wire of this.#wires) this.#expectEqual(wire)
    return this.#totals()
  }

  #newIntake(): Intake {
    return new Intake({
      decoder: new KvEventDecoder(),
      sink: this.#sink,
      hasher,
      blockSize: 4,
      seed: this.#seed,
      requestReplay: (feed, from, ticket) => this.#replay(feed, from, ticket),
    })
  }

  #newFeed(rank: number, hasReplay: boolean): Feed {
    const limits = { replayMs, probeMs, heldFramesMax: 8 + this.#below(64) }
    const onRestored = (isProved: boolean): void => void (isProved ? this.#proved++ : this.#unproved++)
    return this.#intake.addFeed({ rank, dpRank: 0, hasReplay, limits, onRestored })
  }

  #context(): SnapshotContext {
    return {
      intake: this.#intake,
      blocks: this.#sink,
      blockSize: 4,
      identityOf: (rank) => ({ workerId: 1n, dpRank: rank, source: String(rank) }),
      limits: { namesPerStep: 2, lastNamesMax: 2 },
    }
  }

  /** Reads every rank, a step every few milliseconds; one that cannot be read keeps what was saved before. */
  #save(intake: Intake, readings: readonly ImageReading[]): void {
    const [first, ...others] = readings
    if (this.#intake !== intake) return // of the router that was killed
    this.#isSaving = first !== undefined
    if (!first) return
    const step = first.next()
    if (step.done && step.value) this.#saved.set(step.value.dpRank, step.value)
    this.#later(1 + this.#below(20), () => this.#save(intake, step.done ? others : readings))
  }

  /** The router is killed, and comes back with the last that it saved. */
  #reboot(): void {
    this.#isSaving = false
    this.#sink = new NaiveSink()
    this.#intake = this.#newIntake()
    for (const wire of this.#wires) {
      wire.feed = this.#newFeed(wire.rank, wire.hasReplay)
      wire.seenUntil = -1
      wire.isUp = false
      wire.connection++
      const image = this.#saved.get(wire.rank)
      if (image) restoreFeed(this.#context(), wire.feed, image)
      this.#later(1 + this.#below(300), () => this.#connect(wire))
    }
  }

  #newWire(rank: number): Wire {
    const slots = 6 + this.#below(20)
    const ring = this.#below(3) === 0 ? 1 + this.#below(4) : 1000
    const engine = new FakeRank(slots, ring, this.#random)
    const hasReplay = this.#below(3) !== 0 && !this.#hidesGaps
    const feed = this.#newFeed(rank, hasReplay)
    return { rank, engine, hasReplay, faultRate: this.#below(40), feed, seenUntil: -1, connection: 0, isUp: false }
  }

  /** The engine serves requests for ever, at uneven distances; sometimes something happens to it. */
  #work(wire: Wire): void {
    const { engine } = wire
    const dice = this.#below(200)
    if (this.#hasFaults && dice === 0) this.#restart(wire)
    else if (dice === 1) engine.reset(this.#now)
    else if (this.#hasFaults && dice === 2) this.#breakLink(wire)
    else if (this.#hasFaults && dice === 3 && !this.#hidesGaps) this.#reboot()
    else if (this.#hasFaults && dice > 3 && dice < 8 && !this.#isSaving)
      this.#save(this.#intake, [...takeSnapshot(this.#context())])
    else {
      const length = 1 + this.#below(5)
      const family = this.#below(3)
      const chain = Array.from({ length }, (_, depth) => (depth < 2 ? family : this.#below(4)) + 10 * depth)
      const batch = engine.request(chain, this.#now)
      if (batch) this.#send(wire, batch)
    }
    const pause = 1 + (this.#below(20) === 0 ? this.#below(silenceMsMax) : this.#below(200)) // losses and frames never share a time
    this.#later(pause, () => this.#work(wire))
  }

  #send(wire: Wire, batch: Batch): void {
    if (!wire.isUp) return
    const isFaulty = this.#hasFaults && this.#below(100) < wire.faultRate
    const fault = isFaulty ? this.#below(4) : -1
    if (fault === 0) return // lost
    const delay = fault === 1 ? this.#below(delayMsMax) : 2 // delayed past its successors, or in time
    const copies = fault === 2 ? 2 : 1
    const { connection } = wire
    const published = this.#now
    for (let copy = 0; copy < copies; copy++) {
      this.#later(delay + copy * this.#below(300), () => {
        if (wire.connection !== connection) return
        wire.seenUntil = Math.max(wire.seenUntil, published)
        const sequence = this.#hidesGaps ? wire.feed.machine.lastSequence + 1 : batch.sequence
        wire.feed.machine.frame(sequence, batch.payload, this.#now)
        this.#intake.flush()
      })
    }
  }

  #connect(wire: Wire): void {
    if (wire.isUp) return
    wire.isUp = true
    wire.connection++
    const { connection } = wire
    // The subscription reaches the publisher at once; the notice of it may come after the first frames.
    this.#later(this.#below(20), () => {
      if (wire.connection === connection && wire.isUp) wire.feed.machine.connected(this.#now)
    })
  }

  #breakLink(wire: Wire, outageMsMin = 0): void {
    if (!wire.isUp) return
    wire.isUp = false
    wire.connection++
    const { connection } = wire
    const notice = this.#below(noticeMsMax)
    this.#later(notice, () => {
      if (wire.connection === connection) wire.feed.machine.disconnected(this.#now)
    })
    this.#later(
      Math.max(notice, outageMsMin) + 1 + this.#below(this.#below(4) === 0 ? this.#span.outageMsMax : 1500),
      () => this.#connect(wire),
    )
  }

  /** A process is replaced: its connection dies with it, and no engine is back faster than `restartMsMin`. */
  #restart(wire: Wire): void {
    wire.engine.restart(this.#now)
    this.#breakLink(wire, defaultRankLimits.restartMsMin)
  }

  #replay(feed: Feed, from: number, ticket: number): void {
    const wire = this.#wires.find((it) => it.feed === feed)
    if (!wire) return // of the router that was killed
    const incarnation = wire.engine.incarnation
    if (!wire.isUp) return // nobody answers; the deadline ends it
    if (this.#hasFaults && this.#below(8) === 0) {
      this.#later(this.#below(300), () => feed.machine.replayFailed(ticket, this.#now))
      return
    }
    const goesSilent = this.#hasFaults && this.#below(10) === 0
    this.#later(this.#below(100), () => {
      if (wire.engine.incarnation !== incarnation) return
      const batches = wire.engine.replayFrom(from)
      batches.forEach((batch, index) => {
        this.#later(index, () => {
          feed.machine.replayFrame(ticket, batch.sequence, batch.payload, this.#now)
          this.#intake.flush()
        })
      })
      if (!goesSilent) this.#later(batches.length + 1, () => feed.machine.replayEnded(ticket, this.#now))
    })
  }

  #advance(until: number): void {
    for (;;) {
      const next = this.#queue.reduce<number>(
        (best, event, index) => (isBefore(event, this.#queue[best]) ? index : best),
        -1,
      )
      const deadline = Math.min(...this.#wires.map((wire) => wire.feed.machine.nextDeadline))
      const at = Math.min(next < 0 ? Number.POSITIVE_INFINITY : this.#queue[next]!.at, Math.max(deadline, this.#now))
      if (at > until) break
      this.#now = at
      if (next >= 0 && this.#queue[next]!.at <= at) this.#queue.splice(next, 1)[0]!.run()
      else for (const wire of this.#wires) wire.feed.machine.tick(this.#now)
      this.#intake.flush()
      for (const wire of this.#wires) this.#judgeCredit(wire)
    }
    this.#now = until
  }

  #judgeCredit(wire: Wire): void {
    if (!this.#intake.isCredited(wire.rank)) return
    for (const hash of this.#sink.held(wire.rank)) {
      this.#credits++
      if (wire.engine.cached.has(hash)) continue
      const lostAt = wire.engine.lostAt.get(hash) ?? Number.NEGATIVE_INFINITY
      const since = this.#now - lostAt
      if (lostAt <= wire.seenUntil)
        this.#fail(wire, `a block lost ${since} ms ago is credited after a later frame came`)
      if (!wire.hasReplay) continue
      this.#staleCreditMs = Math.max(this.#staleCreditMs, since)
      if (since > detectionMs) this.#fail(wire, `a block lost ${since} ms ago is still credited`)
    }
  }

  /** Faults are over: the rank is live, and what it is credited with is true; all of it where history was whole. */
  #expectSettled(wire: Wire): void {
    const { machine } = wire.feed
    if (machine.state !== 'live') this.#fail(wire, `still ${machine.state} long after the last fault`)
    if (machine.isComplete) this.#compare(wire)
  }

  #expectEqual(wire: Wire): void {
    if (wire.feed.machine.state !== 'live') this.#fail(wire, `${wire.feed.machine.state} at the end`)
    this.#compare(wire)
  }

  #compare(wire: Wire): void {
    const held = this.#sink.held(wire.rank)
    const missing = [...wire.engine.cached.keys()].filter((hash) => !held.has(hash))
    const extra = [...held].filter((hash) => !wire.engine.cached.has(hash))
    const isInFlight = this.#queue.length > ranks // a frame of this very moment
    const owesClear = wire.engine.owesClear // an idle engine says that it was reset only with its next step
    if (!isInFlight && !owesClear && (missing.length > 0 || extra.length > 0)) {
      this.#fail(wire, `index and cache differ: ${missing.length} missing, ${extra.length} too many`)
    }
  }

  #fail(wire: Wire, what: string): never {
    const status = JSON.stringify(wire.feed.status(this.#now / 1000), (_, value: unknown) => value)
    throw new Error(`seed ${this.#seed}, rank ${wire.rank}, at ${this.#now} ms: ${what}\n${status}`)
  }

  #totals(): HistoryTotals {
    const totals: HistoryTotals = {
      frames: 0,
      gaps: 0,
      restarts: 0,
      replays: 0,
      purges: 0,
      stale: 0,
      staleCreditMs: this.#staleCreditMs,
      credits: this.#credits,
      proved: this.#proved,
      unproved: this.#unproved,
    }
    for (const { feed } of this.#wires) {
      const { counters } = feed.machine
      for (const name of ['frames', 'gaps', 'restarts', 'replays', 'purges', 'stale'] as const) {
        totals[name] += counters[name]
      }
    }
    return totals
  }

  #later(delay: number, run: () => void): void {
    this.#queue.push({ at: this.#now + delay, order: this.#order++, run })
  }

  #below(limit: number): number {
    return this.#random() % limit
  }
}

function isBefore(
  event: { readonly at: number; readonly order: number },
  best: { readonly at: number; readonly order: number } | undefined,
): boolean {
  return best === undefined || event.at < best.at || (event.at === best.at && event.order < best.order)
}

function newRandom(seed: number): () => number {
  let state = Math.imul(seed + 1, 0x9e37_79b1) | 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state >>> 0
  }
}
