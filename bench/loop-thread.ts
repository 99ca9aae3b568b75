/** What the loop's own thread has done so far, as Linux tells it. */
import { openSync, readSync } from 'node:fs'

export interface LoopThread {
  readonly computedMs: number
  /** It could have run, and other processes had the cores. */
  readonly waitedMs: number
}

/** A way to ask, for a few microseconds each time; none where the system does not tell. */
export function loopThread(): (() => LoopThread) | undefined {
  return ofThread('schedstat', (text) => {
    const [computed, waited] = text.split(' ')
    return { computedMs: Number(computed) / 1e6, waitedMs: Number(waited) / 1e6 }
  })
}

/** How often the thread touched memory that it had to be given first. A fault costs 0.2 us where nothing is virtual, and up to 12 us in a virtual machine that gives memory back to its host. */
export function loopFaults(): (() => number) | undefined {
  return ofThread('stat', (text) => Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[7]))
}

/** What the host took from a virtual machine: its threads count it as their own. In steps of 10 ms, and some 50 us to ask. */
export function stolenMs(): (() => number) | undefined {
  return ofFile('/proc/stat', (text) => 10 * Number(text.slice(0, text.indexOf('\n')).trim().split(/\s+/)[8] ?? 0))
}

function ofThread<T>(file: 'schedstat' | 'stat', read: (text: string) => T): (() => T) | undefined {
  return ofFile(`/proc/${process.pid}/task/${process.pid}/${file}`, read)
}

function ofFile<T>(path: string, read: (text: string) => T): (() => T) | undefined {
  const bytes = Buffer.alloc(1024)
  try {
    const open = openSync(path, 'r')
    return () => read(bytes.toString('latin1', 0, readSync(open, bytes, 0, bytes.length, 0)))
  } catch {
    return undefined
  }
}
