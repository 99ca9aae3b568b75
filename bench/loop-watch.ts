/** What the loop's thread did between two looks at it: the part of a stall that is ours, whoever else wants the cores. */
import type { PerformanceEntry } from 'node:perf_hooks'
import { performance, PerformanceObserver } from 'node:perf_hooks'
import { percentile } from './harness.js'
import { loopFaults, loopThread, stolenMs } from './loop-thread.js'

export interface LongestStretch {
  /** CPU of the thread. Waiting for the collector's helpers is not in it. */
  readonly busyMs: number
  /** What V8's collector took meanwhile, by the clock. */
  readonly collectedMs: number
  /** The longest by the clock, which may be another one; waiting for events is not in it. */
  readonly held: HeldStretch
  /** Pages that the thread was given meanwhile. */
  readonly faults: number
  /** Stretches that are left out, since the host took the machine away meanwhile, which nobody can tell from work. */
  readonly stolen: number
}

export interface HeldStretch {
  readonly ms: number
  readonly collectedMs: number
  /** The thread could have run meanwhile, and others had the cores. */
  readonly waitedMs: number
}

interface Stretch {
  readonly busyMs: number
  readonly heldMs: number
  readonly waitedMs: number
  readonly from: number
  readonly to: number
  readonly faults: number
  readonly isStolen: boolean
}

/** The host is asked after long stretches, and every so many, so that what it took is not taken for a later one's. */
const [longMs, looksBetween] = [4, 16]

// The kernel adds up a thread's time when it steps aside, and otherwise every few milliseconds: up to 4 ms of one stretch would be
// counted in another.
const nobodyWakes = new Int32Array(new SharedArrayBuffer(4))
const asideMs = 0.02

/** Where the system does not tell what a thread computed, there is the clock, which measures the neighbours, too. */
export class LoopWatch {
  readonly #thread = loopThread()
  readonly #faultsSoFar = loopFaults() ?? (() => 0)
  readonly #observer = new PerformanceObserver((list) => this.#collections.push(...list.getEntries()))
  #stretches: Stretch[] = []
  #collections: PerformanceEntry[] = []
  #before = { computedMs: 0, waitedMs: 0, activeMs: 0, at: 0, faults: 0 }
  readonly #stolenSoFar = stolenMs() ?? (() => 0)
  #stolenMs = 0
  #looks = 0

  constructor() {
    this.#observer.observe({ entryTypes: ['gc'] })
    this.#stolenMs = this.#stolenSoFar()
    this.#before = this.#now()
  }

  /** Ends a stretch and begins the next one. Looking every millisecond costs several percent of a core. */
  look(): void {
    const { computedMs, waitedMs, activeMs, at, faults } = this.#before
    const now = this.#now()
    const busyMs = now.computedMs - computedMs
    const heldMs = now.activeMs - activeMs
    const isAsked = Math.max(busyMs, heldMs) > longMs || ++this.#looks % looksBetween === 0
    this.#stretches.push({
      busyMs,
      heldMs,
      waitedMs: now.waitedMs - waitedMs,
      from: at,
      to: now.at,
      faults: now.faults - faults,
      isStolen: isAsked && this.#wasStolen(),
    })
    this.#before = isAsked ? this.#now() : now
  }

  #wasStolen(): boolean {
    const before = this.#stolenMs
    this.#stolenMs = this.#stolenSoFar()
    return this.#stolenMs > before
  }

  busyMs(share: number): number | undefined {
    const stretches = this.#inOrder().map(({ busyMs }) => busyMs)
    return stretches.length === 0 ? undefined : percentile(stretches, share)
  }

  /** Node tells of a collection a turn after it. */
  longest(): LongestStretch | undefined {
    this.#collections.push(...this.#observer.takeRecords())
    const longest = this.#inOrder().at(-1) ?? this.#stretches.at(-1)
    if (!longest) return undefined
    const stolen = this.#stretches.filter(({ isStolen }) => isStolen).length
    return {
      busyMs: longest.busyMs,
      collectedMs: this.#collectedMs(longest),
      faults: longest.faults,
      stolen,
      held: this.#held(longest),
    }
  }

  #held(some: Stretch): HeldStretch {
    const held = this.#inOrder().reduce((most, stretch) => (stretch.heldMs > most.heldMs ? stretch : most), some)
    return { ms: held.heldMs, collectedMs: this.#collectedMs(held), waitedMs: held.waitedMs }
  }

  #collectedMs(stretch: Stretch): number {
    return this.#collections.reduce((sum, entry) => sum + sharedMs(entry, stretch), 0)
  }

  reset(): void {
    this.#observer.takeRecords()
    this.#stretches = []
    this.#collections = []
    this.#stolenMs = this.#stolenSoFar()
    this.#before = this.#now()
  }

  stop(): void {
    this.#observer.disconnect()
  }

  #inOrder(): readonly Stretch[] {
    return this.#stretches.filter(({ isStolen }) => !isStolen).sort((a, b) => a.busyMs - b.busyMs)
  }

  #now() {
    if (this.#thread) Atomics.wait(nobodyWakes, 0, 0, asideMs)
    const at = performance.now()
    const { computedMs, waitedMs } = this.#thread?.() ?? { computedMs: at, waitedMs: 0 }
    return {
      computedMs,
      waitedMs,
      activeMs: performance.eventLoopUtilization().active,
      at,
      faults: this.#faultsSoFar(),
    }
  }
}

function sharedMs({ startTime, duration }: PerformanceEntry, { from, to }: Stretch): number {
  return Math.max(0, Math.min(to, startTime + duration) - Math.max(from, startTime))
}

/** The most time that one turn of the loop takes while `work` runs. */
export async function longestTurn(watch: LoopWatch, work: () => Promise<unknown>): Promise<LongestStretch> {
  let isOver = false
  const turn = (): void => {
    watch.look()
    if (!isOver) setImmediate(turn)
  }
  await nextTurn()
  watch.look() // the first new text behind a collection has V8's table of texts built anew (docs/decisions/0273)
  watch.reset()
  setImmediate(turn)
  await work()
  turn()
  isOver = true
  await nextTurn() // so that its collections are told
  return watch.longest()!
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
}
