/** A measured process tells its parent where it listens and, when asked, what it has used. */
import { monitorEventLoopDelay } from 'node:perf_hooks'

export interface Use {
  readonly cpuUs: number
  readonly rssMb: number
  readonly stallP999Ms: number
}

export function reportUse(port: number): void {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  process.on('message', (message: 'use' | 'reset') => {
    if (message === 'reset') delay.reset()
    const { user, system } = process.cpuUsage()
    const use: Use = {
      cpuUs: user + system,
      rssMb: process.memoryUsage.rss() / 1048576,
      stallP999Ms: delay.percentile(99.9) / 1e6,
    }
    process.send!(use)
  })
  process.on('disconnect', () => process.exit())
  process.send!({ port })
}
