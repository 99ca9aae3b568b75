/** A measured process tells its parent where it listens and, when asked, what it has used since it was asked to begin. */
import type { PerformanceEntry } from 'node:perf_hooks'
import { monitorEventLoopDelay, performance, PerformanceObserver } from 'node:perf_hooks'
import { percentile } from '../harness.js'
import { loopFaults, loopThread } from '../loop-thread.js'

export interface Use {
  readonly cpuUs: number
  /** The most memory that the process ever had. */
  readonly peakMb: number
  readonly stallP999Ms: number
  /** CPU time of the loop's thread between two ticks; where the system tells. */
  readonly busyP999Ms: number | undefined
  readonly busyMaxMs: number | undefined
  /** What V8's collector took, by the clock, while the longest of them lasted. */
  readonly collectedMs: number | undefined
  /** Pages that the thread was given meanwhile. */
  readonly faults: number | undefined
  /** Prompts so far, by what became of their tokens; where the process says. */
  readonly prompts: Readonly<Record<string, number>>
}

export function reportUse(
  port: number,
  more: Readonly<Record<string, number>> = {},
  prompts: () => Use['prompts'] = () => ({}),
): void {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  let loop: ReturnType<typeof watchLoop>
  process.on('message', (message: 'use' | 'reset' | 'watch') => {
    const { user, system } = process.cpuUsage()
    const use: Use = {
      cpuUs: user + system,
      peakMb: process.resourceUsage().maxRSS / 1024,
      stallP999Ms: delay.percentile(99.9) / 1e6,
      busyP999Ms: loop?.share(0.999),
      busyMaxMs: loop?.share(1),
      collectedMs: loop?.collectedMs(),
      faults: loop?.faults(),
      prompts: prompts(),
    }
    if (message !== 'use') delay.reset()
    if (message === 'watch') {
      loop ??= watchLoop()
      loop?.reset()
    }
    process.send!(use)
  })
  process.on('disconnect', () => process.exit())
  process.send!({ port, ...more })
}

// The kernel adds up a thread's time when it steps aside, and otherwise every few milliseconds: up to 4 ms of one stretch would be
// counted in another.
const nobodyWakes = new Int32Array(new SharedArrayBuffer(4))
const asideMs = 0.02

/**
 * How much the loop's thread computed between two ticks of a timer of one millisecond: the part of a stall that is ours,
 * whoever else wants the cores. Waiting for the collector's helpers is not in it. Linux tells; elsewhere there is no such
 * figure. Asking costs several percent of a core, so it is done only where it is wanted.
 */
function watchLoop():
  | {
      share(p: number): number | undefined
      collectedMs(): number | undefined
      faults(): number | undefined
      reset(): void
    }
  | undefined {
  const thread = loopThread()
  if (!thread) return undefined
  const computedMs = (): number => {
    Atomics.wait(nobodyWakes, 0, 0, asideMs)
    return thread().computedMs
  }
  let stretches: Stretch[] = []
  let collections: PerformanceEntry[] = []
  const observer = new PerformanceObserver((list) => collections.push(...list.getEntries()))
  observer.observe({ entryTypes: ['gc'] })
  const faultsSoFar = loopFaults()!
  let faultsBefore = faultsSoFar()
  let before = computedMs()
  let from = performance.now()
  setInterval(() => {
    const now = computedMs()
    const to = performance.now()
    const faults = faultsSoFar()
    stretches.push({ busyMs: now - before, from, to, faults: faults - faultsBefore })
    faultsBefore = faults
    before = now
    from = to
  }, 1).unref()
  const inOrder = (): Stretch[] => stretches.sort((a, b) => a.busyMs - b.busyMs)
  return {
    share: (p) =>
      stretches.length === 0
        ? undefined
        : percentile(
            inOrder().map(({ busyMs }) => busyMs),
            p,
          ),
    collectedMs: () => {
      collections.push(...observer.takeRecords())
      const longest = inOrder().at(-1)
      return longest && collections.reduce((sum, entry) => sum + sharedMs(entry, longest), 0)
    },
    faults: () => inOrder().at(-1)?.faults,
    reset: () => {
      stretches = []
      observer.takeRecords()
      collections = []
    },
  }
}

interface Stretch {
  readonly busyMs: number
  readonly from: number
  readonly to: number
  readonly faults: number
}

function sharedMs({ startTime, duration }: PerformanceEntry, { from, to }: Stretch): number {
  return Math.max(0, Math.min(to, startTime + duration) - Math.max(from, startTime))
}
