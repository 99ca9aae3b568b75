/**
 * Goal: whatever an engine and the wire between do, the index ends up equal to the engine's cache once the faults stop, and
 * until then a rank in good standing is not credited with a block that was lost longer ago than the detection delay:
 * - never once a frame has come that was published after the loss, however many before it were lost;
 * - with a replay socket also not longer than `detectionMs` after the engine told of the loss, by a batch or by its end.
 * Method: random request histories on small block pools, through links that drop, repeat, swap, delay and disconnect, with
 * restarts, resets and replay rings that are too short; the router itself is killed and comes back with what it saved last,
 * read while events went on; all on a virtual clock, one seed per history. An engine is back at once, with whatever clock,
 * and may answer a replay before its end is noticed. What sockets promise is taken for granted, and tested with real ones:
 * the end of a connection is heard before anything of the next, and nothing of the old one comes after it.
 */
import { createBlockHasher } from '../../src/core/hashing/index.js'
import { KvEventDecoder } from '../../src/engines/index.js'
import type { Feed, ImageReading, RankImage, SnapshotContext } from '../../src/events/index.js'
import { Intake, restoreFeed, takeSnapshot } from '../../src/events/index.js'
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
  /** Longest time that a block stayed credited after the engine told of its loss, in milliseconds; with a replay socket. */
  staleCreditMs: number
  /** How often a credited block was looked up in the true cache, and how often it was lost, and no later frame had come. */
  credits: number
  staleCredits: number
  /** Ranks that were live and complete when the faults had just ended, and so had to be equal before any turnover. */
  completeRanks: number
  /** Ranks that were compared at the end: all of them. */
  comparedRanks: number
  /** Ranks whose saved part was proved by the engine after the router was killed, and those that could not be. */
  proved: number
  unproved: number
}

/** How long engines stay silent at most, and how late a frame, its repeat, or the notice of a broken connection may come. */
const silenceMsMax = 3000
const delayMsMax = 400
const repeatMsMax = 300
const noticeMsMax = 500
const probeMs = 2000
const reprobeMs = 1000
const replayMs = 500
/**
 * The stated detection delay (docs/decisions/0042): silence is broken by a probe, which may be asked a second time, and each
 * has its time to answer. What was published before the loss and comes late puts the first one off.
 */
export const detectionMs: number = delayMsMax + repeatMsMax + probeMs + reprobeMs + 2 * replayMs
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
  readonly #retired: Feed[] = [] // of routers that were killed
  readonly #queue: { readonly at: number; readonly order: number; readonly run: () => void }[] = []
  #order = 0
  #now = 0
  #hasFaults = true
  #staleCreditMs = 0
  #isServing = true
  #credits = 0
  #staleCredits = 0
  #completeRanks = 0
  #comparedRanks = 0

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
      this.#connectLater(wire, this.#below(2000))
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
    // One more request each, with nothing on its way: an engine that was reset says so with its next step.
    this.#isServing = false
    this.#advance(this.#now + 2 * silenceMsMax)
    for (const wire of this.#wires) {
      const batch = wire.engine.request([0], this.#now)
      if (batch) this.#send(wire, batch)
    }
    this.#advance(this.#now + delayMsMax)
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
    this.#retired.push(...this.#wires.map(({ feed }) => feed))
    this.#sink = new NaiveSink()
    this.#intake = this.#newIntake()
    for (const wire of this.#wires) {
      wire.feed = this.#newFeed(wire.rank, wire.hasReplay)
      wire.seenUntil = -1
      wire.isUp = false
      wire.connection++
      const image = this.#saved.get(wire.rank)
      const restoring = image && restoreFeed(this.#context(), wire.feed, image)
      while (restoring?.next().done === false);
      this.#connectLater(wire, 1 + this.#below(300))
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
    if (!this.#isServing) return
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
      this.#later(delay + copy * this.#below(repeatMsMax), () => {
        if (wire.connection !== connection) return
        wire.seenUntil = Math.max(wire.seenUntil, published)
        const sequence = this.#hidesGaps ? wire.feed.machine.lastSequence + 1 : batch.sequence
        wire.feed.machine.frame(sequence, batch.payload, this.#now)
        this.#intake.flush()
      })
    }
  }

  /** Unless the router was killed, or the link broken again, before that. */
  #connectLater(wire: Wire, delay: number): void {
    const { connection } = wire
    this.#later(delay, () => {
      if (wire.connection === connection) this.#connect(wire)
    })
  }

  #connect(wire: Wire): void {
    wire.isUp = true
    const connection = ++wire.connection
    // The subscription reaches the publisher at once; the notice of it may come after the first frames.
    this.#later(this.#below(20), () => {
      if (wire.connection === connection) wire.feed.machine.connected(this.#now)
    })
  }

  #breakLink(wire: Wire): void {
    if (!wire.isUp) return
    wire.isUp = false
    const connection = ++wire.connection
    const notice = this.#below(noticeMsMax)
    this.#later(notice, () => {
      if (wire.connection === connection) wire.feed.machine.disconnected(this.#now)
    })
    this.#connectLater(wire, notice + 1 + this.#below(this.#below(4) === 0 ? this.#span.outageMsMax : 1500))
  }

  /** A process is replaced, and its connection dies with it. The next one may be there at once. */
  #restart(wire: Wire): void {
    wire.engine.restart(this.#now)
    this.#breakLink(wire)
  }

  #replay(feed: Feed, from: number, ticket: number): void {
    const wire = this.#wires.find((it) => it.feed === feed)
    if (!wire) return // of the router that was killed
    const incarnation = wire.engine.incarnation
    if (!wire.isUp && this.#below(2) === 0) return // nobody answers; the deadline ends it
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
      this.#staleCredits++
      const toldAt = wire.engine.toldAt.get(hash)
      if (!wire.hasReplay || toldAt === undefined) continue
      this.#staleCreditMs = Math.max(this.#staleCreditMs, this.#now - toldAt)
      if (this.#now - toldAt > detectionMs)
        this.#fail(wire, `a block lost ${since} ms ago, and told of ${this.#now - toldAt} ms ago, is still credited`)
    }
  }

  /** Faults are over: the rank is live, and what it is credited with is true; all of it where history was whole. */
  #expectSettled(wire: Wire): void {
    const { machine } = wire.feed
    if (machine.state !== 'live') this.#fail(wire, `still ${machine.state} long after the last fault`)
    const isInFlight = this.#queue.length > ranks // a frame of this very moment
    if (!machine.isComplete || isInFlight || wire.engine.owesClear) return
    this.#completeRanks++
    this.#compare(wire)
  }

  #expectEqual(wire: Wire): void {
    if (wire.feed.machine.state !== 'live') this.#fail(wire, `${wire.feed.machine.state} at the end`)
    this.#comparedRanks++
    this.#compare(wire)
  }

  #compare(wire: Wire): void {
    const held = this.#sink.held(wire.rank)
    const missing = [...wire.engine.cached.keys()].filter((hash) => !held.has(hash))
    const extra = [...held].filter((hash) => !wire.engine.cached.has(hash))
    if (missing.length > 0 || extra.length > 0)
      this.#fail(wire, `index and cache differ: ${missing.length} missing, ${extra.length} too many`)
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
      staleCredits: this.#staleCredits,
      completeRanks: this.#completeRanks,
      comparedRanks: this.#comparedRanks,
      proved: this.#proved,
      unproved: this.#unproved,
    }
    for (const feed of [...this.#retired, ...this.#wires.map((wire) => wire.feed)]) {
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
