/** A measured process tells its parent where it listens and, when asked, what it has used since it was asked to begin. */
import { openSync, readSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { percentile } from '../harness.js'

export interface Use {
  readonly cpuUs: number
  /** The most memory that the process ever had. */
  readonly peakMb: number
  readonly stallP999Ms: number
  /** The same without the time for which the process waited for a core; where the system tells. */
  readonly ownStallP999Ms: number | undefined
}

export function reportUse(port: number): void {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  let own: ReturnType<typeof watchOwnStalls>
  process.on('message', (message: 'use' | 'reset' | 'watch') => {
    const { user, system } = process.cpuUsage()
    const use: Use = {
      cpuUs: user + system,
      peakMb: process.resourceUsage().maxRSS / 1024,
      stallP999Ms: delay.percentile(99.9) / 1e6,
      ownStallP999Ms: own?.p999(),
    }
    if (message !== 'use') delay.reset()
    if (message === 'watch') {
      own ??= watchOwnStalls()
      own?.reset()
    }
    process.send!(use)
  })
  process.on('disconnect', () => process.exit())
  process.send!({ port })
}

/**
 * How late a timer of one millisecond is, less what the thread stood in the run queue meanwhile. Linux tells the latter;
 * elsewhere there is no such figure. Asking costs about one percent of a core, so it is done only where it is wanted.
 */
function watchOwnStalls(): { p999(): number | undefined; reset(): void } | undefined {
  const bytes = Buffer.alloc(128)
  let file: number
  try {
    file = openSync(`/proc/${process.pid}/task/${process.pid}/schedstat`, 'r')
  } catch {
    return undefined
  }
  const waitedMs = (): number => {
    const size = readSync(file, bytes, 0, bytes.length, 0)
    return Number(bytes.toString('latin1', 0, size).split(' ')[1]) / 1e6
  }
  let stalls: number[] = []
  let before = performance.now()
  let waitedBefore = waitedMs()
  setInterval(() => {
    const now = performance.now()
    const waited = waitedMs()
    stalls.push(Math.max(0, now - before - 1 - (waited - waitedBefore)))
    before = now
    waitedBefore = waited
  }, 1).unref()
  return {
    p999: () =>
      stalls.length === 0
        ? undefined
        : percentile(
            stalls.sort((a, b) => a - b),
            0.999,
          ),
    reset: () => {
      stalls = []
    },
  }
}
