/**
 * One rank of an engine as a state machine: `enqueue` and `abort` between passes, `beginPass` to schedule one, `endPass`
 * to hand out its tokens. It has no clock: the caller waits for as many milliseconds as `beginPass` answers.
 *
 * The pass follows lib/mocker of Dynamo 1.4.1 (vLLM's V1 scheduler): running requests first, then admissions in order,
 * within one token budget; blocks count as cached from the moment they are scheduled. A switch makes it SGLang: blocks
 * become visible when a prefill pass ends, and generated ones when the request does.
 */
import { invariant } from '../../core/protocol/index.js'
import { BlockPool } from './block-pool.js'
import type { CopyPolicy } from './block-pool.js'
import { HostTier } from './host-tier.js'
import type { EngineRequest, FinishReason } from './request.js'
import type { StepTimer } from './timing.js'

export interface SchedulerOptions {
  readonly blocks: number
  readonly blockTokens: number
  readonly sequencesMax: number
  readonly batchedTokensMax: number
  readonly modelTokensMax: number
  readonly isPrefixCaching: boolean
  readonly isChunkedPrefill: boolean
  /** Share of the blocks that an admission must leave free; running requests may use them. */
  readonly watermark: number
  /** Who gives up its blocks when a running request needs one: the newest request or the oldest. */
  readonly preemption: 'lifo' | 'fifo'
  readonly copies: CopyPolicy
  readonly emptied: 'head' | 'tail'
  readonly evicts: 'block' | 'node'
  /** When complete blocks can be hit: at once (vLLM), or when the prefill pass or the request ends (SGLang). */
  readonly visible: 'scheduled' | 'computed'
  readonly hostBlocks: number
  /** Milliseconds to load one block back from the host tier. */
  readonly hostLoadMs: number
}

/** Hears what happens, in the order in which a real engine would say it. */
export interface SchedulerListener<Tag> {
  /** Blocks `[from, to)` of the request can be hit from now on. */
  stored(request: EngineRequest<Tag>, from: number, to: number): void
  /** A block left the GPU; `slot` is where it was. */
  removed(key: number, slot: number): void
  hostStored(key: number, slot: number): void
  hostRemoved(key: number): void
  /** First admission; `request.cachedTokens` is known. */
  admitted(request: EngineRequest<Tag>): void
  /** The pass has been computed and its tokens are not out yet: vLLM publishes here. */
  computed(): void
  /** One more token; true ends the request with `stop`. */
  token(request: EngineRequest<Tag>): boolean
  finished(request: EngineRequest<Tag>, reason: FinishReason): void
}

export class Scheduler<Tag> {
  readonly options: SchedulerOptions
  readonly pool: BlockPool
  readonly host: HostTier
  readonly #listener: SchedulerListener<Tag>
  readonly #timer: StepTimer
  readonly #running: EngineRequest<Tag>[] = []
  readonly #waiting: EngineRequest<Tag>[] = []
  readonly #watermarkBlocks: number
  #waitingHead = 0
  #budget = 0
  #scheduledCount = 0
  #hostLoads = 0
  #isInPass = false
  #preemptionCount = 0
  #isPassPrefill = false

  constructor(options: SchedulerOptions, timer: StepTimer, listener: SchedulerListener<Tag>) {
    this.options = options
    this.#timer = timer
    this.#listener = listener
    this.#watermarkBlocks = Math.floor(options.watermark * options.blocks)
    this.host = new HostTier(options.hostBlocks, listener)
    this.pool = new BlockPool(options, {
      removed: (key, slot) => {
        this.host.put(key, slot)
        listener.removed(key, slot)
      },
    })
  }

  get runningCount(): number {
    return this.#running.length
  }

  get waitingCount(): number {
    return this.#waiting.length - this.#waitingHead
  }

  get preemptionCount(): number {
    return this.#preemptionCount
  }

  /** Whether the current or last pass had a prefill in it. */
  get isPassPrefill(): boolean {
    return this.#isPassPrefill
  }

