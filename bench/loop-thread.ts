/** What the loop's own thread has done so far, as Linux tells it. */
import { openSync, readSync } from 'node:fs'

export interface LoopThread {
  readonly computedMs: number
  /** It could have run, and other processes had the cores. */
  readonly waitedMs: number
}

/** How often the thread touched memory that it had to be given first. A fault costs 0.2 us where nothing is virtual, and up to 12 us in a virtual machine that gives memory back to its host. */
export function loopFaults(): (() => number) | undefined {
  const bytes = Buffer.alloc(1024)
  try {
    const file = openSync(`/proc/${process.pid}/task/${process.pid}/stat`, 'r')
    return () => {
      const size = readSync(file, bytes, 0, bytes.length, 0)
      const text = bytes.toString('latin1', 0, size)
      return Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[7])
    }
  } catch {
    return undefined
  }
}

/** A way to ask, for a few microseconds each time; none where the system does not tell. */
export function loopThread(): (() => LoopThread) | undefined {
  const bytes = Buffer.alloc(128)
  try {
    const file = openSync(`/proc/${process.pid}/task/${process.pid}/schedstat`, 'r')
    return () => {
      const size = readSync(file, bytes, 0, bytes.length, 0)
      const [computed, waited] = bytes.toString('latin1', 0, size).split(' ')
      return { computedMs: Number(computed) / 1e6, waitedMs: Number(waited) / 1e6 }
    }
  } catch {
    return undefined
  }
}
