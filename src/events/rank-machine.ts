/**
 * What is believed of one rank's event stream, and what to do next. No I/O and no clock: sockets, tests and the fault
 * fuzzer drive it alike.
 *
 *   connecting ──connected──► recovering ──replayed──► live ──gap, restart──► recovering
 *        ▲                        │  ▲                   │
 *        └──silence── suspect ◄───┴──┴───disconnected, flood
 *
 * The rule behind every branch: a rank is credited only while `live`, and it is live only when every batch since a known
 * point was applied in order. A lost batch may have been a removal, so doubt that a replay cannot settle ends in a purge.
 *
 * A replay is asked from the last applied batch, not from the one after it: the engine must first show that batch again,
 * byte for byte the one we applied. That proves in one answer that it is the same incarnation and that its ring still
 * reaches back; an engine that restarted, at whatever sequence number, cannot show it. Nothing else proves it: numbers
 * begin at 0 in every process, so the next one may be another engine's. Where nobody can be asked, a new connection purges.
 */
import type { MachineCounters, PurgeReason, RankEffects, RankLimits, RankState } from './rank-rules.js'
import { defaultRankLimits } from './rank-rules.js'
import type { FrameAnchor } from './recent-frames.js'
import { RecentFrames } from './recent-frames.js'

interface Held {
  readonly sequence: number
  readonly payload: Uint8Array
}

interface Replay {
  readonly ticket: number
  /** The batch that must be shown again first; -1 when there is nothing to continue. */
  readonly anchor: number
  isProbe: boolean
  isVerified: boolean
  deadline: number
}

const roundsMax = 4
const reprobeMs = 1000
const never = Number.POSITIVE_INFINITY

export class RankMachine {
  readonly counters: MachineCounters = {
    frames: 0,
    applied: 0,
    stale: 0,
    gaps: 0,
    restarts: 0,
    replays: 0,
    replayFailures: 0,
    probes: 0,
    overruns: 0,
    droppedFrames: 0,
    undecodable: 0,
    purges: 0,
  }
  readonly #effects: RankEffects
  readonly #hasReplay: boolean
  readonly #limits: RankLimits
  readonly #recent = new RecentFrames()
  #state: RankState = 'connecting'
  #isConnected = false
  /** A frame came before the notice of its connection: the next notice is of this one. */
  #awaitsNotice = false
  #cursor = -1
  #isComplete = false
  #held: Held[] = []
  #heldBytes = 0
  #ticket = 0
  #replay: Replay | undefined
  #attempts = 0
  #rounds = 0
  #retryAt = never
  #purgeAt = never
  #lastHeardAt = Number.NEGATIVE_INFINITY
  #probeMisses = 0
  /** Knowledge from a snapshot waits for its proof. */
  #isUnproved = false

  constructor(effects: RankEffects, options: { readonly hasReplay: boolean; readonly limits?: Partial<RankLimits> }) {
    this.#effects = effects
    this.#hasReplay = options.hasReplay
    this.#limits = { ...defaultRankLimits, ...options.limits }
  }

  get state(): RankState {
    return this.#state
  }

  /** Last applied batch; -1 when none is. */
  get lastSequence(): number {
    return this.#cursor
  }

  /** Every batch since the engine's first is applied: nothing that it holds is unknown. */
  get isComplete(): boolean {
    return this.#isComplete
  }

  get heldFrames(): number {
    return this.#held.length
  }