  enqueue(request: EngineRequest<Tag>): void {
    invariant(request.state === 'new', 'a request enters an engine once')
    request.state = 'waiting'
    this.#waiting.push(request)
  }

  /** Ends a request now, or at the end of the pass that it takes part in. What it stored stays cached. */
  abort(request: EngineRequest<Tag>): void {
    if (request.isAborted || request.state === 'done' || request.state === 'new') return
    request.isAborted = true
    if (request.state === 'held') return this.release(request)
    if (request.state === 'running' && this.#isInPass) return
    if (request.state === 'running') this.#running.splice(this.#running.indexOf(request), 1)
    else this.#waiting.splice(this.#waiting.indexOf(request, this.#waitingHead), 1)
    this.#finish(request, 'abort')
  }

  /** Gives back the blocks of a finished request that kept them. */
  release(request: EngineRequest<Tag>): void {
    if (request.state !== 'held') return
    this.#freeBlocks(request)
    request.state = 'done'
  }

  /** Schedules the next pass: its milliseconds, or -1 when there is nothing to do. */
  beginPass(): number {
    invariant(!this.#isInPass, 'a pass begins after the last one ended')
    // A pass that only preempted has nothing to wait for; what it freed can be admitted by the next.
    for (let attempt = 0; attempt < 3; attempt++) {
      this.#budget = this.options.batchedTokensMax
      this.#scheduledCount = this.#hostLoads = 0
      this.#isPassPrefill = false
      const isPreempted = this.#scheduleRunning()
      if (!isPreempted) while (this.#admit());
      if (this.#scheduledCount > 0) {
        this.#isInPass = true
        return this.#timer.take(this.pool.activeCount / this.pool.blocks) + this.#hostLoads * this.options.hostLoadMs
      }
      if (!isPreempted) break
    }
    return -1
  }

  /** The pass is over: events first, then a token for each request whose KV is complete. */
  endPass(): void {
    invariant(this.#isInPass, 'a pass ends after it began')
    this.#isInPass = false
    const running = this.#running
    if (this.options.visible === 'computed') this.#completePrefills()
    this.#listener.computed()
    let kept = 0
    for (let index = 0; index < running.length; index++) {
      const request = running[index]!
      const reason = this.#emit(request)
      if (reason === undefined) running[kept++] = request
      else this.#finish(request, reason)
    }
    if (kept < running.length) running.length = kept // even a no-op costs: it runs once per pass
  }

  /** True when somebody was preempted: then nobody is admitted in this pass. */
  #scheduleRunning(): boolean {
    const running = this.#running
    const { isChunkedPrefill, batchedTokensMax } = this.options
    const preemptionsBefore = this.#preemptionCount
    for (let index = 0; index < running.length; index++) running[index]!.scheduled = 0
    for (let index = 0; index < running.length && this.#budget > 0; ) {
      const request = running[index]!
      const remaining = request.promptTokens + request.generated - request.computed
      if (!isChunkedPrefill && remaining > this.#budget && this.#budget < batchedTokensMax) break
      const want = remaining < this.#budget ? remaining : this.#budget
      if (this.#makeRoom(request, request.computed + want)) this.#schedule(request, want)
      // A preempted request left the list, and whoever came after it stands in its place.
      if (request.state === 'running') index = running[index] === request ? index + 1 : running.indexOf(request) + 1
      else index = Math.min(index, running.length)
    }
    return this.#preemptionCount > preemptionsBefore
  }

  /** Allocates up to `tokens`, preempting others if need be; false when the request itself had to go. */
  #makeRoom(request: EngineRequest<Tag>, tokens: number): boolean {
    const wanted = Math.ceil(tokens / this.options.blockTokens)
    while (request.slotCount < wanted) {
      const slot = this.pool.take()
      if (slot >= 0) {
        request.addSlot(slot)
        continue
      }
      const victim = this.options.preemption === 'lifo' ? this.#running.at(-1)! : this.#running[0]!
      this.#preempt(victim)
      if (victim === request) return false
    }
    return true
  }

  #preempt(victim: EngineRequest<Tag>): void {
    this.#running.splice(this.#running.indexOf(victim), 1)
    this.#freeBlocks(victim)
    this.#budget += victim.scheduled
    if (victim.scheduled > 0) this.#scheduledCount--
    victim.scheduled = 0
    victim.computed = 0
    victim.preemptions++
    victim.state = 'waiting'
    this.#preemptionCount++
    if (this.#waitingHead > 0) this.#waiting[--this.#waitingHead] = victim
    else this.#waiting.unshift(victim)
  }

  /** Admits the head of the queue; false when it must wait or there is none. */
  #admit(): boolean {
    const { blockTokens, sequencesMax, modelTokensMax } = this.options
    if (this.#budget <= 0 || this.waitingCount === 0 || this.#running.length >= sequencesMax) return false
    const request = this.#waiting[this.#waitingHead]!
    const known = request.known
    const knownBlocks = Math.ceil(known / blockTokens)
    if (request.promptTokens >= modelTokensMax || knownBlocks > this.pool.blocks) {
      this.#shiftWaiting()
      this.#finish(request, request.generated > 0 ? 'length' : 'rejected')
      return true
    }
    const activeHits = this.#match(request, known)
    const free = this.pool.freeCount - (this.#running.length > 0 ? this.#watermarkBlocks : 0)
    const hits = request.slotCount
    request.slotCount = 0
    if (knownBlocks - activeHits > free) return false
    const remaining = known - hits * blockTokens
    const isWhole = remaining <= this.#budget
    if (!this.options.isChunkedPrefill && !isWhole && this.#budget < this.options.batchedTokensMax) return false
    this.#shiftWaiting()
    this.#start(request, hits)
    const want = Math.min(known - request.computed, this.#budget)
    const isThere = this.#makeRoom(request, request.computed + want)
    invariant(isThere, 'an admitted request has room')
    this.#schedule(request, want)
    return true
  }

  /** Finds the cached prefix and leaves it in `request.slots`; answers how many of its blocks are in use by others. */
  #match(request: EngineRequest<Tag>, known: number): number {
    request.slotCount = 0
    if (!this.options.isPrefixCaching || request.skipsCacheRead) return 0
    // The last token is always computed, since its logits are needed: a full hit recomputes its last block.
    const hitsMax = Math.floor((known - 1) / this.options.blockTokens)
    let active = 0
    while (request.slotCount < hitsMax) {
      const slot = this.pool.find(request.content.keyAt(request.slotCount))
      if (slot < 0) break
      if (this.pool.isActive(slot)) active++
      request.addSlot(slot)
    }
    return active
  }

  #start(request: EngineRequest<Tag>, hits: number): void {
    request.slotCount = request.completeCount = hits
    for (let index = 0; index < hits; index++) this.pool.hold(request.slots[index]!)
    if (hits > 0 && this.options.evicts === 'node') this.pool.split(request.slots[hits - 1]!)
    const loaded = this.host.size > 0 ? this.#loadFromHost(request) : 0
    request.computed = (hits + loaded) * this.options.blockTokens
    if (request.cachedTokens < 0) {
      request.cachedTokens = Math.min(request.computed, request.promptTokens)
      request.hostTokens = loaded * this.options.blockTokens
      this.#listener.admitted(request)
    }
    request.state = 'running'
    request.scheduled = 0
    this.#running.push(request)
    if (request.externalTokens > request.computed) this.#receive(request)
  }

  /** KV that was computed elsewhere lands in this rank's blocks. The last token of a prompt is always computed here. */
  #receive(request: EngineRequest<Tag>): void {
    const isThere = this.#makeRoom(request, request.externalTokens)
    invariant(isThere, 'an admitted request has room')
    request.computed = request.externalTokens
    this.#complete(request, request.computed)
  }

  /** Continues the cached prefix with blocks of the host tier, which come back to the GPU. */
  #loadFromHost(request: EngineRequest<Tag>): number {
    if (!this.options.isPrefixCaching || request.skipsCacheRead) return 0
    const blocksMax = Math.floor((request.known - 1) / this.options.blockTokens)
    const from = request.slotCount
    while (request.slotCount < blocksMax) {
      const key = request.content.keyAt(request.slotCount)
      if (!this.host.has(key)) break
      this.host.touch(key)
      const slot = this.pool.take()
      if (slot < 0) break
      request.addSlot(slot)
    }
    const loaded = request.slotCount - from
    this.#hostLoads += loaded
    if (loaded > 0) this.#complete(request, request.slotCount * this.options.blockTokens)
    return loaded
  }

  #schedule(request: EngineRequest<Tag>, want: number): void {
    const before = request.computed
    const after = before + want
    const known = request.promptTokens + request.generated
    // One token behind KV that came from elsewhere is a decode step: a decode worker has no prefill passes.
    const isDecode = want === 1 && after === known && (request.generated > 0 || request.externalTokens > 0)
    if (isDecode) this.#timer.decode(after + 1)
    else {
      this.#timer.prefill(want, before, after === known)
      this.#isPassPrefill = true
    }
    request.computed = after
    request.scheduled = want
    this.#budget -= want
    this.#scheduledCount++
    if (this.options.visible === 'scheduled') this.#complete(request, after)
  }

  /** Full blocks below `tokens` become visible; runs of newly resident ones are announced. */
  #complete(request: EngineRequest<Tag>, tokens: number): void {
    if (!this.options.isPrefixCaching) return
    const blockTokens = this.options.blockTokens
    if (tokens < (request.completeCount + 1) * blockTokens) return
    const end = Math.floor(tokens / blockTokens)
    const isTree = this.options.evicts === 'node'
    let from = -1
    for (let index = request.completeCount; index < end; index++) {
      request.slots[index] = this.pool.complete(request.slots[index]!, request.content.keyAt(index))
      if (this.pool.isNew) {
        if (isTree && index > 0) this.#grow(request.slots[index - 1]!, request.slots[index]!, from < 0)
        if (from < 0) from = index
      } else if (from >= 0) {
        this.#listener.stored(request, from, index)
        from = -1
      }
    }
    request.completeCount = end
    // A copy was merged into the middle of another's node: the two parts may be held by different requests from now on.
    if (isTree) this.pool.split(request.slots[end - 1]!)
    if (from >= 0) this.#listener.stored(request, from, end)
  }

  /** Hangs a new block behind its parent: in the parent's node if both came together, else as the start of a new one. */
  #grow(parent: number, slot: number, isRunStart: boolean): void {
    if (isRunStart) this.pool.split(parent)
    else this.pool.join(parent, slot)
  }

