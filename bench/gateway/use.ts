/** A measured process tells its parent where it listens and, when asked, what it has used since it was asked to begin. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { loopThread } from '../loop-thread.js'
import type { HeldStretch } from '../loop-watch.js'
import { LoopWatch } from '../loop-watch.js'

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
  /** Stretches that are not counted, as the host had the machine. */
  readonly stolen: number | undefined
  /** The longest by the clock. */
  readonly held: HeldStretch | undefined
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
  let loop: LoopWatch | undefined
  process.on('message', (message: 'use' | 'reset' | 'watch') => {
    const { user, system } = process.cpuUsage()
    const longest = loop?.longest()
    const use: Use = {
      cpuUs: user + system,
      peakMb: process.resourceUsage().maxRSS / 1024,
      stallP999Ms: delay.percentile(99.9) / 1e6,
      busyP999Ms: loop?.busyMs(0.999),
      busyMaxMs: longest?.busyMs,
      collectedMs: longest?.collectedMs,
      faults: longest?.faults,
      stolen: longest?.stolen,
      held: longest?.held,
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

/** Between two ticks of a timer; none where the system does not tell what a thread computed. */
function watchLoop(): LoopWatch | undefined {
  if (!loopThread()) return undefined
  const watch = new LoopWatch()
  setInterval(() => watch.look(), 1).unref()
  return watch
}

/** Milliseconds by the clock, the collector's part, and what it waited for a core. */
export function shownHeld({ held }: Pick<Use, 'held'>): string {
  return held ? [held.ms, held.collectedMs, held.waitedMs].map((ms) => ms.toFixed(1)).join('/') : '?'
}