  /** When `tick` has something to do; infinity when it has not. */
  get nextDeadline(): number {
    const probeAt = this.#hasReplay && this.#state === 'live' && !this.#replay ? this.#probeAt() : never
    return Math.min(this.#replay?.deadline ?? never, this.#retryAt, this.#purgeAt, probeAt)
  }

  /** Whether replies under this ticket still mean something. */
  isWaitingFor(ticket: number): boolean {
    return this.#replay?.ticket === ticket
  }

  anchor(): FrameAnchor | undefined {
    return this.#recent.anchor()
  }

  /** Before `connected`: knowledge up to this batch was restored from a snapshot. It is credited once the engine proves it. */
  restore(anchor: FrameAnchor, isComplete: boolean): void {
    this.#recent.restore(anchor)
    this.#cursor = anchor.sequence
    this.#isComplete = isComplete
    this.#isUnproved = true
  }

  connected(now: number): void {
    if (this.#state === 'gone') return
    if (this.#awaitsNotice) {
      this.#awaitsNotice = false
      return
    }
    if (this.#isConnected) this.disconnected(now) // a new connection without notice of the old one's end is as doubtful
    this.#isConnected = true
    this.#lastHeardAt = now
    this.#attempts = 0
    this.#rounds = 0
    if (this.#hasReplay) return this.#recover(now)
    this.#startOver('reconnect')
    this.#state = 'live'
    this.#purgeAt = never
  }

  disconnected(now: number): void {
    if (this.#state === 'gone' || !this.#isConnected) return
    this.#isConnected = false
    this.#awaitsNotice = false
    this.#cancel()
    this.#dropHeld()
    this.#state = this.#cursor >= 0 ? 'suspect' : 'connecting'
    this.#purgeAt = this.#cursor >= 0 ? now + this.#limits.suspectMs : never
  }

  /** One live frame. */
  frame(sequence: number, payload: Uint8Array, now: number): void {
    if (this.#state === 'gone') return
    this.counters.frames++
    if (!this.#isConnected) {
      this.connected(now)
      this.#awaitsNotice = true
    }
    this.#lastHeardAt = now
    if (this.#replay?.isProbe) this.#judgeProbe(this.#replay, sequence, payload, now)
    if (this.#replay || this.#state === 'recovering') return this.#hold(sequence, payload, now)
    if (this.#state === 'live') this.#judge(sequence, payload, now)
    else this.counters.droppedFrames++ // flooded: wait for the pause to end
  }

  /** A frame that came over a connection which is over: whatever it tells must be proved by other means. */
  dropped(): void {
    this.counters.frames++
    this.counters.droppedFrames++
  }

  replayFrame(ticket: number, sequence: number, payload: Uint8Array, now: number): void {
    const replay = this.#replay
    if (replay?.ticket !== ticket) return
    replay.deadline = now + this.#limits.replayMs
    this.#lastHeardAt = now
    if (!replay.isVerified) {
      if (sequence < replay.anchor) return // more than was asked for
      const timestamp = this.#effects.timestampOf(payload)
      if (sequence === replay.anchor) {
        if (!this.#recent.has(sequence, timestamp, payload)) return this.#restarted(now)
        replay.isVerified = true
        this.#settleRestored(true)
        return
      }
      if (replay.isProbe && this.#mayBeOnItsWay(now)) return
      this.#startOver('history_gone')
      this.#state = 'recovering'
      replay.isVerified = true
    }
    if (this.#cursor >= 0 && sequence <= this.#cursor) return
    if (this.#cursor >= 0 && sequence !== this.#cursor + 1) {
      this.#startOver('replay_hole')
      this.#state = 'recovering'
    }
    this.#accept(sequence, payload)
  }

  replayEnded(ticket: number, now: number): void {
    const replay = this.#replay
    if (replay?.ticket !== ticket) return
    this.#lastHeardAt = now
    // The engine has no batch from the anchor on, yet it sent the anchor: it is not the engine that we knew.
    if (!replay.isVerified) return this.#restarted(now)
    this.#replay = undefined
    this.#attempts = 0
    if (this.#cursor < 0) this.#isComplete = true // asked from 0, nothing was ever sent
    this.#drain(now)
  }

  replayFailed(ticket: number, now: number): void {
    if (this.#replay?.ticket !== ticket) return
    const wasProbe = this.#replay.isProbe
    this.#replay = undefined
    this.counters.replayFailures++
    if (++this.#attempts < this.#limits.replayAttemptsMax) {
      this.#retryAt = now + this.#limits.retryMs * 2 ** (this.#attempts - 1)
      if (wasProbe) this.#state = 'recovering' // it did not answer for its own last batch: no credit until it does
      return
    }
    this.#attempts = 0
    this.#startOver('replay_failed')
    this.#drain(now)
  }

  /** The engine behind this rank is another one, as something else than its events told us. */
  incarnationChanged(now: number): void {
    if (this.#state === 'gone') return
    this.counters.restarts++
    this.#cancel()
    this.#dropHeld()
    this.#startOver('restart')
    if (!this.#isConnected) this.#state = 'connecting'
    else if (this.#hasReplay) this.#recover(now)
    else this.#state = 'live'
    this.#purgeAt = never
  }

  /** What is known cannot all be true (more blocks than the engine has): it goes, and live events build it anew. */
  distrust(): void {
    this.#isComplete = false
    this.counters.purges++
    this.#effects.purge('over_capacity')
  }

  leave(): void {
    if (this.#state === 'gone') return
    this.#cancel()
    this.#dropHeld()
    this.#startOver('left')
    this.#state = 'gone'
    this.#purgeAt = never
  }

  tick(now: number): void {
    if (this.#replay && now >= this.#replay.deadline) this.replayFailed(this.#replay.ticket, now)
    if (now >= this.#purgeAt) {
      this.#purgeAt = never
      this.#startOver('silence')
      this.#state = 'connecting'
    }
    if (now >= this.#retryAt && this.#isConnected) this.#recover(now)
    if (this.#hasReplay && this.#state === 'live' && !this.#replay && this.#isConnected && now >= this.#probeAt()) {
      this.counters.probes++
      this.#ask(now, true)
    }
  }

  /**
   * A live frame while a probe runs. The next number answers the question itself, and a short ring may already have
   * dropped what was asked for. Any other number but a repeat is doubt: from here on the probe is a recovery.
   */
  #judgeProbe(probe: Replay, sequence: number, payload: Uint8Array, now: number): void {
    if (sequence === this.#cursor + 1) {
      this.#cancel()
      this.#drain(now)
    } else if (!this.#recent.has(sequence, this.#effects.timestampOf(payload), payload)) {
      probe.isProbe = false
      this.#state = 'recovering'
      if (sequence > this.#cursor) this.counters.gaps++
    }
  }

  /**
   * A probe that finds only newer batches: the ring is short and the stream was faster. What is missing may still be on its
   * way, over the connection that is whole. It is not taken from the answer, not even the next number: whoever answers has
   * not shown that it is the engine that we know. Asked again, it is lost.
   */
  #mayBeOnItsWay(now: number): boolean {
    if (++this.#probeMisses > 1) return false
    this.#cancel()
    this.#lastHeardAt = now - this.#limits.probeMs + Math.min(reprobeMs, this.#limits.probeMs)
    this.#drain(now)
    return true
  }

  #probeAt(): number {
    return this.#cursor < 0 ? never : this.#lastHeardAt + this.#limits.probeMs
  }

  #judge(sequence: number, payload: Uint8Array, now: number): void {
    if (sequence === this.#cursor + 1) return this.#accept(sequence, payload)
    if (this.#cursor < 0) {
      // Joined in the middle. A replay has already been tried where there is one.
      if (this.#hasReplay && this.#rounds < roundsMax) return this.#recoverWith(sequence, payload, now)
      return this.#accept(sequence, payload)
    }
    if (sequence > this.#cursor) {
      this.counters.gaps++
      if (this.#hasReplay && this.#rounds < roundsMax) return this.#recoverWith(sequence, payload, now)
      this.#startOver('gap')
      return this.#accept(sequence, payload)
    }
    const timestamp = this.#effects.timestampOf(payload)
    if (this.#recent.has(sequence, timestamp, payload) || timestamp < this.#recent.newestTimestamp) {
      this.counters.stale++
      return
    }
    if (this.#hasReplay && this.#rounds < roundsMax) return this.#recoverWith(sequence, payload, now)
    this.counters.restarts++
    this.#startOver('restart')
    this.#accept(sequence, payload)
  }

  #accept(sequence: number, payload: Uint8Array): void {
    if (this.#cursor < 0) this.#isComplete = sequence === 0
    this.#cursor = sequence
    this.#probeMisses = 0
    this.#recent.note(sequence, this.#effects.timestampOf(payload), payload)
    const reason = this.#effects.apply(payload)
    this.counters.applied++
    if (reason === undefined) return
    // Replaying would show the same bytes. What they removed is unknown, so nothing known before them can stand.
    this.counters.undecodable++
    this.#isComplete = false
    this.counters.purges++
    this.#effects.purge('undecodable')
  }

  #recoverWith(sequence: number, payload: Uint8Array, now: number): void {
    this.#recover(now)
    this.#hold(sequence, payload, now)
  }

  #recover(now: number): void {
    this.#state = 'recovering'
    this.#purgeAt = never
    this.#rounds++
    this.#ask(now, false)
  }

  #ask(now: number, isProbe: boolean): void {
    this.#retryAt = never
    const anchor = this.#cursor
    this.counters.replays++
    this.#replay = {
      ticket: ++this.#ticket,
      anchor,
      isProbe,
      isVerified: anchor < 0,
      deadline: now + this.#limits.replayMs,
    }
    this.#effects.requestReplay(Math.max(0, anchor), this.#ticket)
  }

  #restarted(now: number): void {
    this.counters.restarts++
    this.#cancel()
    this.#startOver('restart')
    this.#recover(now)
  }

  /** The replay is over: what waited is judged as if it came now. A hole in it starts another replay and keeps the rest. */
  #drain(now: number): void {
    this.#state = 'live'
    this.#purgeAt = never
    const waiting = this.#held.sort((a, b) => a.sequence - b.sequence)
    this.#held = []
    this.#heldBytes = 0
    for (const { sequence, payload } of waiting) {
      if (this.#replay) this.#hold(sequence, payload, now)
      else if (this.#state === 'live') this.#judge(sequence, payload, now)
      else this.counters.droppedFrames++
    }
    if (this.#state === 'live' && !this.#replay) this.#rounds = 0
  }

  #hold(sequence: number, payload: Uint8Array, now: number): void {
    this.#held.push({ sequence, payload })
    this.#heldBytes += payload.length
    if (this.#held.length <= this.#limits.heldFramesMax && this.#heldBytes <= this.#limits.heldBytesMax) return
    this.counters.overruns++
    this.#cancel()
    this.#dropHeld()
    this.#startOver('overrun')
    this.#state = 'suspect'
    this.#rounds = 0
    this.#retryAt = now + this.#limits.overrunMs
  }

  #dropHeld(): void {
    this.counters.droppedFrames += this.#held.length
    this.#held = []
    this.#heldBytes = 0
  }

  #cancel(): void {
    this.#replay = undefined
    this.#retryAt = never
    this.#ticket++
  }

  #settleRestored(isProved: boolean): void {
    if (!this.#isUnproved) return
    this.#isUnproved = false
    this.#effects.restored?.(isProved)
  }

  /** Forgets the cursor, and with it all knowledge if there was any. */
  #startOver(reason: PurgeReason): void {
    this.#settleRestored(false)
    if (this.#cursor >= 0) {
      this.counters.purges++
      this.#effects.purge(reason)
    }
    this.#cursor = -1
    this.#isComplete = false
    this.#recent.clear()
  }
}