  #completePrefills(): void {
    for (const request of this.#running)
      if (request.scheduled > 1 || request.generated === 0) this.#complete(request, request.computed)
  }

  #emit(request: EngineRequest<Tag>): FinishReason | undefined {
    if (request.isAborted) return 'abort'
    if (request.scheduled === 0 || request.computed !== request.promptTokens + request.generated) return undefined
    request.generated++
    if (this.#listener.token(request)) return 'stop'
    const isLast =
      request.generated >= request.outputTokensMax ||
      request.promptTokens + request.generated >= this.options.modelTokensMax
    return isLast ? 'length' : undefined
  }

  #finish(request: EngineRequest<Tag>, reason: FinishReason): void {
    if (this.options.visible === 'computed' && request.slotCount > 0) this.#complete(request, request.computed)
    if (request.keepsBlocks && (reason === 'length' || reason === 'stop')) request.state = 'held'
    else {
      this.#freeBlocks(request)
      request.state = 'done'
    }
    this.#listener.finished(request, reason)
  }

  /** Leaves first, so that they are evicted before the blocks that others may share. */
  #freeBlocks(request: EngineRequest<Tag>): void {
    for (let index = request.slotCount - 1; index >= 0; index--) this.pool.release(request.slots[index]!)
    request.slotCount = request.completeCount = 0
  }

  #shiftWaiting(): void {
    this.#waitingHead++
    if (this.#waitingHead < 256 || this.#waitingHead * 2 < this.#waiting.length) return
    this.#waiting.splice(0, this.#waitingHead)
    this.#waitingHead = 0
  }
}
